"""Room: how much one read may still return. Long names take time, and so do many short ones."""

from __future__ import annotations

from headgate.engine.entry import Fields
from headgate.engine.limits import READ_PARTS_MAX


class ReadRoom:
    """Bytes that are left, and names and values that are; both only if the bytes are bounded."""

    __slots__ = ("bytes_left", "parts_left")

    def __init__(self, size_bytes_max: int | None, parts_max: int = READ_PARTS_MAX) -> None:
        """Start with all of it; None is without bound."""
        self.bytes_left = size_bytes_max
        self.parts_left = parts_max

    @property
    def is_spent(self) -> bool:
        """Tell whether nothing is left."""
        return self.bytes_left is not None and (self.bytes_left <= 0 or self.parts_left <= 0)

    def share(self, count: int) -> ReadRoom:
        """Return a room of its own, as large as the share of one in so many."""
        size_bytes = None if self.bytes_left is None else self.bytes_left // max(count, 1)
        return ReadRoom(size_bytes, self.parts_left // max(count, 1))

    def take(self, fields: Fields, *, is_first: bool) -> bool:
        """Take in the fields of an entry if there is room; the first entry comes whatever its size.

        Tells whether it was taken in.
        """
        return self.take_all(sum(map(len, fields)), len(fields), is_first=is_first)

    def take_all(self, size_bytes: int, count: int, *, is_first: bool = False) -> bool:
        """Take in so many names and values, of that size together, if there is room for them."""
        if self.bytes_left is None:
            return True
        if not is_first and (size_bytes > self.bytes_left or count > self.parts_left):
            return False
        self.bytes_left -= size_bytes
        self.parts_left -= count
        return True

    def take_what_went(self, before: ReadRoom, after: ReadRoom) -> None:
        """Take in what another room had before and has no more."""
        if before.bytes_left is not None and after.bytes_left is not None:
            size_bytes = before.bytes_left - after.bytes_left
            self.take_all(size_bytes, before.parts_left - after.parts_left, is_first=True)
