"""Reads of a worker: equal ones go to the engine once, whatever the number of readers.

1. Read without waiting. Equal reads of one turn of the event loop are sent once.
2. If there was nothing, join the blocked read of this worker with the same cursors and bounds, or
   start it. It waits without limit. Each reader has its own timer, and the last one to leave
   cancels the read.

The engine sees step 1 after the reader has asked. So nobody gets less than there was at that time,
though the read that is joined may be older.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from headgate.app.backends.remote.calls import Calls
from headgate.app.backends.remote.connection import EngineConnection, Link
from headgate.app.backends.remote.messages import Follow, Unfollow, error_of, facts_of
from headgate.engine.eager import EagerCall
from headgate.engine.errors import Draining, StreamError, TooManyWaiters
from headgate.engine.filtered_reads import read_matching
from headgate.engine.loop.takeovers import Feeds, TakeoverFeed
from headgate.engine.replies import (
    GroupRead,
    GroupsRead,
    PatternRead,
    Portion,
    StreamRead,
    Takeover,
)
from headgate.engine.requests import Request
from headgate.engine.requests.bulk import BulkCursor, PlanRead
from headgate.engine.requests.deliveries import GiveBack, ReadGroup, ReadGroups
from headgate.engine.requests.entries import Read, ReadPattern, StreamCursor

_Queue = tuple[bytes, bytes | None]
"""A stream, and a group of it if the read is a group's."""


class BlockedReads:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._queues: dict[int, Sequence[_Queue]] = {}
        self._last = 0
        self.is_draining = False

    def __len__(self) -> int:
        return len(self._queues)

    @property
    def refusal(self) -> StreamError | None:
        if self.is_draining:
            return Draining()
        return TooManyWaiters(self._limit) if len(self._queues) >= self._limit else None

    @property
    def waited_for(self) -> tuple[int, int]:
        queues = {queue for each in self._queues.values() for queue in each}
        grouped = {stream for stream, group in queues if group is not None}
        return len({stream for stream, _ in queues}), len(grouped)

    @contextmanager
    def waiting(self, queues: Sequence[_Queue]) -> Iterator[None]:
        """Count a read while the context lasts."""
        self._last += 1
        token = self._last
        self._queues[token] = queues
        try:
            yield
        finally:
            del self._queues[token]


T = TypeVar("T")

_SERVED_AT_ONCE_MAX = 100
"""Readers that are served in one turn of the loop. Each one takes its caller about 100 µs."""


class _SharedRead:
    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.task = task
        self.readers: dict[asyncio.Future[Any], None] = {}


class SharedReads:
    def __init__(self, calls: Calls, blocked: BlockedReads) -> None:
        self._calls = calls
        self._blocked = blocked
        self._asked: dict[Request[Any], asyncio.Task[Any]] = {}  # in this turn of the loop
        self._shared: dict[Request[Any], _SharedRead] = {}

    async def read(self, request: Read) -> list[StreamRead]:
        if request.is_filtered:
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
        portions = await self._ask(replace(request, cursors=tuple(request.cursors), wait_ms=0))
        if request.wait_ms == 0 or any(portion.backlog for portion in portions):
            return portions
        cursors = tuple(BulkCursor(each.stream, each.after, each.epoch) for each in portions)
        waiting = replace(request, cursors=cursors, wait_ms=_FOREVER_MS)
        streams = [cursor.stream for cursor in cursors]
        return await self._wait(waiting, streams, request.wait_ms) or portions

    async def read_pattern(self, request: ReadPattern) -> PatternRead:
        read = await self._ask(replace(request, wait_ms=0))
        if request.wait_ms == 0 or read.reads or not read.is_at_end:
            return read
        waiting = replace(request, after=read.next_after, wait_ms=None)
        return await self._wait(waiting, [request.pattern], request.wait_ms) or read

    async def _ask(self, request: Request[T]) -> T:
        """Read without waiting, together with equal requests of this turn."""
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
        """Share one blocked read with all its readers; return None when `wait_ms` is over."""
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
        for shared in list(self._shared.values()):
            for reader in shared.readers:
                _end(reader, Draining())

    async def _outcome(self, request: Request[T], *, waits: bool = False) -> T | StreamError:
        try:
            return await self._calls.perform(request, waits=waits)
        except StreamError as error:
            return error.with_traceback(None)

    def _serve(self, request: Request[Any]) -> None:
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
    """Return a shared reply, or raise a copy of the error, one for each reader."""
    if isinstance(outcome, StreamError):
        raise error_of(facts_of(outcome))
    return outcome


