"""Steps: results of the handlers of an entry, stored until the entry is settled.

They are rows of a table of the group, the stream `STREAM.GROUP.steps`. Its keys are

- `ENTRY/step/NAME`, `ENTRY/sleep/NUMBER` and `ENTRY/wait/KEY` for what an entry has done,
- `signal/KEY` for the last signal of a key, and `waiting/KEY/ENTRY` for entries that wait for it.

Each row is written by a commit that succeeds only while this consumer has the entry.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, Literal, TypeVar
from urllib.parse import quote

from headgate.client.calls import Calls, segment
from headgate.client.commits import Step, delete_row, put_row
from headgate.client.live import Live
from headgate.client.problems import StreamNotFound
from headgate.client.shapes.settings import StreamConfig
from headgate.client.stream import Stream
from headgate.client.table import Row

T = TypeVar("T")

STEPS_MAX: Final = 90
"""Maximum number of rows per entry: the commit that settles it removes them in its 100 steps."""

_KEPT_MS: Final = 90 * 86_400_000
"""How long rows are kept that no handler has removed, because the entry became a dead letter."""

_CONFIG: Final[StreamConfig] = {
    "key_field": "key",
    "retain": "latest",
    "compact_after_ms": 60_000,
    "tombstone_ms": 60_000,
    "max_age_ms": _KEPT_MS,
}

_WAKER: Final = "headgate-signal"
"""A consumer without entries. A nack in its name affects only entries that no consumer has."""

_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

Duration = str | float | timedelta
"""Text such as `2d`, `90m` or `500ms`, a number of seconds, or a timedelta."""


class Paused(BaseException):
    """Ends a handler whose entry is delivered again later. It passes through `async with job`."""


Settling = Literal["ack", "extend"] | int
"""How a commit settles its entry: acknowledge it, extend it, or give it back for this long (ms)."""

Commit = Callable[[Sequence[Step], Settling], Awaitable[list[list[str]]]]


def milliseconds(duration: Duration) -> int:
    """Convert a duration to milliseconds. Raises ValueError."""
    if isinstance(duration, timedelta):
        return round(duration.total_seconds() * 1000)
    if isinstance(duration, str):
        parts = re.fullmatch(r"(\d+)(ms|s|m|h|d)", duration)
        if parts is None:
            raise ValueError(f"{duration!r} is not a duration such as 2d, 3h, 90m, 10s or 500ms")
        return int(parts[1]) * _UNITS[parts[2]]
    return round(duration * 1000)


class StepTable:
    """The steps of all entries of a group."""

    def __init__(self, calls: Calls, live: Live, stream: str, group: str) -> None:
        self.name = f"{stream}.{group}.steps"
        self._calls = calls
        self._stream = Stream(calls, live, self.name, None)
        self._table = self._stream.table()
        self._group_path = f"/v1/streams/{segment(stream)}/groups/{segment(group)}"

    async def rows(self, prefix: str) -> dict[str, Row]:
        """Return the rows whose keys start with a prefix, by key without the prefix."""
        found = self._table.rows(prefix=prefix)
        try:
            return {row.key.removeprefix(prefix): row async for row in found}
        except StreamNotFound:
            return {}

    async def wake(self, ids: Sequence[str]) -> None:
        """Deliver entries now that were given back for later."""
        if ids:
            body = {"ids": list(ids), "mode": "fail", "delay_ms": 0}
            query = {"consumer": _WAKER}
            await self._calls.call("POST", f"{self._group_path}/nack", body=body, query=query)

    async def signal(self, key: str, value: object) -> None:
        """See `Group.signal`."""
        fields = {"value": json.dumps(value)}
        await self.changed(lambda: self._table.put(_signal(key), fields))
        await self.wake(list(await self.rows(_waiting(key, ""))))

    async def changed(self, change: Callable[[], Awaitable[T]]) -> T:
        """Change rows. Creates the table if it does not exist."""
        try:
            return await change()
        except StreamNotFound:
            await self._stream.create(_CONFIG)
            return await change()


class Steps:
    """The steps of an entry, for one run of its handler."""

    def __init__(self, table: StepTable, entry_id: str, commit: Commit) -> None:
        """Take the table, and a function that commits steps while this consumer has the entry."""
        self._table = table
        self._entry_id = entry_id
        self._commit = commit
        self._known: dict[str, Row] | None = None  # by key without the prefix
        self._asked: set[str] = set()
        self._sleeps = 0

    def removed(self) -> list[Step]:
        """Return the steps of a commit that removes all of these rows."""
        return [delete_row(self._table.name, self._key(name)) for name in self._known or ()]

    async def step(self, name: str, function: Callable[[], Any]) -> Any:
        """See `Job.step`."""
        known = await self._find(f"step/{name}")
        if known is not None:
            return json.loads(known.fields["result"])
        is_async = inspect.iscoroutinefunction(function)
        result = function() if is_async else await asyncio.to_thread(function)
        if inspect.isawaitable(result):
            result = await result
        await self._remember(f"step/{name}", {"result": json.dumps(result)}, "extend")
        return result

    async def sleep(self, duration: Duration) -> None:
        """See `Job.sleep`."""
        self._sleeps += 1
        name = f"sleep/{self._sleeps}"
        known = await self._find(name)
        if known is None:
            wait_ms = milliseconds(duration)
            await self._remember(name, {"for_ms": str(wait_ms)}, wait_ms)
            raise Paused
        left_ms = await self._left_ms(name, known)
        if left_ms > 0:
            await self._commit([], left_ms)
            raise Paused

    async def wait_for(self, key: str, within: Duration) -> Any:
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
            await self._remember(name, {"value": str(signal.fields["value"])}, "extend", is_over)
            return json.loads(signal.fields["value"])
        if known is None:
            wait_ms, note = milliseconds(within), put_row(self._table.name, waiting, {})
            await self._remember(name, {"for_ms": str(wait_ms)}, wait_ms, note)
        else:
            left_ms = await self._left_ms(name, known)
            if left_ms <= 0:
                await self._remember(name, {"timed_out": "1"}, "extend", is_over)
                raise TimeoutError(f"nobody has signalled {key!r}")
            await self._commit([], left_ms)
        # A signal between our first look and our row may not have seen the row: look again.
        if await self._table.rows(_signal(key)):
            await self._table.wake([self._entry_id])
        raise Paused

    async def _left_ms(self, name: str, known: Row) -> int:
        """Return the remaining time of a wait, by the gateway's clock: ids contain its time."""
        wait_ms = int(known.fields["for_ms"])
        since_ms = int(known.fields.get("since_ms", _ms_of(known.id)))
        fields = {"for_ms": str(wait_ms), "since_ms": str(since_ms)}
        return since_ms + wait_ms - await self._remember(name, fields, "extend")

    async def _find(self, name: str) -> Row | None:
        if name in self._asked:
            raise ValueError(f"the handler has used {name} already: give each step its own name")
        self._asked.add(name)
        if self._known is None:
            self._known = await self._table.rows(self._key(""))
        if name not in self._known and len(self._known) >= STEPS_MAX:
            raise ValueError(f"an entry has at most {STEPS_MAX} steps")
        return self._known.get(name)

    async def _remember(
        self, name: str, fields: Mapping[str, str], settling: Settling, *others: Step
    ) -> int:
        """Write a row, and return the time of the gateway (unix ms)."""
        key = self._key(name)
        row = put_row(self._table.name, key, fields)
        [[entry_id], *_] = await self._table.changed(lambda: self._commit([row, *others], settling))
        assert self._known is not None
        self._known[name] = Row(key, entry_id, {**fields})
        return _ms_of(entry_id)

    def _key(self, name: str) -> str:
        return f"{self._entry_id}/{name}"


def _signal(key: str) -> str:
    return f"signal/{quote(key, safe='')}"


def _ms_of(entry_id: str) -> int:
    return int(entry_id.partition("-")[0])


def _waiting(key: str, entry_id: str) -> str:
    return f"waiting/{quote(key, safe='')}/{entry_id}"
