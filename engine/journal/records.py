"""Records and the blocks they are written in, with the callers that wait until they are durable.

Records that arrive while the disk is busy go into the next block together, so one sync serves every
request in flight (group commit).
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from typing import BinaryIO, NamedTuple

import google_crc32c

from headgate.engine import commands
from headgate.engine.eager import Completion
from headgate.engine.errors import Broken, Corrupt, NewerFormat, Unavailable
from headgate.engine.limits import BLOCK_BYTES_MAX, SERVED_AT_ONCE_MAX

_Waits = deque[tuple[int, Completion[None]]]


class Records:
    def __init__(self, position: int) -> None:
        self.position = self.durable_position = position
        self.written_position = position  # of the last record on disk; more may be asked for
        self.gate: Callable[[int], int] = _open
        """Returns the position that may be answered, of one that is on disk."""
        self.closing = asyncio.Event()  # what is there is written, and then the journal ends
        self._unwritten: list[bytes] = []
        self._parts: list[bytes] = []  # of the record that comes next
        self._waits: _Waits = deque()
        self._is_settling = False  # some of those who wait are woken in the next turn
        self._wake = asyncio.Event()

    @property
    def has_unwritten(self) -> bool:
        return bool(self._unwritten)

    def append(self, record: bytes) -> int:
        self._unwritten.append(record)
        self.position += 1
        self._wake.set()
        return self.position

    def stage(self, parts: Iterable[bytes]) -> None:
        self._parts += parts

    def append_staged(self) -> None:
        if self._parts:
            parts, self._parts = self._parts, []
            self.append(commands.encode_parts(parts))

    def close(self) -> None:
        self.closing.set()
        self._wake.set()

    def wake(self) -> None:
        self._wake.set()

    async def until_woken(self) -> None:
        self._wake.clear()
        await self._wake.wait()

    def take(self) -> Sequence[bytes]:
        size_bytes = 0
        for count, record in enumerate(self._unwritten, 1):
            size_bytes += len(record)
            if size_bytes >= BLOCK_BYTES_MAX:
                taken, self._unwritten = self._unwritten[:count], self._unwritten[count:]
                return taken
        taken, self._unwritten = self._unwritten, []
        return taken

    def put_back(self, records: Sequence[bytes]) -> None:
        self._unwritten = [*records, *self._unwritten]

    def wait(self, position: int) -> Completion[None]:
        """Return a completion: everything up to `position` is durable, or never will be."""
        durable: Completion[None] = Completion()
        self._waits.append((position, durable))
        return durable

    def settle(self, position: int) -> None:
        self.written_position = position
        self.release()

    def release(self) -> None:
        self.durable_position = max(self.gate(self.written_position), self.durable_position)
        if self._waits and not self._is_settling:
            self._is_settling = True
            asyncio.get_running_loop().call_soon(self._settle_in_turns)

    def _settle_in_turns(self) -> None:
        """Wake some who wait, others in later turns: they may run on at once (`eager`)."""
        waits, woken_count = self._waits, 0
        try:
            while waits and waits[0][0] <= self.durable_position:
                if woken_count == SERVED_AT_ONCE_MAX:
                    break
                waits.popleft()[1].succeed(None)
                woken_count += 1
        finally:  # whoever fails keeps nobody else waiting
            waits = self._waits
            self._is_settling = bool(waits) and waits[0][0] <= self.durable_position
            if self._is_settling:
                asyncio.get_running_loop().call_soon(self._settle_in_turns)

    def drop(self, reason: str) -> None:
        self._unwritten.clear()
        self._parts.clear()
        if self._waits:
            waits, self._waits = self._waits, deque()
            loop = asyncio.get_running_loop()
            loop.call_soon(_wake_all, waits, self.durable_position, reason)

    def follow(self, position: int) -> None:
        self.position = self.written_position = self.durable_position = position

    def go_to(self, position: int) -> None:
        self.position = position


def _open(position: int) -> int:
    return position


def _wake_all(waits: _Waits, durable_position: int, reason: str) -> None:
    for position, durable in waits:
        if position <= durable_position:
            durable.succeed(None)
        else:
            durable.fail(Unavailable(reason))


# Blocks: the container of every file the engine writes, journal and snapshot alike.
#
# A file is a header and then blocks. A block is what one write wrote, checked as a whole: it is
# there or it is not. All numbers are little-endian.
#
#     file   = "HEADGATE" version:u16 kind:u16 position:u64 salt:u64 crc32c:u32         32 bytes
# block  = "\xb1ock" crc32c:u32 length:u32 first:u64 synced:u64 body:u32 payload    32 + length
#
# The checksum of the header covers all before it. That of a block covers the file's salt and then
# the rest of the block's head; `body` is the checksum of the payload. `first` numbers the first
# thing in the block. `synced` is what was safe on disk before the block was written: it tells a
# tail that a crash tore from damage to what had been safe. The salt is random, so that nothing
# somebody stored can look like a block of this file.

VERSION = 9
HEADER_BYTES = 32

_MAGIC = b"HEADGATE"
_BLOCK_MAGIC = b"\xb1ock"
_HEADER = struct.Struct("<8sHHQQ")
_CHECKSUM = struct.Struct("<I")
_PREFIX = struct.Struct("<4sI")
_BLOCK = struct.Struct("<IQQI")
_SALT = struct.Struct("<Q")
_BLOCK_BYTES = _PREFIX.size + _BLOCK.size


class Kind(IntEnum):
    JOURNAL = 1
    SNAPSHOT = 2
    EXTENTS = 3
    PART = 4  # of a journal, in a bucket


class Header(NamedTuple):
    kind: Kind
    position: int
    salt: int = 0


class Block(NamedTuple):
    offset: int  # where it begins in the file
    first: int
    synced: int
    payload: bytes

    @property
    def end(self) -> int:
        return self.offset + _BLOCK_BYTES + len(self.payload)


def pack_header(header: Header) -> bytes:
    plain = _HEADER.pack(_MAGIC, VERSION, *header)
    return plain + _CHECKSUM.pack(google_crc32c.value(plain))


def pack_block(header: Header, first: int, synced: int, payload: bytes) -> bytes:
    head = _BLOCK.pack(len(payload), first, synced, google_crc32c.value(payload))
    return _PREFIX.pack(_BLOCK_MAGIC, _checksum(header, head)) + head + payload


def read_header(file: BinaryIO, name: str, kind: Kind) -> Header:
    """Read a header, up to the first block; Broken, NewerFormat, or Corrupt (another kind)."""
    data = file.read(HEADER_BYTES)
    if len(data) < HEADER_BYTES:
        raise Broken(name, 0, f"the header is cut off after {len(data)} of {HEADER_BYTES} bytes")
    magic, version, found_kind, position, salt = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise Broken(name, 0, "this is no file of Headgate")
    if _CHECKSUM.unpack_from(data, _HEADER.size)[0] != google_crc32c.value(data[: _HEADER.size]):
        raise Broken(name, 0, "the checksum of the header is wrong")
    if version > VERSION:
        text = f"its format has version {version}, and this Headgate knows up to {VERSION}"
        raise NewerFormat(name, 0, f"{text}: use a newer one")
    if found_kind != kind:
        raise Corrupt(name, 0, f"this is no {kind.name.lower()}")
    return Header(kind, position, salt)


def read_blocks(file: BinaryIO, name: str, header: Header) -> Iterator[Block]:
    """Yield the blocks of a file with that header, from where it stands to its end."""
    offset = file.tell()
    while True:
        start = file.read(_BLOCK_BYTES)
        if not start:
            return
        block, why = _read_block(file, header, start, offset)
        if block is None:
            raise Broken(name, offset, why)
        yield block
        offset = block.end


def intact_blocks(file: BinaryIO, header: Header) -> Iterator[Block]:
    """Yield the intact blocks of a file, up to the first one whose head is damaged.

    The head says where the next block begins. Nothing is searched for: what somebody has stored may
    look like a block.
    """
    offset = file.tell()
    while (head := _read_head(header, start := file.read(_BLOCK_BYTES))) is not None:
        block, _ = _read_block(file, header, start, offset)
        if block is not None:
            yield block
        offset += _BLOCK_BYTES + head[0]
        file.seek(offset)


def blocks_behind(file: BinaryIO, header: Header, offset: int) -> Iterator[Block]:
    """Yield the intact blocks behind a place in a file without one."""
    file.seek(offset)
    data = file.read()
    at = data.find(_BLOCK_MAGIC, 1)
    while at >= 0:
        file.seek(offset + at)
        block, _ = _read_block(file, header, file.read(_BLOCK_BYTES), offset + at)
        if block is not None:
            yield block
        following = at + 1 if block is None else block.end - offset
        at = data.find(_BLOCK_MAGIC, following)


def was_safe(file: BinaryIO, header: Header, offset: int, position: int) -> bool:
    """Tell whether the block that should be at `offset` was safe on disk: later ones say so."""
    return any(block.synced > position for block in blocks_behind(file, header, offset))


def _read_block(
    file: BinaryIO, header: Header, start: bytes, offset: int
) -> tuple[Block | None, str]:
    if len(start) < _BLOCK_BYTES:
        return None, f"a block is cut off after {len(start)} bytes"
    if not start.startswith(_BLOCK_MAGIC):
        return None, "no block begins here"
    head = _read_head(header, start)
    if head is None:
        return None, "the checksum of a block's head is wrong"
    length, first, synced, body = head
    payload = _read(file, length)
    if len(payload) < length:
        return None, f"a block is cut off after {len(payload)} of its {length} bytes"
    if google_crc32c.value(payload) != body:
        return None, "the checksum of a block is wrong"
    return Block(offset, first, synced, payload), ""


def _read_head(header: Header, start: bytes) -> tuple[int, int, int, int] | None:
    if len(start) < _BLOCK_BYTES:
        return None
    magic, checksum = _PREFIX.unpack_from(start)
    if magic != _BLOCK_MAGIC or _checksum(header, start[_PREFIX.size :]) != checksum:
        return None
    length, first, synced, body = _BLOCK.unpack_from(start, _PREFIX.size)
    return length, first, synced, body


def _read(file: BinaryIO, size_bytes: int) -> bytes:
    """Return so many bytes, or as many as there are: a damaged length must not cost its memory."""
    pieces = []
    while size_bytes and (piece := file.read(min(size_bytes, BLOCK_BYTES_MAX))):
        pieces.append(piece)
        size_bytes -= len(piece)
    return b"".join(pieces)


def _checksum(header: Header, head: bytes) -> int:
    return int(google_crc32c.value(_SALT.pack(header.salt) + head))
