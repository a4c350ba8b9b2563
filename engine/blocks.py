r"""Blocks: the container of every file the engine writes, journal and snapshot alike.

A file is a header and then blocks. A block is what one write wrote, checked as a whole: it is there
or it is not. All numbers are little-endian.

    file   = "HEADGATE" version:u16 kind:u16 position:u64 crc32c:u32        24 bytes
    block  = "\xb1ock" crc32c:u32 length:u32 first:u64 synced:u64 payload   28 + length bytes

The checksum of the header covers all before it, that of a block all behind it. `first` numbers the
first thing in the block. `synced` is what was safe on disk before the block was written: it tells a
tail that a crash tore from damage to what had been safe.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import BinaryIO, NamedTuple

import google_crc32c

from engine.errors import Broken, Corrupt, NewerFormat

VERSION = 1
HEADER_BYTES = 24

_MAGIC = b"HEADGATE"
_BLOCK_MAGIC = b"\xb1ock"
_HEADER = struct.Struct("<8sHHQ")
_CHECKSUM = struct.Struct("<I")
_PREFIX = struct.Struct("<4sI")
_BLOCK = struct.Struct("<IQQ")
_BLOCK_BYTES = _PREFIX.size + _BLOCK.size


class Kind(IntEnum):
    """What a file holds."""

    JOURNAL = 1
    SNAPSHOT = 2


class Block(NamedTuple):
    """One block as it was read."""

    offset: int  # where it begins in the file
    first: int
    synced: int
    payload: bytes

    @property
    def end(self) -> int:
        """Return where the next block begins."""
        return self.offset + _BLOCK_BYTES + len(self.payload)


def header(kind: Kind, position: int) -> bytes:
    """Return the header of a file."""
    plain = _HEADER.pack(_MAGIC, VERSION, kind, position)
    return plain + _CHECKSUM.pack(google_crc32c.value(plain))


def block(first: int, synced: int, payload: bytes) -> bytes:
    """Return a block."""
    checked = _BLOCK.pack(len(payload), first, synced) + payload
    return _PREFIX.pack(_BLOCK_MAGIC, google_crc32c.value(checked)) + checked


def read_header(file: BinaryIO, name: str, kind: Kind) -> int:
    """Return the position in a file's header; the file is then at its first block.

    Raises:
        Broken: it is no header.
        NewerFormat: it is one of a newer version.
        Corrupt: it is one of another kind.
    """
    data = file.read(HEADER_BYTES)
    if len(data) < HEADER_BYTES:
        raise Broken(name, 0, f"the header is cut off after {len(data)} of {HEADER_BYTES} bytes")
    magic, version, found, position = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise Broken(name, 0, "this is no file of Headgate")
    if _CHECKSUM.unpack_from(data, _HEADER.size)[0] != google_crc32c.value(data[: _HEADER.size]):
        raise Broken(name, 0, "the checksum of the header is wrong")
    if version > VERSION:
        text = f"its format has version {version}, and this Headgate knows up to {VERSION}"
        raise NewerFormat(name, 0, f"{text}: use a newer one")
    if found != kind:
        raise Corrupt(name, 0, f"this is no {kind.name.lower()}")
    return int(position)


def read_blocks(file: BinaryIO, name: str) -> Iterator[Block]:
    """Yield the blocks of a file from where it stands to its end.

    Raises:
        Broken: what follows is no block.
    """
    offset = file.tell()
    while True:
        start = file.read(_BLOCK_BYTES)
        if not start:
            return
        found, why = _read_block(file, start, offset)
        if found is None:
            raise Broken(name, offset, why)
        yield found
        offset = found.end


def blocks_behind(file: BinaryIO, offset: int) -> Iterator[Block]:
    """Yield what intact blocks there are behind a place in a file where there is none."""
    file.seek(offset)
    data = file.read()
    at = data.find(_BLOCK_MAGIC, 1)
    while at >= 0:
        file.seek(offset + at)
        found, _ = _read_block(file, file.read(_BLOCK_BYTES), offset + at)
        if found is not None:
            yield found
        following = at + 1 if found is None else found.end - offset
        at = data.find(_BLOCK_MAGIC, following)


def _read_block(file: BinaryIO, start: bytes, offset: int) -> tuple[Block | None, str]:
    """Return the block whose first bytes are `start`, or None and why there is none."""
    if len(start) < _BLOCK_BYTES:
        return None, f"a block is cut off after {len(start)} bytes"
    magic, checksum = _PREFIX.unpack_from(start)
    if magic != _BLOCK_MAGIC:
        return None, "no block begins here"
    length, first, synced = _BLOCK.unpack_from(start, _PREFIX.size)
    payload = file.read(length)
    if len(payload) < length:
        return None, f"a block is cut off after {len(payload)} of its {length} bytes"
    checked = google_crc32c.extend(google_crc32c.value(start[_PREFIX.size :]), payload)
    if checked != checksum:
        return None, "the checksum of a block is wrong"
    return Block(offset, first, synced, payload), ""
