"""Freezing: sealed chunks go to extent files, and a line of the index stands for them.

A rewrite does this before it writes its snapshot, from files that do not change any more. So the
process that serves requests writes no entry twice, and takes over the index
(`loop/extents/adoption.py`).

A rewrite also *cleans*: where much of the files is dead, it writes anew what is alive in the
deadest of them. That has a bound, so that no rewrite takes long; the next one goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

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
from headgate.engine.state.extents.line import line_of
from headgate.engine.state.extents.missing import Damaged
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.memory import ExtentPlace

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
        logs = [stream.log for stream in self._keyspace.streams.values()]
        for log in logs:
            while chunks := _first_extent(log):
                self._freeze(log, chunks)
            if self._is_full(log.growing):  # each stream may have one, with entries of any size
                log.seal()
                self._freeze(log, list(log.sealed))
        if self._keyspace.memory.entries_bytes <= hot_bytes_max:
            return
        logs.sort(key=lambda log: log.memory_bytes, reverse=True)
        for log in logs:
            if self._keyspace.memory.entries_bytes <= hot_bytes_max:
                return
            if log.sealed:
                self._freeze(log, list(log.sealed))

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
            stream.log.extents.count_by_file(alive)
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
                self._move(stream.log, doomed)

    def finish(self) -> None:
        """Make the file safe. The snapshot with the places of its extents comes after this."""
        if self._file is not None:
            self._file.finish()
            self._disk.sync_names()
            self._file = None

    def _freeze(self, log: Log, chunks: Sequence[Chunk]) -> None:
        log.freeze(len(chunks), line_of(chunks, self._written(chunks)))

    def _written(self, chunks: Sequence[Chunk]) -> ExtentPlace:
        if self._file is not None and self._file.size_bytes >= EXTENT_FILE_BYTES_MAX:
            self.finish()
        if self._file is None:
            self._keyspace.last_extent_file += 1
            self._file = ExtentFile(self._disk, self._keyspace.last_extent_file)
        return self._file.append(chunks)

    def _move(self, log: Log, doomed: set[int]) -> None:
        """Write anew the extents of a log that lie in some files; neighbours become one."""
        for low, high in reversed(list(_neighbours(log, doomed))):
            chunks: list[Chunk] = []
            try:
                for index in range(low, high):
                    chunks += log.extents.chunks(index)
            except (OSError, Damaged):  # who reads it is told; its file stays
                continue
            repacked = [_without_dead(chunk) for chunk in chunks]
            log.extents.replace(low, high, line_of(repacked, self._written(repacked)))


def _first_extent(log: Log) -> Sequence[Chunk]:
    """Return the oldest sealed chunks of a log if they fill an extent."""
    size_bytes = 0
    for count, chunk in enumerate(log.sealed, 1):
        size_bytes += chunk.packed_bytes
        if size_bytes >= EXTENT_BYTES:
            return log.sealed[:count]
    return ()


def _neighbours(log: Log, doomed: set[int]) -> Iterator[tuple[int, int]]:
    """Yield the extents that lie in some files, as many together as become one."""
    low, size_bytes = None, 0
    for index, line in enumerate(log.extents.lines()):
        if low is not None and (line.place.file not in doomed or size_bytes >= EXTENT_BYTES):
            yield low, index
            low = None
        if line.place.file in doomed:
            if low is None:
                low, size_bytes = index, 0
            size_bytes += line.size_bytes
    if low is not None:
        yield low, len(log.extents)


def _without_dead(chunk: Chunk) -> Chunk:
    dead_count = chunk.count - chunk.live_count
    return chunk.repacked() if dead_count * _REPACKED_SHARE >= chunk.count else chunk
