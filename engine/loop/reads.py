"""Reads without a group: XREAD, and the plan of a bulk read."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from headgate.engine.decisions import bulk, entries
from headgate.engine.errors import StreamNotFound
from headgate.engine.filtered_reads import are_at_end, behind, has_news, read_matching
from headgate.engine.loop.executor import Executor
from headgate.engine.loop.wait_queue import QueueKey, Waiter
from headgate.engine.recent import Recent
from headgate.engine.replies import Portion, StreamRead
from headgate.engine.requests.bulk import PlanRead
from headgate.engine.requests.entries import Read
from headgate.engine.state.extent import Missing
from headgate.engine.threads import this_turn

_LOOKS_MAX = 100
"""Looks of a blocked read without a match, before it is answered with the place it has reached."""


class Reads:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        # The last reads, with their journal positions. A follower of a stream makes three reads in
        # turn: the one that blocks, the one after it was woken, and the one that comes next.
        self._last_reads: Recent[Read, tuple[int, list[StreamRead]]] = Recent()

    def forget(self) -> None:
        """Forget the reads that were remembered, because the state was replaced."""
        self._last_reads.clear()

    async def read(self, request: Read) -> list[StreamRead]:
        wait_ms = request.wait_ms
        cursors = entries.freeze(self._executor.current(), request.cursors)
        if request.is_filtered:
            request = replace(request, cursors=cursors)
            await this_turn().pause()  # many may be woken by one append
            reads = await read_matching(request, self._look, self._wait)
            return await self._executor.durable(reads)
        request = replace(request, cursors=cursors, wait_ms=0)

        def read_once() -> list[StreamRead]:
            return self.read_once(request)

        storage, served_at = self._executor.storage, -1

        def attempt() -> list[StreamRead] | None:
            nonlocal served_at
            reads, served_at = read_once(), storage.position
            return reads if request.is_answered_by(reads) else None

        cold = self._executor.cold
        reads = await cold.until_read(read_once)
        if wait_ms != 0 and not request.is_answered_by(reads):
            queues = [QueueKey(cursor.stream, None) for cursor in cursors]
            try:
                served = await self._executor.block(Waiter(queues, attempt), wait_ms)
                if served is None:
                    reads = read_once()
                else:  # nearly always nothing has come since
                    is_last = served_at == storage.position
                    reads = served if is_last else _with_later(served, read_once)
            except Missing:  # the wait is over: there is something to read
                reads = await cold.until_read(read_once)
        return await self._executor.durable(reads)

    async def _look(self, request: Read) -> list[StreamRead]:
        return await self._executor.cold.until_read(lambda: self.read_once(request))

    async def _wait(self, request: Read, wait_ms: int | None) -> list[StreamRead] | None:
        """Block until something comes that matches; what does not is looked at as it comes.

        Returns what was looked at last; None: nothing came, or it has to be read from disk.
        """
        latest: list[StreamRead] | None = None
        looks_left = _LOOKS_MAX

        def attempt() -> list[StreamRead] | None:
            nonlocal latest, request, looks_left
            latest = self.read_once(request)
            request = behind(request, latest)
            looks_left -= 1
            return latest if has_news(latest) or not (looks_left and are_at_end(latest)) else None

        queues = [QueueKey(cursor.stream, None) for cursor in request.cursors]
        with suppress(Missing):
            await self._executor.block(Waiter(queues, attempt), wait_ms)
        return latest

    def begin(self, request: Read) -> list[StreamRead] | None:
        """Read without waiting; None: the request may wait."""
        if request.wait_ms != 0:
            return None
        cursors = entries.freeze(self._executor.current(), request.cursors)
        with suppress(Missing):
            return self.read_once(replace(request, cursors=cursors))
        return None

    async def plan(self, request: PlanRead) -> list[Portion]:
        executor, wait_ms = self._executor, request.wait_ms
        request = replace(request, cursors=bulk.freeze(executor.current(), request.cursors))

        def look() -> list[Portion]:
            return bulk.plan_read(executor.current(), request, executor.now_ms()).reply

        def attempt() -> list[Portion] | None:
            portions = look()
            return portions if any(portion.backlog for portion in portions) else None

        until_read = executor.cold.until_read
        portions = await until_read(attempt)
        if portions is None and wait_ms != 0:
            queues = [QueueKey(cursor.stream, None) for cursor in request.cursors]
            with suppress(Missing):
                portions = await executor.block(Waiter(queues, attempt), wait_ms)
        if portions is None:
            portions = await until_read(look)
        return await executor.durable(portions)

    def read_once(self, request: Read) -> list[StreamRead]:
        """Read; repeat the last result for an equal request, which many readers send."""
        keyspace = self._executor.current()
        position = self._executor.storage.position
        last = self._last_reads.get(request)
        if last is not None and last[0] == position:
            return last[1]
        reads = entries.read(keyspace, request, 0).reply
        if request.size_bytes_max is not None:  # otherwise a whole stream might be remembered
            size_bytes = sum(entry.size_bytes for read in reads for entry in read.entries)
            self._last_reads.put(request, (position, reads), size_bytes)
        return reads


def _with_later(
    served: list[StreamRead], read_once: Callable[[], list[StreamRead]]
) -> list[StreamRead]:
    """Return the reads served to a reader, together with entries that arrived before it ran."""
    with suppress(StreamNotFound):
        later = read_once()
        if len(later) == len(served) and all(
            new.entries[: len(was.entries)] == was.entries
            for was, new in zip(served, later, strict=True)
        ):
            return later
    return served  # some of these entries are gone by now, but they were served
