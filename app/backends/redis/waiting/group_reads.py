"""Group reads block here, and ask the servers again when something may have arrived."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.faults import as_stream_errors
from headgate.app.backends.redis.performing.group_reads import Attempt, attempt, undo
from headgate.app.backends.redis.performing.groups import delete_consumer
from headgate.app.backends.redis.waiting.wait_queues import QueuedRead, WaitQueues
from headgate.engine.errors import StreamError
from headgate.engine.loop.wait_queue import QueueKey
from headgate.engine.replies import GroupRead, GroupState
from headgate.engine.requests.deliveries import ReadGroup
from headgate.engine.requests.groups import DeleteConsumer


class GroupReaders:
    def __init__(self, client: Client, queues: WaitQueues) -> None:
        self._client = client
        self._queues = queues
        # What goes on for readers that have gone, by group and consumer: it may make the consumer
        # again.
        self._undoing: dict[tuple[bytes, bytes], set[asyncio.Task[None]]] = {}

    async def read(self, request: ReadGroup) -> list[GroupRead]:
        """Read as a consumer of a group, and block if there is nothing to read (XREADGROUP BLOCK).

        1. Let the reads that block here be run again, because they came first.
        2. Read once. This acknowledges `acked`.
        3. If there is nothing, block. The read is run again when something was appended or
           released, and when a pending entry has become idle enough.
        4. If the caller is cancelled, give back what was delivered to it, also if the server
           answers later.
        """
        wait_ms = request.wait_ms
        keys = [QueueKey(cursor.stream, request.group) for cursor in request.cursors]
        await self._queues.wait_turn(keys)
        if wait_ms == 0:
            return (await self._attempt(request)).reads
        if request.acked:  # no refusal after the acknowledgement
            self._queues.check_room()
        with self._queues.watching(keys) as watch:
            first = await self._attempt(request)
            if first.is_served:
                return first.reads
            waiting = self._waiting(replace(request, acked=()), keys)
            waiting.full = _full(first.reads)
            try:
                served = await self._queues.block(
                    waiting, wait_ms, watch, due_in_ms=first.claim_in_ms
                )
            except asyncio.CancelledError:
                self._undo(request, _served_reply(waiting))
                raise
            finally:
                if waiting.is_running:
                    self._spawn(request, waiting.until_idle())
        return first.reads if served is None else served

    def _waiting(self, request: ReadGroup, keys: list[QueueKey]) -> QueuedRead[list[GroupRead]]:
        async def run_again() -> list[GroupRead] | None:
            result = await attempt(self._client, request)
            waiting.full = _full(result.reads)
            if result.is_served:
                return result.reads
            if result.claim_in_ms is not None:
                for key in keys:
                    self._queues.due_in(key, result.claim_in_ms)
            return None

        waiting = QueuedRead(
            keys,
            request,
            run_again,
            lambda reads: self._undo(request, reads),
            claim_idle_ms=request.idle_ms_min,
            consumer=request.consumer,
            by_policy=request.by_policy,
        )
        return waiting

    async def _attempt(self, request: ReadGroup) -> Attempt:
        """Read once; give back what was delivered if the caller is cancelled."""
        task = asyncio.ensure_future(attempt(self._client, request))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._spawn(request, self._undo_later(request, task))
            raise

    async def _undo_later(self, request: ReadGroup, task: asyncio.Task[Attempt]) -> None:
        with suppress(StreamError), as_stream_errors(b""):
            await self._give_back(request, (await task).reads)

    def _undo(self, request: ReadGroup, reads: list[GroupRead]) -> None:
        if any(read.deliveries for read in reads):
            self._spawn(request, self._give_back(request, reads))

    async def _give_back(self, request: ReadGroup, reads: list[GroupRead]) -> None:
        # Without the servers the entries become idle, and others claim them.
        with suppress(StreamError), as_stream_errors(b""):
            await undo(self._client, request, reads)

    def _spawn(self, request: ReadGroup, work: Coroutine[Any, Any, None]) -> None:
        key, task = (request.group, request.consumer), asyncio.ensure_future(work)
        self._undoing.setdefault(key, set()).add(task)

        def forget(_: asyncio.Task[None]) -> None:
            tasks = self._undoing[key]
            tasks.discard(task)
            if not tasks:
                del self._undoing[key]

        task.add_done_callback(forget)

    async def delete_consumer(self, request: DeleteConsumer) -> int | None:
        """Delete a consumer once the reads of callers that have gone are over.

        Such a read, if sent again, may reach the server after the deletion and would create the
        consumer again.
        """
        while reads := self._undoing.get((request.group, request.consumer)):
            await asyncio.wait(list(reads))
        return await delete_consumer(self._client, request)

    async def close(self) -> None:
        while self._undoing:
            await asyncio.wait([task for tasks in self._undoing.values() for task in tasks])


def _full(reads: list[GroupRead]) -> frozenset[bytes]:
    """Return the streams in which the consumer holds as many entries as it may."""
    return frozenset(read.stream for read in reads if read.state is GroupState.MAX_PENDING)


def _served_reply(waiting: QueuedRead[list[GroupRead]]) -> list[GroupRead]:
    """Return the reply of a read that was served just before its cancellation, or []."""
    served = waiting.served
    if not served.done() or served.cancelled() or served.exception() is not None:
        return []
    return served.result() or []
