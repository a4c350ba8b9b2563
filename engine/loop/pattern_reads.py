"""Reads of all streams that match a pattern."""

from __future__ import annotations

import asyncio

from headgate.engine.entry import EntryId
from headgate.engine.errors import Invalid
from headgate.engine.limits import PATTERN_BYTES_MAX
from headgate.engine.loop.executor import Executor
from headgate.engine.loop.pattern_followers import Follower
from headgate.engine.loop.reads import Reads
from headgate.engine.loop.wait_queue import Waiter
from headgate.engine.replies import PatternRead, StreamRead
from headgate.engine.requests.entries import Read, ReadPattern, StreamCursor
from headgate.engine.state.extent import Missing
from headgate.engine.threads import this_turn

_NAMES_AT_ONCE = 64
"""Names that are looked at before it is looked how long that took."""


class PatternReads:
    def __init__(self, executor: Executor, reads: Reads) -> None:
        self._executor = executor
        self._reads = reads

    async def read(self, request: ReadPattern) -> PatternRead:
        """Read behind a cursor, and block if there is nothing.

        1. Wait until it is noted whom all appends concern, and take the follower of the cursor.
        2. Look at a bounded part of what may be there. Go on until there are entries, with other
           requests in between. If there is nothing, block until something is noted.
        3. Keep the follower for the next request, whatever becomes of this one.
        """
        if len(request.pattern) > PATTERN_BYTES_MAX:
            text = f"a pattern has at most {PATTERN_BYTES_MAX} bytes"
            raise Invalid(text, location=("pattern",))
        executor, followers = self._executor, self._executor.followers
        if request.wait_ms != 0:
            executor.waiters.check_room()
        executor.current()
        await followers.settled()
        follower = followers.take(request, executor.now_ms())
        try:
            reads = await self._until_read(follower, request)
            follower.given = follower.cursor
            read = PatternRead(reads, follower.given, not follower.has_news)
        finally:
            followers.keep(follower)
        return await executor.durable(read)

    async def _until_read(self, follower: Follower, request: ReadPattern) -> list[StreamRead]:
        executor, loop, wait_ms = self._executor, asyncio.get_running_loop(), request.wait_ms
        over_s = None if wait_ms is None else loop.time() + wait_ms / 1000
        while True:
            await this_turn().pause()
            await executor.followers.settled()
            reads = await executor.cold.until_read(lambda: self._look(follower, request))
            left_ms = None if over_s is None else round((over_s - loop.time()) * 1000)
            if reads or (left_ms is not None and left_ms <= 0):
                return reads
            if follower.has_news or not executor.followers.is_settled:
                await this_turn().end()
            else:
                await executor.block(
                    Waiter([follower.notes.key], lambda: follower.has_news or None), left_ms
                )

    def _look(self, follower: Follower, request: ReadPattern) -> list[StreamRead]:
        executor = self._executor
        keyspace = executor.current()
        if not follower.is_in_round:
            if not executor.followers.is_settled:  # of a stream that has just expired, for example
                return []
            moment = executor.followers.moments.now(keyspace, executor.now_ms())
            if not follower.has_news:
                follower.settle(moment)
                return []
            follower.begin(moment)
        room = _Room(request)
        try:
            for at, name in enumerate(follower.names(keyspace), 1):
                while (bounds := follower.bounds(name, keyspace)) is not None:
                    if room.is_spent:
                        return room.reads
                    read = self._read(name, bounds, request, room)
                    follower.advance(name, read.next_after)
                    room.take(read)
                follower.advance(name, None)
                if at % _NAMES_AT_ONCE == 0 and room.turn.is_over:
                    return room.reads
        except Missing:
            if not room.reads:
                raise
            return room.reads
        follower.end()
        return room.reads

    def _read(
        self, name: bytes, bounds: tuple[EntryId, EntryId], request: ReadPattern, room: _Room
    ) -> StreamRead:
        start, end = bounds
        [read] = self._reads.read_once(
            Read(
                (StreamCursor(name, start),),
                limit=room.left,
                size_bytes_max=room.left_bytes,
                missing_ok=True,
                filters=request.filters,
            )
        )
        if read.next_after >= end:
            entries = read.entries
            if entries and entries[-1].id > end:
                entries = [entry for entry in entries if entry.id <= end]
            return read._replace(entries=entries, next_after=end)
        if not read.entries and request.filters is None:  # what was there is gone
            return read._replace(next_after=end)
        return read


class _Room:
    def __init__(self, request: ReadPattern) -> None:
        self.reads: list[StreamRead] = []
        self.left = request.limit
        self.left_bytes = request.size_bytes_max
        self.turn = this_turn()
        self._has_read = False

    @property
    def is_spent(self) -> bool:
        """Tell whether nothing more is to be read. Each look reads a part, whatever others do."""
        if self.left <= 0 or self.left_bytes <= 0:
            return True
        return self._has_read and self.turn.is_over

    def take(self, read: StreamRead) -> None:
        self._has_read = True
        if read.entries or read.gap is not None:
            self.reads.append(read)
            self.left -= len(read.entries)
            self.left_bytes -= sum(entry.size_bytes for entry in read.entries)
