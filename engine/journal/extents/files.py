r"""Extent files: sealed chunks on disk, written once and never changed.

An extent file is a header as all files have it, and then extents. An extent is a block whose
payload is a table, and behind it the packed entries that the table lists:

    row = [first_id, last_id, entry_count, is_run, size_bytes, crc32c]

The checksum of the block covers the table, that of a row its packed entries: so damage takes no
more than the chunk in which it is. The salt is the number of the file, so that an extent of another
file is noticed. Which extents are in use says the index, and where each of them lies.
"""

from __future__ import annotations

import io
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

import google_crc32c
import msgspec

from headgate.engine.entry import EntryId
from headgate.engine.errors import Broken, Corrupt
from headgate.engine.journal.blocks import (
    HEADER_BYTES,
    Header,
    Kind,
    pack_block,
    pack_header,
    read_blocks,
)
from headgate.engine.journal.disk import Disk
from headgate.engine.journal.names import UNFINISHED, extents_name
from headgate.engine.limits import SYNC_BYTES
from headgate.engine.state.entries.chunk import Chunk
from headgate.engine.state.extents.opened import OpenedExtent
from headgate.engine.state.memory import ExtentPlace

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
    """Return sealed chunks as an extent of the file with that header."""
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
    """Read an extent. Any thread may call it.

    Raises:
        OSError: it cannot be read now, or its file is missing: an operator may put it back.
    """
    return opened(place, disk.read(extents_name(place.file), place.offset, place.size_bytes))


def read_span(disk: Disk, places: Sequence[ExtentPlace]) -> list[OpenedExtent | OSError]:
    """Read extents that lie behind each other in one file. Any thread may call it.

    Each system call hands the interpreter over, so one read of many takes a fraction of the time.

    Returns:
        each of them, or why it cannot be read.
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
    """Return the chunks of an extent that was read, and which of them are damaged."""
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
    """Return the rows of an extent, and where their packed entries begin."""
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
    """Return the header of an extent file."""
    return Header(Kind.EXTENTS, number, number)


class ExtentFile:
    """An extent file while it is written. It gets its name in the end, when it is safe."""

    def __init__(self, disk: Disk, number: int) -> None:
        """Begin it."""
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
        """Write chunks as an extent; returns its place."""
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
    """Extents that are read when they are asked for. It is an `OpenedExtents`.

    Nobody else may wait meanwhile: it is for recovery, which does one thing after the other.
    """

    def __init__(self, disk: Disk, read_extent: ReadExtent = read) -> None:
        """Read from a disk."""
        self._disk, self._read = disk, read_extent
        self._recent: OrderedDict[ExtentPlace, OpenedExtent] = OrderedDict()

    def find(self, place: ExtentPlace) -> OpenedExtent:
        """Return an extent.

        Raises:
            OSError: it cannot be read.
        """
        extent = self._recent.get(place)
        if extent is None:
            extent = self._recent[place] = self._read(self._disk, place)
            if len(self._recent) > _REMEMBERED:
                self._recent.popitem(last=False)
        self._recent.move_to_end(place)
        return extent
