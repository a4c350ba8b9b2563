"""Automation: pushes to a URL, and schedules."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, cast

from headgate.client.bulk import Filter
from headgate.client.calls import Calls, segment
from headgate.client.entries import Fields, Pairs, encoded
from headgate.client.shapes.answers import (
    Missed,
    PushAttempt,
    PushBody,
    PushInfo,
    PushReplay,
    PushSignature,
    ScheduleInfo,
)

_TEST_MS_MAX = 60_000


class Push:
    """The push of a group, or of a group over a pattern. Creating this object sends nothing.

    Example:
        push = hg.group("orders", "billing").push
        made = await push.set("https://hooks.example/orders")
        print(made.get("secret"))
    """

    def __init__(
        self,
        calls: Calls,
        path: str,
        match: str | None = None,
        options: Mapping[str, object] | None = None,
    ) -> None:
        """See `Group.push` and `Groups.push`."""
        self._calls = calls
        self._path = path
        self._query = {"match": match}
        self._options = options or {}

    async def set(
        self,
        url: str,
        *,
        concurrency: int | None = None,
        timeout_ms: int | None = None,
        body: PushBody | None = None,
        batch_max: int | None = None,
        signature: PushSignature | None = None,
        disable_after_ms: int | None = None,
        attempts_days: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> PushInfo:
        """Create the push, or replace it; what is None is as the gateway has it.

        The answer has the `secret` when that is new, and then only. A push that was there keeps its
        own, if the gateway can still read it.

        Args:
            url: where requests go.
            concurrency: requests at a time, at most.
            timeout_ms: time for a request with its answer.
            body: the form of what is sent: an entry, several, or events of CloudEvents.
            batch_max: entries of a request that has several.
            signature: `v1`, by the secret; `v1a`, by a key of the gateway.
            disable_after_ms: behind nothing but failures for so long, the push is disabled.
            attempts_days: attempts are kept for so many days; 0: not at all.
            headers: of each request. Nobody is told their values again.

        Raises:
            InvalidRequest: the gateway does not send anything there.
            GroupNotFound: there is no such group.
            AnswerLost: it may be set; `rotate` makes a secret that you know.
        """
        parts = {
            "concurrency": concurrency,
            "timeout_ms": timeout_ms,
            "body": body,
            "batch_max": batch_max,
            "signature": signature,
            "disable_after_ms": disable_after_ms,
            "attempts_days": attempts_days,
            "headers": None if headers is None else dict(headers),
        }
        sent = {"url": url, **self._options} | {
            name: part for name, part in parts.items() if part is not None
        }
        # A second request would not get the secret that the first one made.
        answer = await self._calls.call(
            "PUT", self._path, body=sent, query=self._query, is_repeatable=False
        )
        return cast(PushInfo, answer)

    async def info(self) -> PushInfo:
        """Return its state and the latest answers of its receiver."""
        return cast(PushInfo, await self._calls.call("GET", self._path, query=self._query))

    async def pause(self) -> PushInfo:
        """Send nothing until `resume`. Requests on their way end."""
        return cast(PushInfo, await self._act("pause"))

    async def resume(self) -> PushInfo:
        """Go on after a pause, or after the push was disabled."""
        return cast(PushInfo, await self._act("resume"))

    async def retry(self) -> int:
        """Send failed entries that wait for a retry now; return their number."""
        return cast(int, (await self._act("retry"))["entries"])

    async def test(self) -> PushAttempt:
        """Send a test event now, and return its result. No entry is sent or acknowledged."""
        path = f"{self._path}/test"
        answer = await self._calls.call("POST", path, query=self._query, wait_ms=_TEST_MS_MAX)
        return cast(PushAttempt, answer)

    async def rotate(self, *, overlap_ms: int | None = None) -> str:
        """Replace the secret, and return the new one.

        Args:
            overlap_ms: requests are signed with the old one as well for so long; None: a day.
        """
        body = {} if overlap_ms is None else {"overlap_ms": overlap_ms}
        path = f"{self._path}/rotate"
        answer = await self._calls.call("POST", path, body=body, query=self._query)
        return cast(str, answer["secret"])

    async def attempts(
        self, entry_id: str | None = None, *, limit: int = 100
    ) -> AsyncGenerator[PushAttempt]:
        """Yield the attempts that are kept, newest first, by pages of `limit`.

        Args:
            entry_id: of the entry whose attempts are wanted; None: all.
            limit: attempts in one page.
        """
        path, query = f"{self._path}/attempts", {**self._query, "id": entry_id}
        async for attempt in self._calls.items(path, "attempts", limit=limit, query=query):
            yield cast(PushAttempt, attempt)

    async def replay(
        self,
        start: str,
        end: str = "+",
        *,
        filter: Filter | None = None,  # noqa: A002
        dry_run: bool = False,
    ) -> PushReplay:
        """Send entries of a range again, without moving the group. `info` has the progress.

        Args:
            start: an id, or a unix time in milliseconds; `-` is the first entry.
            end: likewise; `+` is the last entry that the group has read.
            filter: only entries that match.
            dry_run: only count the entries.
        """
        body: dict[str, object] = {"start": start, "end": end, "dry_run": dry_run}
        body |= {} if filter is None else {"filter": filter}
        path = f"{self._path}/replay"
        return cast(PushReplay, await self._calls.call("POST", path, body=body))

    async def cancel_replay(self) -> PushReplay:
        """Cancel the replay that runs."""
        return cast(PushReplay, await self._calls.call("DELETE", f"{self._path}/replay"))

    async def delete(self) -> None:
        """Delete it. The group stays, with what is pending."""
        await self._calls.call("DELETE", self._path, query=self._query)

    async def _act(self, name: str) -> dict[str, object]:
        path = f"{self._path}/{name}"
        answer = await self._calls.call("POST", path, query=self._query, is_repeatable=True)
        return cast(dict[str, object], answer)


class Schedule:
    """A schedule by its name. Creating this object sends nothing.

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
        """Change parts of the schedule; arguments that are None keep their value."""
        parts = {"stream": stream, "cron": cron, "time_zone": time_zone, "missed": missed}
        patch: dict[str, Any] = {} if fields is None else encoded(fields)
        patch |= {name: value for name, value in parts.items() if value is not None}
        return await self._patch(patch)

    async def pause(self) -> ScheduleInfo:
        """Run nothing until `resume`."""
        return await self._patch({"paused": True})

    async def resume(self) -> ScheduleInfo:
        """End the pause. Due times missed during the pause are not made up for."""
        return await self._patch({"paused": False})

    async def info(self) -> ScheduleInfo:
        """Return its next due time, its last entry and its last problem."""
        return cast(ScheduleInfo, await self._calls.call("GET", self._path))

    async def run(self) -> str:
        """Append its entry now and return the id. Its due times do not change."""
        return cast(str, (await self._calls.call("POST", f"{self._path}/run"))["id"])

    async def delete(self) -> None:
        """Delete it. Its stream stays."""
        await self._calls.call("DELETE", self._path)

    async def _patch(self, patch: dict[str, Any]) -> ScheduleInfo:
        return cast(ScheduleInfo, await self._calls.call("PATCH", self._path, body=patch))
