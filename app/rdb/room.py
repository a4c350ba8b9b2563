"""Room: how much all that is being read may take together, as bytes and as elements.

A payload of some kilobytes can say that it is gigabytes, and be right. So whoever reads one takes
room while it reads, before it makes anything of it. All readers have one room: those of a
transaction have a *share* of it together, and each other one has a share of its own.

Bytes are what is kept in memory, and are given back when it is let go. Elements are what takes
time; they are given back when the share ends.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from types import TracebackType
from typing import Self

from headgate.app.rdb.errors import RdbError


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
