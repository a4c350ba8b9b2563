"""Source: bytes read in order, with their offset and their checksum.

No length that the bytes claim is believed: what is not there is not waited for, and no room is made
before the bytes have come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import anycrc

from headgate.app.rdb.errors import RdbError
from headgate.app.rdb.room import Share
from headgate.engine.limits import U64_MAX

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
