"""Extent files: sealed chunks on disk, written once; how they are written and opened."""

from __future__ import annotations

import io
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import google_crc32c
import msgspec

from headgate.engine.entry import EntryId
from headgate.engine.errors import Broken, Corrupt
from headgate.engine.journal.disk import Disk
from headgate.engine.journal.names import UNFINISHED, extents_name, extents_number
from headgate.engine.journal.records import (
    HEADER_BYTES,
    Header,
    Kind,
    pack_block,
    pack_header,
    read_blocks,
)
from headgate.engine.limits import (
    CLEANED_BYTES_MAX,
    EXTENT_BYTES,
    EXTENT_FILE_BYTES_MAX,
    LARGE_CHUNK_BYTES,
    SYNC_BYTES,
)
from headgate.engine.state.chunk import Chunk, SharedChunk
from headgate.engine.state.entries.log import Log
from headgate.engine.state.extent import Damaged, OpenedExtent, line_of
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.memory import ExtentPlace
from headgate.engine.state.stream import Stream

# Extent files: sealed chunks on disk, written once and never changed.
#
# An extent file is a header as all files have it, and then extents. An extent is a block whose
# payload is a table, and behind it the packed entries that the table lists:
#
#     a row: first_id, last_id, entry_count, is_run, size_bytes, crc32c
#
# The checksum of the block covers the table, that of a row its packed entries: so damage takes no
# more than the chunk in which it is. The salt is the number of the file, so that an extent of
# another file is noticed. Which extents are in use says the index, and where each of them lies.

_REMEMBERED = 16
_PAUSE_S_MAX = 0.1


class _Row(NamedTuple):
    first_id: EntryId
    last_id: EntryId
    entry_count: int
    is_run: bool
    size_bytes: int
    crc32c: int


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[_Row]).decode


def packed(header: Header, chunks: Iterable[Chunk]) -> bytes:
    states = [chunk.dump() for chunk in chunks]
    rows = [
        (
            state.first_id,
            state.last_id,
            state.entry_count,
            state.is_run,
            len(state.packed),
            google_crc32c.value(state.packed),
        )
        for state in states
    ]
    table = pack_block(header, 0, 0, _encode(rows))
    return b"".join([table, *(state.packed for state in states)])


ReadExtent = Callable[[Disk, ExtentPlace], OpenedExtent]
"""Reads an extent of a disk."""


def read(disk: Disk, place: ExtentPlace) -> OpenedExtent:
    """Read an extent, in any thread; OSError also if its file is missing: it may be put back."""
    return opened(place, disk.read(extents_name(place.file), place.offset, place.size_bytes))


def read_span(disk: Disk, places: Sequence[ExtentPlace]) -> list[OpenedExtent | OSError]:
    """Read extents that lie behind each other in one file, or why they cannot be; in any thread.

    Each system call hands the interpreter over, so one read of many takes a fraction of the time.
    """
    if len(places) > 1:
        first, last = places[0], places[-1]
        size_bytes = last.offset + last.size_bytes - first.offset
        with suppress(OSError):  # one of them cannot be read: which one?
            data = disk.read(extents_name(first.file), first.offset, size_bytes)
            begins = [place.offset - first.offset for place in places]
            return [
                opened(place, data[begin : begin + place.size_bytes])
                for place, begin in zip(places, begins, strict=True)
            ]
    return [_read_or_why(disk, place) for place in places]


def _read_or_why(disk: Disk, place: ExtentPlace) -> OpenedExtent | OSError:
    try:
        return read(disk, place)
    except OSError as error:
        return error.with_traceback(None)


def read_or_lose(disk: Disk, place: ExtentPlace) -> OpenedExtent:
    """Read an extent; what cannot be read is damaged. An operator decides that, and not a start."""
    try:
        return read(disk, place)
    except OSError as error:
        return OpenedExtent(place, (), why=error.strerror or str(error))


def opened(place: ExtentPlace, data: bytes) -> OpenedExtent:
    data = data.ljust(place.size_bytes, b"\0")  # the file may end too early
    try:
        rows, at = _table(place, data)
    except Corrupt as error:
        return OpenedExtent(place, (), why=error.why)
    chunks: list[Chunk] = []
    damaged: set[int] = set()
    for first_id, last_id, count, is_run, size_bytes, crc32c in rows:
        packed_entries = data[at : at + size_bytes]
        if google_crc32c.value(packed_entries) != crc32c:
            damaged.add(len(chunks))
        chunks.append(Chunk.sealed(first_id, last_id, count, packed_entries, is_run=is_run))
        at += size_bytes
    why = f"the checksum of {len(damaged)} of {len(rows)} chunks is wrong" if damaged else ""
    return OpenedExtent(place, chunks, frozenset(damaged), why)


def _table(place: ExtentPlace, data: bytes) -> tuple[list[_Row], int]:
    name, header = extents_name(place.file), header_of(place.file)
    try:
        block = next(read_blocks(io.BytesIO(data), name, header), None)
        rows = [] if block is None else _decode(block.payload)
    except (Broken, msgspec.DecodeError) as error:
        why = error.why if isinstance(error, Corrupt) else str(error)
        raise Corrupt(name, place.offset, why) from None
    begin = 0 if block is None else block.end
    if begin + sum(row.size_bytes for row in rows) != place.size_bytes:
        raise Corrupt(name, place.offset, "an extent has another size than the index says")
    return rows, begin


