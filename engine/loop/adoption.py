"""Adoption: what a rewrite has frozen leaves memory, and lines of its index stand for it.

A rewrite reads the journal up to a position, and writes what it finds as extents. It comes to the
same chunks as the engine did. So where as many entries lie in an extent as in the chunks that it
stands for, they lie at the same positions, and what was deleted since then is known by position.
Where the engine has meanwhile packed a chunk anew or dropped one, the extent is read, and compared
by ids.

Nothing is recorded: the entries stay what they are. A stream that was renamed meanwhile stays as it
is; the next rewrite knows its name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from headgate.engine.clock import Clock
from headgate.engine.commands import Command, TailLost
from headgate.engine.entry import EntryId
from headgate.engine.errors import Unavailable
from headgate.engine.journal.names import extents_name
from headgate.engine.journal.storage import StreamIndex
from headgate.engine.limits import TURN_MS_MAX
from headgate.engine.loop.executor import Executor
from headgate.engine.state.chunk import Chunk
from headgate.engine.state.entries.log import Log
from headgate.engine.state.extent import Covered, Line, OpenedExtent
from headgate.engine.state.memory import Memory
from headgate.engine.state.stream import Stream

_TURN_MS = 1
_PAUSE_S = 0.002
"""An append takes several turns of the event loop, and each of them waits for one of these."""


_EXTENTS_AT_ONCE = 256


class _Turns:
    def __init__(self, clock: Clock, turn_ms: int, pause_s: float) -> None:
        self._clock, self._turn_ms, self._pause_s = clock, turn_ms, pause_s
        self._over_ms = clock.monotonic_ms() + turn_ms

    async def end_if_over(self) -> None:
        if self._clock.monotonic_ms() >= self._over_ms:
            await asyncio.sleep(self._pause_s)
            self._over_ms = self._clock.monotonic_ms() + self._turn_ms


class Adoption:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._known_file = 0  # up to which all was known when the rewrite began
        self._is_behind = False  # the last adoption has left something out
        self._copied_count = 0  # streams that were copied before the rewrite

    def begin(self, last_file: int) -> int:
        """Note that a rewrite begins; returns up to which extent file all is known here.

        A stream that was copied has hot chunks here, and may have extents in old files there.
        """
        copied_count = self._executor.keyspace.copied_count
        if copied_count != self._copied_count:
            self._known_file = 0
        elif not self._is_behind:
            self._known_file = last_file
        self._copied_count, self._is_behind = copied_count, False
        return self._known_file

    @property
    def memory(self) -> Memory:
        return self._executor.keyspace.memory

    async def adopt(self, indexes: Sequence[StreamIndex], *, is_late: bool) -> AbstractSet[str]:
        turns = self._turns(TURN_MS_MAX, 0.0) if is_late else self._turns(_TURN_MS, _PAUSE_S)
        for index in indexes:
            for line in index.lines:
                await turns.end_if_over()
                stream = self._stream_of(index)
                if stream is None or not await self._adopt_line(index, stream, line):
                    self._is_behind = True
                    break
        return {extents_name(number) for number in self.memory.files}

    async def local_files(self) -> AbstractSet[str]:
        """Return the extent files with what streams keep on the disk, in turns as `adopt`."""
        numbers = set[int]()
        turns = self._turns(_TURN_MS, _PAUSE_S)
        for stream in list(self._executor.keyspace.streams.values()):
            await turns.end_if_over()
            left_bytes, high = stream.config.local_bytes or 0, len(stream.log.extents)
            while left_bytes > 0 and high > 0:
                await turns.end_if_over()
                extents = stream.log.extents
                files, high, left_bytes = extents.files_before(
                    min(high, len(extents)), left_bytes, _EXTENTS_AT_ONCE
                )
                numbers |= files
        return {extents_name(number) for number in numbers}

    async def replay(self, record: Sequence[Command]) -> None:
        await self._executor.cold.until_read(lambda: self._executor.replay(record))

    def lose_tail(self, first_id: EntryId, last_id: EntryId) -> None:
        epoch = self._executor.keyspace.epoch
        self._executor.commit([TailLost(first_id, last_id, epoch)])

    def _turns(self, turn_ms: int, pause_s: float) -> _Turns:
        return _Turns(self._executor.clock, turn_ms, pause_s)

    def _stream_of(self, index: StreamIndex) -> Stream | None:
        stream = self._executor.keyspace.find(index.stream)
        return stream if stream is not None and stream.epoch == index.epoch else None

    async def _adopt_line(self, index: StreamIndex, stream: Stream, line: Line) -> bool:
        """Let a line stand for its entries; tells whether those behind it can follow."""
        for log in stream.logs:
            growing = log.growing
            if growing is not None and growing.first_id <= line.last_id:  # the rewrite sealed it
                log.seal()
        covering = _covering(stream, line)
        if covering is None:
            return False
        if all(covered.entry_count == line.entry_count for _, covered in covering):
            for log, covered in covering:
                self._keep(line, covered.hot)
                log.adopt(covered, covered.line(line.place))
            return True
        cold = self._executor.cold
        try:
            return await cold.until_read(
                lambda: self._adopt_compared(index, line, cold.opened(line.place))
            )
        except Unavailable:  # the old place is as good
            return False

    def _adopt_compared(self, index: StreamIndex, line: Line, opened: OpenedExtent) -> bool:
        stream = self._stream_of(index)
        covering = None if stream is None else _covering(stream, line)
        if covering is None:
            return False
        dead: list[int] = []
        for log, covered in covering:
            alive = {each for chunk in log.chunks_of(covered) for each in chunk.live_ids()}
            dead.append(opened.dead_but(alive))
            if line.entry_count - dead[-1].bit_count() < len(alive):  # it is no line for these
                return False
        for (log, covered), bits in zip(covering, dead, strict=True):
            if chunks := opened.chunks(bits):
                log.adopt(covered, line.marked(bits, chunks))
        return True

    def _keep(self, line: Line, chunks: Sequence[Chunk]) -> None:
        """Keep chunks in memory that leave the log: they may be read soon."""
        if chunks and sum(chunk.count for chunk in chunks) == line.entry_count:
            self._executor.cold.keep(
                OpenedExtent(line.place, [chunk.unmarked() for chunk in chunks])
            )


def _covering(stream: Stream, line: Line) -> list[tuple[Log, Covered]] | None:
    """Return the logs a line is new to, with the nodes it covers; None: a hot chunk precedes."""
    covering: list[tuple[Log, Covered]] = []
    for log in stream.logs:
        covered = log.covered(line)
        if covered is None:
            return None
        if covered.entry_count and not covered.is_at(line.place):
            covering.append((log, covered))
    return covering
