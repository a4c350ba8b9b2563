"""Moment: the files of a journal as they are at one moment, while the engine goes on.

The files are opened first, all of them: a rewrite may remove their names meanwhile, but what is
open can be read on. To open an extent file later would be to lose it, as a rewrite cleans a few of
them each time, and a tar file cannot begin again. So there have to be as many descriptors as extent
files of 256 MiB: whoever makes a moment of a large journal raises its limit. Closed files do not
change. The engine may be writing to the last segment, so
that is read up to its last whole block, which is copied at once: a write that fails is taken back.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import ExitStack
from typing import IO, BinaryIO, Self

import msgspec

from headgate.engine.errors import Broken, Corrupt, Unavailable
from headgate.engine.journal import recovery
from headgate.engine.journal.disk import Disk
from headgate.engine.journal.names import is_segment, position_of
from headgate.engine.journal.records import (
    HEADER_BYTES,
    Kind,
    pack_block,
    read_blocks,
    read_header,
    was_safe,
)

_PIECE_BYTES = 2**20

_records_of = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


class Moment:
    """The files that recovery would read, open until the context ends."""

    def __init__(self, disk: Disk) -> None:
        self.sizes: dict[str, int] = {}
        """By name, in the order in which recovery reads them."""
        self.position = 0
        """Of the last record."""
        self._disk = disk
        self._files: dict[str, BinaryIO] = {}
        self._open = ExitStack()

    def __enter__(self) -> Self:
        try:
            while not self._is_opened():
                self._open.close()
            self._copy_last()
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def file(self, name: str) -> BinaryIO:
        """Return an open file, at its beginning. It may have grown: read as much as `sizes` has."""
        file = self._files[name]
        file.seek(0)
        return file

    def pieces(self, name: str) -> Iterator[bytes]:
        return pieces_of(self.file(name), name, self.sizes[name])

    def part(self, name: str, offset: int, size_bytes: int) -> bytes:
        file = self._files[name]
        file.seek(offset)
        return file.read(size_bytes)

    def _is_opened(self) -> bool:
        """Open the files; false if a rewrite has removed some of them meanwhile."""
        self._files, self.sizes = {}, {}
        try:
            for name in recovery.names_in_use(self._disk):
                file = self._files[name] = self._open.enter_context(self._disk.open(name))
                self.sizes[name] = file.seek(0, io.SEEK_END)
        except FileNotFoundError:
            return False
        if not self._files:
            raise Unavailable("there is no journal")
        # As long as the first one is there, no name of the others was used again.
        return next(iter(self._files)) in self._disk.names()

    def _copy_last(self) -> None:
        first, name = next(iter(self._files)), list(self._files)[-1]
        if not is_segment(name):  # after a repair there may be only a snapshot and extent files
            self.position = position_of(first)
            return
        self.position = position_of(name)
        file, copy = self._files[name], io.BytesIO()
        file.seek(0)
        copy.write(file.read(HEADER_BYTES))
        file.seek(0)
        header = read_header(file, name, Kind.JOURNAL)
        self.position -= 1
        try:
            for block in read_blocks(file, name, header):
                copy.write(pack_block(header, block.first, block.synced, block.payload))
                self.position = block.first + len(_records_of(block.payload)) - 1
        except Broken as error:  # behind the last whole block: a write that is under way
            if was_safe(file, header, error.offset, self.position):
                raise
        self._files[name] = copy
        self.sizes[name] = copy.tell()


def pieces_of(file: IO[bytes], name: str, size_bytes: int) -> Iterator[bytes]:
    left = size_bytes
    while left and (piece := file.read(min(left, _PIECE_BYTES))):
        yield piece
        left -= len(piece)
    if left:
        raise Corrupt(name, size_bytes - left, f"it ends {left} bytes too early")