def header_of(number: int) -> Header:
    return Header(Kind.EXTENTS, number, number)


class ExtentFile:
    """An extent file while it is written. It gets its name in the end, when it is safe."""

    def __init__(self, disk: Disk, number: int) -> None:
        self.number = number
        self.size_bytes = HEADER_BYTES
        self._disk, self._name = disk, extents_name(number)
        self._unfinished = self._name + UNFINISHED
        self._header = header_of(number)
        self._unsynced_bytes = 0
        if self._unfinished in disk.names():
            disk.remove(self._unfinished)
        disk.append(self._unfinished, pack_header(self._header))

    def append(self, chunks: Iterable[Chunk]) -> ExtentPlace:
        data = packed(self._header, chunks)
        self._disk.append(self._unfinished, data)
        place = ExtentPlace(self.number, self.size_bytes, len(data))
        self.size_bytes += len(data)
        self._unsynced_bytes += len(data)
        if self._unsynced_bytes >= SYNC_BYTES:  # one great sync in the end would hold up others
            self._sync()
        return place

    def _sync(self) -> None:
        """Sync the file, and leave the disk to the journal for as long as that took."""
        began_s = time.perf_counter()
        self._disk.sync(self._unfinished)
        self._unsynced_bytes = 0
        time.sleep(min(time.perf_counter() - began_s, _PAUSE_S_MAX))

    def finish(self) -> None:
        """Make it safe, under its name; the name is safe once `sync_names` was called."""
        self._disk.sync(self._unfinished)
        self._disk.rename(self._unfinished, self._name)


class ExtentReader:
    """An `OpenedExtents` that lets everybody wait while it reads: for recovery."""

    def __init__(self, disk: Disk, read_extent: ReadExtent = read) -> None:
        self._disk, self._read = disk, read_extent
        self._recent: OrderedDict[ExtentPlace, OpenedExtent] = OrderedDict()

    def find(self, place: ExtentPlace) -> OpenedExtent:
        extent = self._recent.get(place)
        if extent is None:
            extent = self._recent[place] = self._read(self._disk, place)
            if len(self._recent) > _REMEMBERED:
                self._recent.popitem(last=False)
        self._recent.move_to_end(place)
        return extent


# Freezing: sealed chunks go to extent files, and a line of the index stands for them.
#
# A rewrite does this before it writes its snapshot, from files that do not change any more. So the
# process that serves requests writes no entry twice, and takes over the index
# (`loop/adoption.py`).
#
# A rewrite also *cleans*: where much of the files is dead, it writes anew what is alive in the
# deadest of them. That has a bound, so that no rewrite takes long; the next one goes on.

DEAD_SHARE = 8
"""Files are cleaned while more than an eighth of them is dead; those of which an eighth is."""

_REPACKED_SHARE = 8
"""A chunk is packed anew without its dead entries if an eighth of it is dead."""


class Freezing:
    def __init__(self, disk: Disk, keyspace: Keyspace) -> None:
        """Go on behind the files that there are; `keyspace` is changed by nobody else."""
        self._disk, self._keyspace = disk, keyspace
        numbers = [extents_number(name) or 0 for name in disk.names()]
        # A number is never given again: an extent that somebody remembers has the place it had.
        keyspace.last_extent_file = max([keyspace.last_extent_file, *numbers])
        self._first_number = keyspace.last_extent_file + 1
        self._file: ExtentFile | None = None

    def freeze(self, hot_bytes_max: int) -> None:
        """Write full extents, and smaller ones while more is hot, besides open chunks."""
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
    """Let a line stand for the oldest chunks, in each log that has some of them."""
    for log in stream.logs:
        chunks = [node.part_of(is_archived=log is stream.archive) for node in nodes]
        if count := sum(chunk.live_count > 0 for chunk in chunks):
            log.freeze(count, line_of(chunks, place))


def _hot_bytes(stream: Stream) -> int:
    return sum(log.memory_bytes for log in stream.logs)


def _extents(nodes: Sequence[SharedChunk], *, is_full: bool) -> Iterator[Sequence[SharedChunk]]:
    """Yield the oldest sealed chunks by extents; `is_full` makes one of a small rest, too."""
    low, size_bytes = 0, 0
    for high, node in enumerate(nodes, 1):
        size_bytes += node.chunk.packed_bytes
        if size_bytes >= EXTENT_BYTES or (is_full and high == len(nodes)):
            yield nodes[low:high]
            low, size_bytes = high, 0


def _neighbours(
    log: Log, doomed: set[int], kept: Container[ExtentPlace], logs: Sequence[Log]
) -> Iterator[tuple[int, int]]:
    """Yield the extents in `doomed` files, as many together as become one.

    Extents in `kept` stay as they are. What any log of the stream has between two keeps them apart.
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
