"""Reads without a group: those alike go to the engine once, whatever the number of readers.

1. Read without waiting. Equal reads of one turn of the event loop are sent once.
2. If there was nothing, join the blocked read of this worker with the same cursors and bounds, or
   begin it. It waits without limit. Each reader has a timer of its own, and the last one to leave
   cancels the read.

The engine sees step 1 after the reader has asked. So nobody gets less than there was at that time,
though the read that is joined may be older.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from headgate.app.backends.remote.blocked import BlockedReads
from headgate.app.backends.remote.calls import Calls
from headgate.app.backends.remote.messages import error_of, facts_of
from headgate.engine.errors import Draining, StreamError
from headgate.engine.filters.reads import read_matching
from headgate.engine.replies import PatternRead, Portion, StreamRead
from headgate.engine.requests import Request
from headgate.engine.requests.bulk import BulkCursor, PlanRead
from headgate.engine.requests.entries import Read, StreamCursor
from headgate.engine.requests.patterns import ReadPattern

T = TypeVar("T")

_SERVED_AT_ONCE_MAX = 100
"""Readers that are served in one turn of the loop. Each one takes its caller about 100 µs."""


class _SharedRead:
    """A blocked read, and those who wait for it."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.task = task
        self.readers: dict[asyncio.Future[Any], None] = {}


class SharedReads:
    """Reads streams, and blocks if there is nothing to read."""

    def __init__(self, calls: Calls, blocked: BlockedReads) -> None:
        """Get ready.

        Args:
            calls: carries out requests.
            blocked: counts the reads that wait.
        """
        self._calls = calls
        self._blocked = blocked
        self._asked: dict[Request[Any], asyncio.Task[Any]] = {}  # in this turn of the loop
        self._shared: dict[Request[Any], _SharedRead] = {}

    async def read(self, request: Read) -> list[StreamRead]:
        """Read after each cursor, and block if there are no entries (XREAD BLOCK)."""
        if request.filters is not None:
            request = replace(request, cursors=tuple(request.cursors))
            return await read_matching(request, self._ask, self._wait_matching)
        reads = await self._ask(replace(request, cursors=tuple(request.cursors), wait_ms=0))
        if request.wait_ms == 0 or request.is_answered_by(reads):
            return reads
        cursors = tuple(StreamCursor(read.stream, read.after) for read in reads)
        waiting = replace(request, cursors=cursors, wait_ms=None)
        streams = [cursor.stream for cursor in cursors]
        return await self._wait(waiting, streams, request.wait_ms) or reads

    async def _wait_matching(self, request: Read, wait_ms: int | None) -> list[StreamRead] | None:
        streams = [cursor.stream for cursor in request.cursors]
        return await self._wait(replace(request, wait_ms=None), streams, wait_ms)

    async def plan(self, request: PlanRead) -> list[Portion]:
        """Plan the next read of each stream, and block if no stream has any entries."""
        portions = await self._ask(replace(request, cursors=tuple(request.cursors), wait_ms=0))
        if request.wait_ms == 0 or any(portion.backlog for portion in portions):
            return portions
        cursors = tuple(BulkCursor(each.stream, each.after, each.epoch) for each in portions)
        waiting = replace(request, cursors=cursors, wait_ms=_FOREVER_MS)
        streams = [cursor.stream for cursor in cursors]
        return await self._wait(waiting, streams, request.wait_ms) or portions

    async def read_pattern(self, request: ReadPattern) -> PatternRead:
        """Read all streams that match a pattern, and block if there is nothing to read."""
        read = await self._ask(replace(request, wait_ms=0))
        if request.wait_ms == 0 or read.reads or not read.is_at_end:
            return read
        waiting = replace(request, after=read.next_after, wait_ms=None)
        return await self._wait(waiting, [request.pattern], request.wait_ms) or read

    async def _ask(self, request: Request[T]) -> T:
        """Read without waiting, together with those who ask for the same in this turn."""
        task = self._asked.get(request)
        if task is None:
            loop = asyncio.get_running_loop()
            task = self._asked[request] = loop.create_task(self._outcome(request))
            if len(self._asked) == 1:
                loop.call_soon(self._asked.clear)
        outcome: T | StreamError = await asyncio.shield(task)
        return _reply(outcome)

    async def _wait(
        self, request: Request[T], streams: Sequence[bytes], wait_ms: int | None
    ) -> T | None:
        """Share one blocked read with all its readers; return None if the time is over.

        Args:
            request: the read, without a limit of time.
            streams: what it reads.
            wait_ms: how long this reader waits; None: without limit.
        """
        refusal = self._blocked.refusal
        if refusal is not None:
            raise refusal
        loop = asyncio.get_running_loop()
        shared = self._shared.get(request)
        if shared is None:
            task = loop.create_task(self._outcome(request, waits=True))
            shared = self._shared[request] = _SharedRead(task)
            task.add_done_callback(lambda _: self._serve(request))
        reader: asyncio.Future[T | StreamError | None] = loop.create_future()
        shared.readers[reader] = None
        timer = None if wait_ms is None else loop.call_later(wait_ms / 1000, _end, reader, None)
        try:
            with self._blocked.waiting([(stream, None) for stream in streams]):
                return _reply(await reader)
        finally:
            if timer is not None:
                timer.cancel()
            shared.readers.pop(reader, None)
            if not shared.readers:
                shared.task.cancel()
                if self._shared.get(request) is shared:
                    del self._shared[request]

    def drain(self) -> None:
        """End all reads that wait."""
        for shared in list(self._shared.values()):
            for reader in shared.readers:
                _end(reader, Draining())

    async def _outcome(self, request: Request[T], *, waits: bool = False) -> T | StreamError:
        try:
            return await self._calls.perform(request, waits=waits)
        except StreamError as error:
            return error.with_traceback(None)

    def _serve(self, request: Request[Any]) -> None:
        """Give the result of a blocked read to its readers."""
        shared = self._shared.get(request)
        if shared is not None and shared.task.done() and not shared.task.cancelled():
            del self._shared[request]
            self._serve_some(list(shared.readers), shared.task.result())

    def _serve_some(self, readers: list[asyncio.Future[Any]], outcome: Any) -> None:
        for reader in readers[:_SERVED_AT_ONCE_MAX]:
            _end(reader, outcome)
        remaining = readers[_SERVED_AT_ONCE_MAX:]
        if remaining:
            asyncio.get_running_loop().call_soon(self._serve_some, remaining, outcome)


_FOREVER_MS = 10 * 365 * 86_400_000
"""A plan has no wait without limit."""


def _end(reader: asyncio.Future[Any], outcome: Any) -> None:
    if not reader.done():
        reader.set_result(outcome)


def _reply(outcome: T | StreamError) -> T:
    """Return the reply of an outcome that several readers have, or raise an error of one's own."""
    if isinstance(outcome, StreamError):
        raise error_of(facts_of(outcome))
    return outcome
