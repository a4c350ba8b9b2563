"""Freezing: sealed chunks go to extent files, and a line of the index stands for them.

A rewrite does this before it writes its snapshot, from files that do not change any more. So the
process that serves requests writes no entry twice, and takes over the index
(`loop/extents/adoption.py`).

A rewrite also *cleans*: where much of the files is dead, it writes anew what is alive in the
deadest of them. That has a bound, so that no rewrite takes long; the next one goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence

from headgate.engine.journal.disk import Disk
from headgate.engine.journal.extents.files import ExtentFile
from headgate.engine.journal.names import extents_name, extents_number
from headgate.engine.limits import (
    CLEANED_BYTES_MAX,
    EXTENT_BYTES,
    EXTENT_FILE_BYTES_MAX,
    LARGE_CHUNK_BYTES,
)
from headgate.engine.state.entries.chunk import Chunk
from headgate.engine.state.entries.log import Log
from headgate.engine.state.entries.shared_chunk import SharedChunk
from headgate.engine.state.extents.line import line_of
from headgate.engine.state.extents.missing import Damaged
from headgate.engine.state.extents.opened import OpenedExtent
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.memory import ExtentPlace
from headgate.engine.state.stream import Stream

DEAD_SHARE = 8
"""Files are cleaned while more than an eighth of them is dead; those of which an eighth is."""

_REPACKED_SHARE = 8
"""A chunk is packed anew without its dead entries if an eighth of it is dead."""


class Freezing:
    """Writes extent files."""

    def __init__(self, disk: Disk, keyspace: Keyspace) -> None:
        """Go on behind the files that there are; `keyspace` is changed by nobody else."""
        self._disk, self._keyspace = disk, keyspace
        numbers = [extents_number(name) or 0 for name in disk.names()]
        # A number is never given again: an extent that somebody remembers has the place it had.
        keyspace.last_extent_file = max([keyspace.last_extent_file, *numbers])
        self._first_number = keyspace.last_extent_file + 1
        self._file: ExtentFile | None = None

    def freeze(self, hot_bytes_max: int) -> None:
        """Write full extents of sealed chunks, and smaller ones while too much is hot.

        Args:
            hot_bytes_max: what may stay hot of all streams together, besides open chunks.
        """
        streams = list(self._keyspace.streams.values())
        for stream in streams:
            is_full = self._is_full(stream.log.growing)
            if is_full:  # each stream may have one, with entries of any size
                stream.log.seal()
            for nodes in _extents(stream.sealed(), is_full=is_full):
                self._freeze(stream, nodes)
        streams.sort(key=_hot_bytes, reverse=True)
        for stream in streams:
            if self._keyspace.memory.entries_bytes <= hot_bytes_max:
                return
            if nodes := stream.sealed():
                self._freeze(stream, nodes)

    def _is_full(self, chunk: Chunk | None) -> bool:
        """Tell whether a chunk is large, and takes no further entry."""
        limits = self._keyspace.defaults.node_limits
        return chunk is not None and chunk.size_bytes >= LARGE_CHUNK_BYTES and limits.is_full(chunk)

    def clean(self) -> None:
        """Write anew what is alive in the deadest files, if much is dead."""
        there = set(self._disk.names())
        sizes = {
            number: self._disk.size_bytes(name)
            for number in self._keyspace.memory.files
            if number < self._first_number and (name := extents_name(number)) in there
        }
        alive = Counter[int]()
        for stream in self._keyspace.streams.values():
            for log in stream.logs:
                log.extents.count_by_file(alive)
        doomed: set[int] = set()
        dead_bytes = sum(sizes.values()) - alive.total()
        written_bytes = 0
        for number in sorted(sizes, key=lambda number: alive[number] / max(sizes[number], 1)):
            dead = sizes[number] - alive[number]
            is_enough = dead_bytes * DEAD_SHARE <= sum(sizes.values())
            if is_enough or dead * DEAD_SHARE < sizes[number] or written_bytes >= CLEANED_BYTES_MAX:
                break
            doomed.add(number)
            dead_bytes -= dead
            written_bytes += alive[number]
        if doomed:
            for stream in self._keyspace.streams.values():
                self._move(stream, doomed)

    def finish(self) -> None:
        """Make the file safe. The snapshot with the places of its extents comes after this."""
        if self._file is not None:
            self._file.finish()
            self._disk.sync_names()
            self._file = None

    def _freeze(self, stream: Stream, nodes: Sequence[SharedChunk]) -> None:
        freeze(stream, nodes, self._written([node.chunk for node in nodes]))

    def _written(self, chunks: Sequence[Chunk]) -> ExtentPlace:
        if self._file is not None and self._file.size_bytes >= EXTENT_FILE_BYTES_MAX:
            self.finish()
        if self._file is None:
            self._keyspace.last_extent_file += 1
            self._file = ExtentFile(self._disk, self._keyspace.last_extent_file)
        return self._file.append(chunks)

    def _move(self, stream: Stream, doomed: set[int]) -> None:
        """Write anew the extents of a stream that lie in some files; neighbours become one."""
        kept = frozenset[ExtentPlace]()
        if stream.archive is not None:
            kept = frozenset(stream.archive.extents.places()) & set(stream.log.extents.places())
        for place in sorted(kept):
            if place.file in doomed:
                self._move_shared(stream, place)
        for log in stream.logs:
            self._move_own(log, doomed, kept, stream.logs)

    def _move_shared(self, stream: Stream, place: ExtentPlace) -> None:
        """Write anew an extent that both logs have, as it is: positions stay the same."""
        lines = [(log.extents, log.extents.index_of(place)) for log in stream.logs]
        try:
            for extents, at in lines:
                extents.chunks(at)
            opened = self._keyspace.memory.extents.find(place)
        except (OSError, Damaged):
            return
        assert isinstance(opened, OpenedExtent)
        moved = self._written(opened.chunks(0))
        for extents, at in lines:
            extents.replace(at, at + 1, extents.line(at)._replace(place=moved))

    def _move_own(
        self, log: Log, doomed: set[int], kept: Container[ExtentPlace], logs: Sequence[Log]
    ) -> None:
        for low, high in reversed(list(_neighbours(log, doomed, kept, logs))):
            chunks: list[Chunk] = []
            try:
                for index in range(low, high):
                    chunks += log.extents.chunks(index)
            except (OSError, Damaged):  # who reads it is told; its file stays
                continue
            repacked = [_without_dead(chunk) for chunk in chunks]
            log.extents.replace(low, high, line_of(repacked, self._written(repacked)))


def freeze(stream: Stream, nodes: Sequence[SharedChunk], place: ExtentPlace) -> None:
    """Let a line stand for the oldest chunks, in each log that has some of them.

    Args:
        stream: has them.
        nodes: the chunks.
        place: where they lie.
    """
    for log in stream.logs:
        chunks = [node.part_of(is_archived=log is stream.archive) for node in nodes]
        if count := sum(chunk.live_count > 0 for chunk in chunks):
            log.freeze(count, line_of(chunks, place))


def _hot_bytes(stream: Stream) -> int:
    return sum(log.memory_bytes for log in stream.logs)


def _extents(nodes: Sequence[SharedChunk], *, is_full: bool) -> Iterator[Sequence[SharedChunk]]:
    """Yield the oldest sealed chunks, as many together as fill an extent.

    Args:
        nodes: all of them.
        is_full: the last ones are an extent as well, whatever their size.
    """
    low, size_bytes = 0, 0
    for high, node in enumerate(nodes, 1):
        size_bytes += node.chunk.packed_bytes
        if size_bytes >= EXTENT_BYTES or (is_full and high == len(nodes)):
            yield nodes[low:high]
            low, size_bytes = high, 0


def _neighbours(
    log: Log, doomed: set[int], kept: Container[ExtentPlace], logs: Sequence[Log]
) -> Iterator[tuple[int, int]]:
    """Yield the extents that lie in some files, as many together as become one.

    Args:
        log: has them.
        doomed: the files.
        kept: extents that stay as they are.
        logs: all of the stream; what lies between two extents keeps them apart.
    """
    low, size_bytes, below = None, 0, 0
    for index, line in enumerate(log.extents.lines()):
        others = sum(other.extents.below(line.first_id) for other in logs if other is not log)
        is_doomed = line.place.file in doomed and line.place not in kept
        is_apart = others != below or size_bytes >= EXTENT_BYTES
        if low is not None and (not is_doomed or is_apart):
            yield low, index
            low = None
        if is_doomed:
            if low is None:
                low, size_bytes, below = index, 0, others
            size_bytes += line.size_bytes
    if low is not None:
        yield low, len(log.extents)


def _without_dead(chunk: Chunk) -> Chunk:
    dead_count = chunk.count - chunk.live_count
    return chunk.repacked() if dead_count * _REPACKED_SHARE >= chunk.count else chunk
