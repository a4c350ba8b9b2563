"""Reads without a group block here; the servers are asked once for equal readers."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.performing import bulk, entries
from headgate.app.backends.redis.waiting.wait_queues import QueuedRead, WaitQueues
from headgate.engine.filtered_reads import are_at_end, behind, has_news, read_matching
from headgate.engine.loop.wait_queue import QueueKey
from headgate.engine.recent import Recent
from headgate.engine.replies import Portion, StreamRead
from headgate.engine.requests.bulk import PlanRead
from headgate.engine.requests.entries import Read


class StreamReaders:
    def __init__(self, client: Client, queues: WaitQueues) -> None:
        self._client = client
        self._queues = queues
        # Reads of followers, and the number of the change of the stream that they come after. Those
        # who follow side by side ask for the same, so it is read once.
        self._last: Recent[tuple[Read, int], list[StreamRead]] = Recent()
        self._under_way: dict[tuple[Read, int], asyncio.Task[list[StreamRead]]] = {}

    async def read(self, request: Read) -> list[StreamRead]:
        wait_ms = request.wait_ms
        if wait_ms == 0:
            return await entries.read_once(self._client, request)
        cursors = await entries.freeze(self._client, request.cursors)
        if request.filters is not None:
            request = replace(request, cursors=cursors)
            return await read_matching(request, self._look, self._wait)
        request = replace(request, cursors=cursors, wait_ms=0)

        async def attempt() -> list[StreamRead] | None:
            reads = await entries.read_once(self._client, request)
            return reads if request.is_answered_by(reads) else None

        queues = [QueueKey(cursor.stream, None) for cursor in cursors]
        with self._queues.watching(queues) as watch:
            reads = await self._read_alike(request)
            if request.is_answered_by(reads):
                return reads
            waiting = QueuedRead(queues, request, attempt, _drop)
            served = await self._queues.block(waiting, wait_ms, watch)
        return reads if served is None else served

    async def _look(self, request: Read) -> list[StreamRead]:
        return entries.filtered(request, await self._read_alike(entries.unfiltered(request)))

    async def _wait(self, request: Read, wait_ms: int | None) -> list[StreamRead] | None:
        async def attempt() -> list[StreamRead] | None:
            reads = await self._look(waiting.request)
            waiting.request = behind(waiting.request, reads)
            return reads if has_news(reads) or not are_at_end(reads) else None

        queues = [QueueKey(cursor.stream, None) for cursor in request.cursors]
        waiting: QueuedRead[list[StreamRead]] = QueuedRead(queues, request, attempt, _drop)
        with self._queues.watching(queues) as watch:
            reads = await attempt()
            if reads is None:
                reads = await self._queues.block(waiting, wait_ms, watch)
        return await self._look(waiting.request) if reads is None else reads

    async def _read_alike(self, request: Read) -> list[StreamRead]:
        """Read for a reader that will wait; a result read after the last change is shared.

        A change that is not noticed yet will be noticed while the reader waits.
        """
        [cursor, *others] = request.cursors
        change = self._queues.change_of(cursor.stream)
        if others or change is None or request.size_bytes_max is None:
            return await entries.read_once(self._client, request)
        key = request, change
        known = self._last.get(key)
        if known is not None:
            return known
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.ensure_future(self._read_last(key))
            task.add_done_callback(lambda _: self._under_way.pop(key, None))
        return await asyncio.shield(task)

    async def _read_last(self, key: tuple[Read, int]) -> list[StreamRead]:
        reads = await entries.read_once(self._client, key[0])
        size_bytes = sum(entry.size_bytes for read in reads for entry in read.entries)
        self._last.put(key, reads, size_bytes)
        return reads

    async def plan(self, request: PlanRead) -> list[Portion]:
        wait_ms = request.wait_ms
        cursors = await bulk.freeze_plan(self._client, request.cursors)
        request = replace(request, cursors=cursors, wait_ms=0)

        async def attempt() -> list[Portion] | None:
            portions = await bulk.plan_once(self._client, request)
            return portions if any(portion.backlog for portion in portions) else None

        queues = [QueueKey(cursor.stream, None) for cursor in cursors]
        with self._queues.watching(queues) as watch:
            portions = await bulk.plan_once(self._client, request)
            if wait_ms == 0 or any(portion.backlog for portion in portions):
                return portions
            waiting = QueuedRead(queues, request, attempt, _drop)
            served = await self._queues.block(waiting, wait_ms, watch)
        return portions if served is None else served


def _drop(reply: object) -> None:
    """Discard a read of a reader that has gone: its entries are still in the stream."""
    del reply
