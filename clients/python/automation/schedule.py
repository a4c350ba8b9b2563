"""Schedule: an entry that the gateway appends by itself, at the times of a cron expression."""

from __future__ import annotations

from typing import Any, cast

from headgate.client.calls import Calls, segment
from headgate.client.entries import Fields, Pairs, encoded
from headgate.client.shapes.answers import Missed, ScheduleInfo


class Schedule:
    """A schedule by its name. To make one asks nothing of the gateway.

    Example:
        nightly = hg.schedule("nightly")
        await nightly.set("jobs", {"kind": "report"}, "0 2 * * *", time_zone="Europe/Berlin")
    """

    def __init__(self, calls: Calls, name: str) -> None:
        """See `AsyncClient.schedule`."""
        self.name = name
        self._calls = calls
        self._path = f"/v1/schedules/{segment(name)}"

    async def set(
        self,
        stream: str,
        fields: Fields | Pairs,
        cron: str,
        *,
        time_zone: str = "UTC",
        missed: Missed = "run_once",
        paused: bool = False,
    ) -> ScheduleInfo:
        """Create the schedule, or replace it.

        Args:
            stream: which gets the entries.
            fields: of each entry; `_schedule` and `_due_ms` stand behind them.
            cron: minute, hour, day of month, month, day of week.
            time_zone: an IANA name.
            missed: what becomes of due times that nobody could run: the latest of them is run
                late, or none is.
            paused: nothing is due until `resume`.

        Raises:
            InvalidRequest: the expression or the time zone makes no sense, or the time never comes.
        """
        body = encoded(fields) | {"stream": stream, "cron": cron, "time_zone": time_zone}
        body |= {"missed": missed, "paused": paused}
        return cast(ScheduleInfo, await self._calls.call("PUT", self._path, body=body))

    async def update(
        self,
        *,
        stream: str | None = None,
        fields: Fields | Pairs | None = None,
        cron: str | None = None,
        time_zone: str | None = None,
        missed: Missed | None = None,
    ) -> ScheduleInfo:
        """Change parts of the schedule; those that are None stay."""
        parts = {"stream": stream, "cron": cron, "time_zone": time_zone, "missed": missed}
        patch: dict[str, Any] = {} if fields is None else encoded(fields)
        patch |= {name: value for name, value in parts.items() if value is not None}
        return await self._patch(patch)

    async def pause(self) -> ScheduleInfo:
        """Let nothing be due until `resume`."""
        return await self._patch({"paused": True})

    async def resume(self) -> ScheduleInfo:
        """End the pause. Due times of the pause are not made up for."""
        return await self._patch({"paused": False})

    async def info(self) -> ScheduleInfo:
        """Describe it: its next due time, its last entry, and its last problem."""
        return cast(ScheduleInfo, await self._calls.call("GET", self._path))

    async def run(self) -> str:
        """Append its entry now, and return the id. Its due times stay."""
        return cast(str, (await self._calls.call("POST", f"{self._path}/run"))["id"])

    async def delete(self) -> None:
        """Delete it. Its stream stays."""
        await self._calls.call("DELETE", self._path)

    async def _patch(self, patch: dict[str, Any]) -> ScheduleInfo:
        return cast(ScheduleInfo, await self._calls.call("PATCH", self._path, body=patch))
