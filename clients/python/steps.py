"""Steps: what the handlers of an entry have done, remembered until the entry is settled.

They are rows of a table beside the group, `STREAM.GROUP.steps`. Its keys are

- `ENTRY/step/NAME`, `ENTRY/sleep/NUMBER` and `ENTRY/wait/KEY` for what an entry has done,
- `signal/KEY` for what entries may wait for, and `waiting/KEY/ENTRY` for those that do.

Each row is written by a commit that holds only while the entry is this consumer's.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote

from headgate.client.calls import Calls, segment
from headgate.client.commits import Step, delete_row, put_row
from headgate.client.problems import StreamNotFound

T = TypeVar("T")

STEPS_MAX: Final = 90
"""Rows of one entry: they are removed by the commit that settles it, which has 100 steps."""

_KEPT_MS: Final = 90 * 86_400_000
"""What no handler has removed, as its entry became a dead letter, goes after that time."""

_CONFIG: Final = {
    "key_field": "key",
    "retain": "latest",
    "compact_after_ms": 60_000,
    "tombstone_ms": 60_000,
    "max_age_ms": _KEPT_MS,
}

_WAKER: Final = "headgate-signal"
"""A consumer that holds nothing. What it gives back is only what nobody holds."""

_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

Duration = str | float | timedelta
"""A time such as `2d`, `90m` or `500ms`; a number of seconds; or a timedelta."""


class Paused(BaseException):
    """Ends a handler whose entry comes again later. It passes through `async with job`."""


OwnStep = Callable[[], Step]
"""Returns the step that settles the entry, as it is held when the commit is sent."""

Later = Callable[[int], OwnStep]

Commit = Callable[[Sequence[Step | OwnStep]], Awaitable[list[list[str]]]]


class StepRow(NamedTuple):
    at_ms: int  # when it was written, by the clock of the gateway
    fields: Mapping[str, str]


def milliseconds(duration: Duration) -> int:
    """Return a duration in milliseconds. Raises ValueError."""
    if isinstance(duration, timedelta):
        return round(duration.total_seconds() * 1000)
    if isinstance(duration, str):
        parts = re.fullmatch(r"(\d+)(ms|s|m|h|d)", duration)
        if parts is None:
            raise ValueError(f"{duration!r} is no time such as 2d, 3h, 90m, 10s or 500ms")
        return int(parts[1]) * _UNITS[parts[2]]
    return round(duration * 1000)


class StepTable:
    """The steps of all entries of a group."""

    def __init__(self, calls: Calls, stream: str, group: str) -> None:
        self._calls = calls
        self.name = f"{stream}.{group}.steps"
        self._group_path = f"/v1/streams/{segment(stream)}/groups/{segment(group)}"

    async def rows(self, prefix: str) -> dict[str, StepRow]:
        """Return rows by the rest of their keys."""
        path, rows = f"/v1/streams/{segment(self.name)}/table", dict[str, StepRow]()
        query: dict[str, Any] = {"prefix": prefix, "limit": 1000}
        while True:
            try:
                page = await self._calls.call("GET", path, query=query)
            except StreamNotFound:
                return {}
            for row in page["rows"]:
                rows[row["key"].removeprefix(prefix)] = StepRow(_ms_of(row["id"]), row["fields"])
            if page["next_after_key"] is None:
                return rows
            query |= {"after_key": page["next_after_key"], "as_of": page["as_of"]}

    async def create(self) -> None:
        path = f"/v1/streams/{segment(self.name)}"
        await self._calls.call("PUT", path, body=_CONFIG)

    async def wake(self, ids: Sequence[str]) -> None:
        """Let entries be delivered now that were given back for later."""
        if ids:
            body = {"ids": list(ids), "mode": "fail", "delay_ms": 0}
            query = {"consumer": _WAKER}
            await self._calls.call("POST", f"{self._group_path}/nack", body=body, query=query)

    async def signal(self, key: str, value: object) -> None:
        """See `Group.signal`."""
        row = put_row(self.name, _signal(key), {"value": json.dumps(value)})
        await self.changed(lambda: self._calls.call("POST", "/v1/commit", body={"steps": [row]}))
        await self.wake(list(await self.rows(_waiting(key, ""))))

    async def changed(self, change: Callable[[], Awaitable[T]]) -> T:
        """Change rows; the table is created if it is not there."""
        try:
            return await change()
        except StreamNotFound:
            await self.create()
            return await change()


class Steps:
    """The steps of one entry, for one run of its handler."""

    def __init__(self, table: StepTable, entry_id: str, commit: Commit) -> None:
        """Take the table, and what commits steps while the entry is this consumer's."""
        self._table = table
        self._entry_id = entry_id
        self._commit = commit
        self._known: dict[str, StepRow] | None = None  # by the rest of their keys
        self._asked: set[str] = set()
        self._sleeps = 0

    def removed(self) -> list[Step]:
        """Return the steps of a commit that forget all of this."""
        return [delete_row(self._table.name, self._key(name)) for name in self._known or ()]

    async def step(self, name: str, function: Callable[[], Any], extend: OwnStep) -> Any:
        """See `Job.step`; `extend` is the step that restarts the idle time of the entry."""
        known = await self._find(f"step/{name}")
        if known is not None:
            return json.loads(known.fields["result"])
        is_async = inspect.iscoroutinefunction(function)
        result = function() if is_async else await asyncio.to_thread(function)
        if inspect.isawaitable(result):
            result = await result
        await self._remember(f"step/{name}", {"result": json.dumps(result)}, extend)
        return result

    async def sleep(self, duration: Duration, extend: OwnStep, later: Later) -> None:
        """See `Job.sleep`; `later` returns the step that gives the entry back for so long (ms)."""
        self._sleeps += 1
        name = f"sleep/{self._sleeps}"
        known = await self._find(name)
        if known is None:
            wait_ms = milliseconds(duration)
            await self._remember(name, {"for_ms": str(wait_ms)}, later(wait_ms))
            raise Paused
        left_ms = await self._left_ms(name, known, extend)
        if left_ms > 0:
            await self._commit([later(left_ms)])
            raise Paused

    async def wait_for(self, key: str, within: Duration, extend: OwnStep, later: Later) -> Any:
        """See `Job.wait_for`."""
        name = f"wait/{quote(key, safe='')}"
        known = await self._find(name)
        if known is not None and "value" in known.fields:
            return json.loads(known.fields["value"])
        if known is not None and "timed_out" in known.fields:
            raise TimeoutError(f"nobody has signalled {key!r}")
        waiting = _waiting(key, self._entry_id)
        is_over = delete_row(self._table.name, waiting)
        signal = (await self._table.rows(_signal(key))).get("")
        if signal is not None:
            await self._remember(name, {"value": signal.fields["value"]}, is_over, extend)
            return json.loads(signal.fields["value"])
        if known is None:
            wait_ms, note = milliseconds(within), put_row(self._table.name, waiting, {})
            await self._remember(name, {"for_ms": str(wait_ms)}, note, later(wait_ms))
        else:
            left_ms = await self._left_ms(name, known, extend)
            if left_ms <= 0:
                await self._remember(name, {"timed_out": "1"}, is_over, extend)
                raise TimeoutError(f"nobody has signalled {key!r}")
            await self._commit([later(left_ms)])
        # Whoever has signalled between our look and our note may not have seen the note.
        if await self._table.rows(_signal(key)):
            await self._table.wake([self._entry_id])
        raise Paused

    async def _left_ms(self, name: str, known: StepRow, extend: OwnStep) -> int:
        """Return how much of a wait is left, by the clock of the gateway: ids have its time."""
        wait_ms = int(known.fields["for_ms"])
        since_ms = int(known.fields.get("since_ms", known.at_ms))
        fields = {"for_ms": str(wait_ms), "since_ms": str(since_ms)}
        return since_ms + wait_ms - await self._remember(name, fields, extend)

    async def _find(self, name: str) -> StepRow | None:
        if name in self._asked:
            raise ValueError(f"a handler has one {name}: give each step a name of its own")
        self._asked.add(name)
        if self._known is None:
            self._known = await self._table.rows(self._key(""))
        if name not in self._known and len(self._known) >= STEPS_MAX:
            raise ValueError(f"an entry has at most {STEPS_MAX} steps")
        return self._known.get(name)

    async def _remember(self, name: str, fields: Mapping[str, str], *others: Step | OwnStep) -> int:
        """Write a row, and return the time of the gateway (unix ms)."""
        row = put_row(self._table.name, self._key(name), dict(fields))
        [[entry_id], *_] = await self._table.changed(lambda: self._commit([row, *others]))
        assert self._known is not None
        self._known[name] = StepRow(_ms_of(entry_id), fields)
        return _ms_of(entry_id)

    def _key(self, name: str) -> str:
        return f"{self._entry_id}/{name}"


def _signal(key: str) -> str:
    return f"signal/{quote(key, safe='')}"


def _ms_of(entry_id: str) -> int:
    return int(entry_id.partition("-")[0])


def _waiting(key: str, entry_id: str) -> str:
    return f"waiting/{quote(key, safe='')}/{entry_id}"
