"""Room: the remaining room of one read, and the shares of several streams.

Long names take time, and so do many short ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.engine.entry import Entry, EntryId, Fields, size_of
from headgate.engine.limits import READ_PARTS_MAX
from headgate.engine.replies import Delivery
from headgate.engine.requests.entries import Budget


class ReadRoom:
    """Bytes that are left, and names and values that are; both only if the bytes are bounded."""

    __slots__ = ("bytes_left", "parts_left")

    def __init__(self, size_bytes_max: int | None, parts_max: int = READ_PARTS_MAX) -> None:
        """Start with all of it; None is without bound."""
        self.bytes_left = size_bytes_max
        self.parts_left = parts_max

    @property
    def is_spent(self) -> bool:
        return self.bytes_left is not None and (self.bytes_left <= 0 or self.parts_left <= 0)

    @property
    def is_exceeded(self) -> bool:
        """Tell whether not even an empty entry has room any more."""
        return self.bytes_left is not None and (self.bytes_left < 0 or self.parts_left <= 0)

    def share(self, count: int) -> ReadRoom:
        size_bytes = None if self.bytes_left is None else self.bytes_left // max(count, 1)
        return ReadRoom(size_bytes, self.parts_left // max(count, 1))

    def take(self, fields: Fields, *, is_first: bool) -> bool:
        """Take in an entry if there is room; the first one always. Tells whether it was taken."""
        return self.take_all(size_of(fields), len(fields), is_first=is_first)

    def take_all(self, size_bytes: int, count: int, *, is_first: bool = False) -> bool:
        if self.bytes_left is None:
            return True
        if not is_first and (size_bytes > self.bytes_left or count > self.parts_left):
            return False
        self.bytes_left -= size_bytes
        self.parts_left -= count
        return True

    def take_what_went(self, before: ReadRoom, after: ReadRoom, *, is_first: bool = True) -> bool:
        """Take what another read used, `before` less `after`, if there is room; tells whether."""
        if before.bytes_left is None or after.bytes_left is None:
            return True
        size_bytes = before.bytes_left - after.bytes_left
        return self.take_all(size_bytes, before.parts_left - after.parts_left, is_first=is_first)


class ReplyRoom:
    """The remaining budget of a read: its streams take in turn, until nothing is left."""

    def __init__(self, budget: Budget) -> None:
        self._count_left = budget.entries_max
        self._bytes_left = budget.size_bytes_max
        if budget.reply_bytes_max is not None:
            self._bytes_left = min(budget.reply_bytes_max, self._bytes_left)
        # To count a reply as MAXSIZE does takes longer, for each of thousands of entries.
        self._counts_reply = budget.reply_bytes_max is not None
        self._parts_left = READ_PARTS_MAX
        self._is_first = True

    @property
    def count(self) -> int:
        """Return how many entries may still go out, if they are small."""
        is_spent = self._bytes_left <= 0 or self._parts_left <= 0
        return 0 if is_spent and not self._is_first else self._count_left

    def limit(self, count: int | None) -> int:
        return self.count if count is None else min(count, self.count)

    def take(
        self, entries: Sequence[Entry] | Sequence[Delivery], *, with_idle: bool = False
    ) -> int:
        """Take in entries from the first on, as many as there is room for; returns how many.

        `with_idle`: they are shown with idle time and delivery count, which takes room.
        """
        taken = 0
        left = self.count
        for entry in entries:
            if not left:
                break
            fields = entry.fields or ()
            self._parts_left -= len(fields)
            if self._counts_reply:
                numbers: tuple[int, ...] = ()
                if with_idle and isinstance(entry, Delivery):
                    numbers = (entry.idle_ms, entry.delivered_before)
                self._bytes_left -= _reply_bytes(entry.id, entry.fields, numbers)
            else:
                self._bytes_left -= size_of(fields)
            left = 0 if self._bytes_left <= 0 or self._parts_left <= 0 else left - 1
            taken += 1
        self._is_first = self._is_first and not taken
        self._count_left -= taken
        return taken


def shares(backlogs: Sequence[int], limit: int) -> list[int]:
    """Divide `limit` in proportion to the backlogs, by the largest remainder.

    No share exceeds its backlog; each backlog gets at least one, if `limit` suffices.
    """
    if sum(backlogs) <= limit:
        return list(backlogs)
    waiting = sum(backlog > 0 for backlog in backlogs)
    base = 1 if waiting <= limit else 0
    weights = [max(backlog - base, 0) for backlog in backlogs]
    left, total = limit - base * waiting, sum(weights)
    quotas = [divmod(left * weight, total) for weight in weights]
    given = [
        min(base, backlog) + quota for backlog, (quota, _) in zip(backlogs, quotas, strict=True)
    ]
    by_remainder = sorted(range(len(quotas)), key=lambda at: -quotas[at][1])
    for at in by_remainder[: limit - sum(given)]:
        given[at] += 1
    return given


def _reply_bytes(entry_id: EntryId, fields: Fields | None, numbers: Sequence[int]) -> int:
    size_bytes = _header_bytes(2 + len(numbers)) + _string_bytes(len(b"%d-%d" % entry_id))
    if fields is None:
        size_bytes += len("$-1\r\n")
    else:
        size_bytes += _header_bytes(len(fields)) + sum(map(_string_bytes, map(len, fields)))
    return size_bytes + sum(map(_header_bytes, numbers))


def _header_bytes(number: int) -> int:
    return len(str(number)) + len("*\r\n")


def _string_bytes(length: int) -> int:
    return _header_bytes(length) + length + len("\r\n")
