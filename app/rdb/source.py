"""RDB bytes read in order, with offset and limits; the errors.

No length in the bytes is trusted: what is missing is not waited for, and no memory is allocated
before the bytes have come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from threading import Lock
from typing import Self

import anycrc

from headgate.engine.limits import U64_MAX


class RdbError(Exception):
    """Bytes that are not RDB as Redis writes it, or that use something we cannot read."""

    def __init__(self, what: str, offset: int | None = None) -> None:
        """`offset` is that of the byte after the last one read; None if unknown."""
        super().__init__(what if offset is None else f"{what}, at byte {offset}")
        self.offset = offset


class StreamType(IntEnum):
    """The types of streams. Each extends the one before."""

    LISTPACKS = 15  # Redis 5
    LISTPACKS_2 = 19  # Redis 7.0: first id, greatest deleted id, entries added, entries read
    LISTPACKS_3 = 21  # Redis 7.2, Valkey: when a consumer was active
    LISTPACKS_4 = 26  # Redis 8.6: idempotency keys
    LISTPACKS_5 = 27  # Redis 8.8: pending entries that nobody owns


_SINCE = {
    10: StreamType.LISTPACKS_2,
    11: StreamType.LISTPACKS_3,
    13: StreamType.LISTPACKS_4,
    14: StreamType.LISTPACKS_5,
}

WIDEST_VERSION = 10
"""The version that all of Redis from 7.0 and Valkey from 7.2 on read."""

KEYS_VERSION = 13
"""The first version that has idempotency keys. Redis reads it from 8.6 on."""

NEWEST_VERSION = 15
"""That of Redis 8.10. Valkey counts from 80 on since Valkey 9, so that nobody mixes them up."""

VALKEY_VERSION = 80
"""That of Valkey 9. What is between is for neither."""


def stream_type(version: int) -> StreamType:
    """Return the stream type of an RDB version in the numbering of Redis, not Valkey."""
    return max((kind for since, kind in _SINCE.items() if since <= version), default=StreamType(15))


def is_known(version: int) -> bool:
    return 1 <= version <= NEWEST_VERSION or version == VALKEY_VERSION


# Room: how much all that is being read may take together, as bytes and as elements.
#
# A payload of some kilobytes can say that it is gigabytes, and be right. So whoever reads one
# takes room while it reads, before it makes anything of it. All readers have one room: those of a
# transaction have a *share* of it together, and each other one has a share of its own.
#
# Bytes are what is kept in memory, and are given back when it is let go. Elements are what takes
# time; they are given back when the share ends.


class TooMuch(RdbError):
    """It needs more than the whole room, whoever else uses it."""


class RoomTaken(RdbError):
    """Others use the room. A later attempt may succeed."""


class GivenUp(RdbError):
    """Nobody waits for the result any more."""


class UnpackingRoom:
    """A budget of bytes and elements that all readers share. Thread-safe."""

    def __init__(
        self, size_bytes_max: int, elements_max: int, pause: Callable[[], None] | None = None
    ) -> None:
        """`pause` lets other threads run; it is called about every millisecond of reading."""
        self.size_bytes_max = size_bytes_max
        self.elements_max = elements_max
        self.pause = pause
        self.lock = Lock()
        self.size_bytes = self.elements = 0  # taken

    def share(self) -> Share:
        return Share(self)


class Share:
    """The part of a room that one transaction or reader uses: `with room.share() as share`."""

    __slots__ = ("_elements", "_is_over", "_room", "_size_bytes")

    def __init__(self, room: UnpackingRoom) -> None:
        self._room = room
        self._size_bytes = self._elements = 0
        self._is_over = False

    def take(self, size_bytes: int, elements: int = 0) -> None:
        """Reserve room before allocating.

        Raises TooMuch if this share would exceed the whole room, RoomTaken if it would fit without
        the other shares, and GivenUp if the share was closed.
        """
        room = self._room
        with room.lock:
            if self._is_over:
                raise GivenUp("the client is gone")
            self._check(self._size_bytes + size_bytes, room.size_bytes_max, "bytes")
            self._check(self._elements + elements, room.elements_max, "elements")
            if (
                room.size_bytes + size_bytes > room.size_bytes_max
                or room.elements + elements > room.elements_max
            ):
                raise RoomTaken("other clients are using the room for restores")
            self._add(size_bytes, elements)
        if elements and room.pause is not None:
            room.pause()

    def give_back(self, size_bytes: int) -> None:
        with self._room.lock:
            if not self._is_over:
                self._add(-size_bytes, 0)

    def close(self) -> None:
        """Release everything; a reader that still uses this share fails at its next step."""
        with self._room.lock:
            self._add(-self._size_bytes, -self._elements)
            self._is_over = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _check(self, wanted: int, limit: int, what: str) -> None:
        if wanted > limit:
            raise TooMuch(f"it unpacks to more than {limit} {what}")

    def _add(self, size_bytes: int, elements: int) -> None:
        self._size_bytes += size_bytes
        self._elements += elements
        self._room.size_bytes += size_bytes
        self._room.elements += elements


_BLOCK_BYTES = 1 << 18
"""Size of one read."""

_COUNTED_AT_ONCE = 256
"""Items for which room is taken together."""

_crc64 = anycrc.Model("CRC64-REDIS").calc


def checksum_of(data: bytes, before: int = 0) -> int:
    """Return the CRC-64 (Jones, reflected) of data that follows data with the CRC `before`."""
    return int(_crc64(data, before))


class Source:
    """Bytes of a file, or of a value in memory; `read` returns none at the end."""

    def __init__(self, read: Callable[[int], bytes], strings_bytes_max: int) -> None:
        self.strings_bytes_max = strings_bytes_max
        self._read = read
        self._room: Share | None = None  # for what is made of the bytes; None: no bound
        self._buffer = b""
        self._at = 0
        self._passed_bytes = 0  # before the buffer
        self._passed_crc = 0

    @classmethod
    def of(cls, data: bytes, room: Share) -> Source:
        """Return a source of these bytes; everything made from them is taken from `room`."""
        source = cls(lambda _: b"", U64_MAX)  # the room is the bound
        source._buffer, source._room = data, room
        return source

    @property
    def offset(self) -> int:
        return self._passed_bytes + self._at

    @property
    def checksum(self) -> int:
        return checksum_of(self._buffer[: self._at], self._passed_crc)

    @property
    def is_exhausted(self) -> bool:
        return self._at == len(self._buffer) and not self._fill()

    def take_room(self, size_bytes: int, elements: int = 0) -> None:
        if self._room is not None:
            self._room.take(size_bytes, elements)

    def give_room_back(self, size_bytes: int) -> None:
        if self._room is not None:
            self._room.give_back(size_bytes)

    def count(self, count: int, size_bytes: int) -> Iterator[int]:
        """Yield the indexes of `count` items of this size, reserving room for each."""
        for begin in range(0, count, _COUNTED_AT_ONCE):
            end = min(begin + _COUNTED_AT_ONCE, count)
            self.take_room((end - begin) * size_bytes, end - begin)
            yield from range(begin, end)

    def error(self, what: str) -> RdbError:
        return RdbError(what, self.offset)

    def take(self, count: int) -> bytes:
        at = self._at
        taken = self._buffer[at : at + count]
        self._at = at + len(taken)
        if len(taken) == count:
            return taken
        parts, missing = [taken], count - len(taken)
        while missing:
            if not self._fill():
                raise self.error(f"it ends {missing} bytes early")
            self._at = min(missing, len(self._buffer))
            parts.append(self._buffer[: self._at])
            missing -= self._at
        return b"".join(parts)

    def byte(self) -> int:
        if self._at == len(self._buffer) and not self._fill():
            raise self.error("it ends early")
        value = self._buffer[self._at]
        self._at += 1
        return value

    def skip(self, count: int) -> None:
        left = len(self._buffer) - self._at
        while count > left:
            self._at, count = len(self._buffer), count - left
            if not self._fill():
                raise self.error(f"it ends {count} bytes early")
            left = len(self._buffer)
        self._at += count

    def number(self, size_bytes: int, *, signed: bool = False) -> int:
        """Return the next bytes as a little-endian number."""
        return int.from_bytes(self.take(size_bytes), "little", signed=signed)

    def _fill(self) -> bool:
        """Read the next block, after the last was used up; return whether there was one."""
        block = self._read(_BLOCK_BYTES)
        if not block:
            return False
        self._passed_crc = checksum_of(self._buffer, self._passed_crc)
        self._passed_bytes += len(self._buffer)
        self._buffer, self._at = block, 0
        return True