class RemoteGroupReads:
    def __init__(self, calls: Calls, blocked: BlockedReads) -> None:
        self._calls = calls
        self._blocked = blocked
        self._giving_back: set[EagerCall] = set()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    async def read(self, request: ReadGroup) -> list[GroupRead]:
        """Read as a consumer of a group, and block if there is nothing to read (XREADGROUP BLOCK).

        If the caller is cancelled, the engine gives back what it was about to deliver, and this
        method what the engine has already answered.
        """
        on_late = partial(self._give_back, request)
        if request.wait_ms == 0:
            return await self._calls.perform(request, on_late)
        refusal = self._blocked.refusal
        if refusal is not None:
            return await self._read_at_once(request, refusal)
        with self._blocked.waiting([(each.stream, request.group) for each in request.cursors]):
            return await self._calls.perform(request, on_late, waits=True)

    async def _read_at_once(self, request: ReadGroup, refusal: StreamError) -> list[GroupRead]:
        """Read without waiting, because no read may wait.

        Raises `refusal` if there is nothing to read, or if the request would acknowledge before it
        waits.
        """
        if request.acked:
            raise refusal
        at_once = replace(request, wait_ms=0)
        reads = await self._calls.perform(at_once, partial(self._give_back, at_once))
        if not any(read.served for read in reads):
            raise refusal
        return reads

    async def read_pattern(self, request: ReadGroups) -> GroupsRead:
        """Read as a consumer of a group over a pattern, as `read` does of one stream."""

        def on_late(read: GroupsRead) -> None:
            if request.own_after is None:
                self._give_back_all(request, read.reads, is_temporary=request.is_temporary)

        if request.wait_ms == 0:
            return await self._calls.perform(request, on_late)
        if (refusal := self._blocked.refusal) is not None:
            read = await self._calls.perform(replace(request, wait_ms=0), on_late)
            if not read.reads:
                raise refusal
            return read
        with self._blocked.waiting([(request.pattern, request.group)]):
            return await self._calls.perform(request, on_late, waits=True)

    def _give_back(self, request: ReadGroup, reads: list[GroupRead]) -> None:
        pairs = zip(request.cursors, reads, strict=False)
        self._give_back_all(request, [read for cursor, read in pairs if cursor.after is None])

    def _give_back_all(
        self, request: ReadGroup | ReadGroups, reads: list[GroupRead], *, is_temporary: bool = False
    ) -> None:
        for read in reads:
            if read.deliveries and (is_temporary or not request.no_ack):
                counts = {delivery.id: delivery.delivery_count for delivery in read.deliveries}
                names = read.stream, request.group, request.consumer
                giving_back = GiveBack(*names, counts, is_temporary)
                call = EagerCall(self._perform(giving_back), self._note_end)
                self._giving_back.add(call)
                self._is_idle.clear()
                call.start()  # it is sent before anything that follows

    def _note_end(self, call: EagerCall) -> None:
        self._giving_back.discard(call)
        if not self._giving_back:
            self._is_idle.set()

    async def _perform(self, giving_back: GiveBack) -> None:
        with suppress(StreamError):  # without the engine the entries become idle
            await self._calls.perform(giving_back)

    async def close(self) -> None:
        await self._is_idle.wait()


# Claims: the engine tells what is taken over from the consumers that are followed here.
#
# The engine is asked once for each consumer, however many feeds of it are open. After a new
# connection all of them are asked for again. What was taken over while there was none comes in no
# feed: a subscription that has lost the engine looks what became of the entries that it held.

_Holder = tuple[bytes, bytes, bytes]


class RemoteClaims:
    def __init__(self) -> None:
        self._feeds = Feeds()
        self._holders: dict[int, _Holder] = {}  # by the number under which they are followed
        self._numbers: dict[_Holder, int] = {}
        self._last = 0
        self.link: Link | None = None

    def claims(
        self, stream: bytes, group: bytes, consumer: bytes
    ) -> AbstractAsyncContextManager[AsyncIterator[Takeover]]:
        return self._open((stream, group, consumer))

    @asynccontextmanager
    async def _open(self, holder: _Holder) -> AsyncIterator[AsyncIterator[Takeover]]:
        async with TakeoverFeed(self._feeds, holder) as feed:
            self._follow(holder)
            try:
                yield feed
            finally:
                if len(self._feeds.of(holder)) == 1:
                    self._unfollow(holder)

    def put(self, number: int, takeover: Takeover) -> None:
        holder = self._holders.get(number)
        if holder is not None:
            for feed in self._feeds.of(holder):
                feed.put(takeover)

    def follow_all(self, connection: EngineConnection) -> None:
        for number, holder in self._holders.items():
            connection.send(Follow(number, *holder))

    def _follow(self, holder: _Holder) -> None:
        if holder in self._numbers:
            return
        self._last += 1
        self._numbers[holder] = self._last
        self._holders[self._last] = holder
        connection = None if self.link is None else self.link.current
        if connection is not None:
            connection.send(Follow(self._last, *holder))

    def _unfollow(self, holder: _Holder) -> None:
        number = self._numbers.pop(holder)
        del self._holders[number]
        connection = None if self.link is None else self.link.current
        if connection is not None:
            connection.send(Unfollow(number))
