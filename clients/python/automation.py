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
        """Create the push or replace it. None means the default of the gateway.

        The answer has the `secret` only when it is new. An existing push keeps its secret if the
        gateway can still read it.

        Args:
            url: URL of the receiver.
            concurrency: Maximum number of concurrent requests.
            timeout_ms: Timeout for a request, including its answer.
            body: Format of the body: one entry, several entries, or CloudEvents.
            batch_max: Maximum number of entries in a request that has several.
            signature: `v1`: signed with the secret. `v1a`: signed with a key of the gateway.
            disable_after_ms: Disable the push after only failures for this long.
            attempts_days: How many days attempts are kept. 0: not at all.
            headers: Headers of each request. The gateway does not return their values.

        Raises:
            InvalidRequest: The gateway does not send requests to this URL.
            GroupNotFound: The group does not exist.
            AnswerLost: The push may have been set. Call `rotate` to get a secret that you know.
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
        # A repeated request would not return the secret that the first one created.
        answer = await self._calls.call(
            "PUT", self._path, body=sent, query=self._query, is_repeatable=False
        )
        return cast(PushInfo, answer)

    async def info(self) -> PushInfo:
        """Return the state of the push and the latest answers of the receiver."""
        return cast(PushInfo, await self._calls.call("GET", self._path, query=self._query))

    async def pause(self) -> PushInfo:
        """Send nothing until `resume`. Requests in progress finish."""
        return cast(PushInfo, await self._act("pause"))

    async def resume(self) -> PushInfo:
        """Resume after a pause, or after the push was disabled."""
        return cast(PushInfo, await self._act("resume"))

    async def retry(self) -> int:
        """Retry failed entries now instead of waiting, and return their number."""
        return cast(int, (await self._act("retry"))["entries"])

    async def test(self) -> PushAttempt:
        """Send a test event now, and return the result. No entry is sent or acknowledged."""
        path = f"{self._path}/test"
        answer = await self._calls.call("POST", path, query=self._query, wait_ms=_TEST_MS_MAX)
        return cast(PushAttempt, answer)

    async def rotate(self, *, overlap_ms: int | None = None) -> str:
        """Replace the secret, and return the new one.

        Args:
            overlap_ms: How long requests are also signed with the old secret. Default: one day.
        """
        body = {} if overlap_ms is None else {"overlap_ms": overlap_ms}
        path = f"{self._path}/rotate"
        answer = await self._calls.call("POST", path, body=body, query=self._query)
        return cast(str, answer["secret"])

    async def attempts(
        self, entry_id: str | None = None, *, limit: int = 100
    ) -> AsyncGenerator[PushAttempt]:
        """Yield the stored attempts, newest first, in pages of `limit`.

        Args:
            entry_id: Only attempts for this entry. None: all attempts.
            limit: Number of attempts per page.
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
        """Send the entries of a range again, without moving the group. `info` shows the progress.

        Args:
            start: An id, or a unix time in ms. `-`: the first entry.
            end: An id, or a unix time in ms. `+`: the last entry that the group has read.
            filter: Only entries that match.
            dry_run: Only count the entries.
        """
        body: dict[str, object] = {"start": start, "end": end, "dry_run": dry_run}
        body |= {} if filter is None else {"filter": filter}
        path = f"{self._path}/replay"
        return cast(PushReplay, await self._calls.call("POST", path, body=body))

    async def cancel_replay(self) -> PushReplay:
        """Cancel the current replay."""
        return cast(PushReplay, await self._calls.call("DELETE", f"{self._path}/replay"))

    async def delete(self) -> None:
        """Delete the push. The group and its pending entries remain."""
        await self._calls.call("DELETE", self._path, query=self._query)

    async def _act(self, name: str) -> dict[str, object]:
        path = f"{self._path}/{name}"
        answer = await self._calls.call("POST", path, query=self._query, is_repeatable=True)
        return cast(dict[str, object], answer)


class Schedule:
    """A schedule by name. Creating this object sends nothing.

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
        """Create the schedule or replace it.

        Args:
            stream: Stream to append the entries to.
            fields: Fields of each entry. The gateway adds `_schedule` and `_due_ms` after them.
            cron: Minute, hour, day of month, month, day of week.
            time_zone: IANA time zone name.
            missed: What to do with due times that were missed: `run_once` runs the latest of them
                late, `skip` runs none.
            paused: Whether the schedule is paused until `resume`.

        Raises:
            InvalidRequest: The expression or the time zone is not valid, or the time never occurs.
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
        """Change parts of the schedule. Arguments that are None keep their value."""
        parts = {"stream": stream, "cron": cron, "time_zone": time_zone, "missed": missed}
        patch: dict[str, Any] = {} if fields is None else encoded(fields)
        patch |= {name: value for name, value in parts.items() if value is not None}
        return await self._patch(patch)

    async def pause(self) -> ScheduleInfo:
        """Append nothing until `resume`."""
        return await self._patch({"paused": True})

    async def resume(self) -> ScheduleInfo:
        """End the pause. Due times missed during the pause are skipped."""
        return await self._patch({"paused": False})

    async def info(self) -> ScheduleInfo:
        """Return the next due time, the last entry and the last problem."""
        return cast(ScheduleInfo, await self._calls.call("GET", self._path))

    async def run(self) -> str:
        """Append the entry now and return its id. Due times do not change."""
        return cast(str, (await self._calls.call("POST", f"{self._path}/run"))["id"])

    async def delete(self) -> None:
        """Delete the schedule. Its stream remains."""
        await self._calls.call("DELETE", self._path)

    async def _patch(self, patch: dict[str, Any]) -> ScheduleInfo:
        return cast(ScheduleInfo, await self._calls.call("PATCH", self._path, body=patch))
