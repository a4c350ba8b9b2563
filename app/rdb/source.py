"""Source: bytes of RDB read in order, with their offset, types and bounds; its errors.

No length that the bytes claim is believed: what is not there is not waited for, and no room is made
before the bytes have come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from threading import Lock
from types import TracebackType
from typing import Self

import anycrc

from headgate.engine.limits import U64_MAX


class RdbError(Exception):
    """Bytes that are not RDB as Redis writes it, or that have something we cannot read."""

    def __init__(self, what: str, offset: int | None = None) -> None:
        """Describe the fault.

        Args:
            what: is wrong.
            offset: of the byte behind what was read, from the beginning; None: unknown.
        """
        super().__init__(what if offset is None else f"{what}, at byte {offset}")
        self.offset = offset


class StreamType(IntEnum):
    """A type of streams. Each has what the types before it have, and more."""

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
    """Return the type of streams in a version of RDB, which is that of Redis and not of Valkey."""
    return max((kind for since, kind in _SINCE.items() if since <= version), default=StreamType(15))


def is_known(version: int) -> bool:
    """Tell whether a payload of that version can be read."""
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
    """It takes more than the whole room, whoever else is there."""


class RoomTaken(RdbError):
    """Others have taken the room. It may be read later."""


class GivenUp(RdbError):
    """Nobody waits for what is being read."""


class UnpackingRoom:
    """Bytes and elements that all who read share. Any thread may take of it."""

    def __init__(
        self, size_bytes_max: int, elements_max: int, pause: Callable[[], None] | None = None
    ) -> None:
        """Start with nothing taken.

        Args:
            size_bytes_max: how much may be kept.
            elements_max: how many elements may be read.
            pause: lets other threads run; called about every millisecond of reading.
        """
        self.size_bytes_max = size_bytes_max
        self.elements_max = elements_max
        self.pause = pause
        self.lock = Lock()
        self.size_bytes = self.elements = 0  # taken

    def share(self) -> Share:
        """Return a share of the room, which has nothing yet."""
        return Share(self)


class Share:
    """The share of one transaction, or one reader, in a room: `with room.share() as share`."""

    __slots__ = ("_elements", "_is_over", "_room", "_size_bytes")

    def __init__(self, room: UnpackingRoom) -> None:
        """Take nothing yet."""
        self._room = room
        self._size_bytes = self._elements = 0
        self._is_over = False

    def take(self, size_bytes: int, elements: int = 0) -> None:
        """Take room for what is about to be made.

        Raises:
            TooMuch: this share would have more than there is.
            RoomTaken: it would fit if the other shares were not there.
            GivenUp: the share has ended.
        """
        room = self._room
        with room.lock:
            if self._is_over:
                raise GivenUp("nobody waits for it any more")
            self._check(self._size_bytes + size_bytes, room.size_bytes_max, "bytes")
            self._check(self._elements + elements, room.elements_max, "elements")
            if (
                room.size_bytes + size_bytes > room.size_bytes_max
                or room.elements + elements > room.elements_max
            ):
                raise RoomTaken("others take the room that there is")
            self._add(size_bytes, elements)
        if elements and room.pause is not None:
            room.pause()

    def give_back(self, size_bytes: int) -> None:
        """Give room back that was taken for what is gone."""
        with self._room.lock:
            if not self._is_over:
                self._add(-size_bytes, 0)

    def close(self) -> None:
        """Give everything back; who still reads with this share is told with its next step."""
        with self._room.lock:
            self._add(-self._size_bytes, -self._elements)
            self._is_over = True

    def __enter__(self) -> Self:
        """Return the share."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the share."""
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
    """Return the checksum that Redis appends to files and payloads: CRC-64 of Jones, reflected.

    Args:
        data: what it is of.
        before: the checksum of what is before that.
    """
    return int(_crc64(data, before))


class Source:
    """Bytes of a file, or of a value in memory."""

    def __init__(self, read: Callable[[int], bytes], strings_bytes_max: int) -> None:
        """Read from a function.

        Args:
            read: returns up to so many bytes, and none at the end.
            strings_bytes_max: how long a string may be that is kept in memory.
        """
        self.strings_bytes_max = strings_bytes_max
        self._read = read
        self._room: Share | None = None  # for what is made of the bytes; None: no bound
        self._buffer = b""
        self._at = 0
        self._passed_bytes = 0  # before the buffer
        self._passed_crc = 0

    @classmethod
    def of(cls, data: bytes, room: Share) -> Source:
        """Return a source of these bytes, which takes room for all that is made of them."""
        source = cls(lambda _: b"", U64_MAX)  # the room is the bound
        source._buffer, source._room = data, room
        return source

    @property
    def offset(self) -> int:
        """Return how many bytes were taken."""
        return self._passed_bytes + self._at

    @property
    def checksum(self) -> int:
        """Return the checksum of the bytes that were taken."""
        return checksum_of(self._buffer[: self._at], self._passed_crc)

    @property
    def is_exhausted(self) -> bool:
        """Tell whether there are no more bytes."""
        return self._at == len(self._buffer) and not self._fill()

    def take_room(self, size_bytes: int, elements: int = 0) -> None:
        """Take room for what is about to be made of the bytes.

        Raises:
            RdbError: there is no such room. See `Share.take`.
        """
        if self._room is not None:
            self._room.take(size_bytes, elements)

    def give_room_back(self, size_bytes: int) -> None:
        """Give room back that was taken for what is gone."""
        if self._room is not None:
            self._room.give_back(size_bytes)

    def count(self, count: int, size_bytes: int) -> Iterator[int]:
        """Yield numbers from 0 for items that follow, and take room for each of them.

        Args:
            count: how many items there should be.
            size_bytes: what one of them takes once it is made.

        Raises:
            RdbError: there is no room for them. See `Share.take`.
        """
        for begin in range(0, count, _COUNTED_AT_ONCE):
            end = min(begin + _COUNTED_AT_ONCE, count)
            self.take_room((end - begin) * size_bytes, end - begin)
            yield from range(begin, end)

    def error(self, what: str) -> RdbError:
        """Return an error that names the place."""
        return RdbError(what, self.offset)

    def take(self, count: int) -> bytes:
        """Return the next bytes.

        Raises:
            RdbError: there are not so many.
        """
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
        """Return the next byte.

        Raises:
            RdbError: there is none.
        """
        if self._at == len(self._buffer) and not self._fill():
            raise self.error("it ends early")
        value = self._buffer[self._at]
        self._at += 1
        return value

    def skip(self, count: int) -> None:
        """Pass over bytes, which are not kept.

        Raises:
            RdbError: there are not so many.
        """
        left = len(self._buffer) - self._at
        while count > left:
            self._at, count = len(self._buffer), count - left
            if not self._fill():
                raise self.error(f"it ends {count} bytes early")
            left = len(self._buffer)
        self._at += count

    def number(self, size_bytes: int, *, signed: bool = False) -> int:
        """Return the next bytes as a number, the lowest byte first."""
        return int.from_bytes(self.take(size_bytes), "little", signed=signed)

    def _fill(self) -> bool:
        """Read the next block; all before it is taken. Tell whether there was one."""
        block = self._read(_BLOCK_BYTES)
        if not block:
            return False
        self._passed_crc = checksum_of(self._buffer, self._passed_crc)
        self._passed_bytes += len(self._buffer)
        self._buffer, self._at = block, 0
        return True
