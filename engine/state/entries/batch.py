"""Batch: entries of a range up to its bounds, and what of these is still wanted."""

from __future__ import annotations

from itertools import chain
from operator import itemgetter

from headgate.engine.entry import Entry
from headgate.engine.room import ReadRoom

_fields_of = itemgetter(1)


class Wanted:
    __slots__ = ("_bytes_left", "_limit")

    def __init__(self, limit: int | None, bytes_left: int | None) -> None:
        self._limit, self._bytes_left = limit, bytes_left

    def take(self, count: int, size_bytes: int) -> bool:
        if self._limit is not None:
            self._limit -= count
        if self._bytes_left is not None:
            self._bytes_left -= size_bytes
        is_full = self._bytes_left is not None and self._bytes_left < 0
        return is_full or (self._limit is not None and self._limit <= 0)


class Batch:
    __slots__ = ("_limit", "_room", "entries")

    def __init__(self, limit: int | None, room: ReadRoom) -> None:
        self._limit = limit
        self._room = room
        self.entries: list[Entry] = []

    def take(self, entries: list[Entry]) -> bool:
        if self._limit is not None:
            entries = entries[: max(self._limit - len(self.entries), 0)]
        room = self._room
        if room.bytes_left is None:
            self.entries += entries
        else:
            parts = list(chain.from_iterable(map(_fields_of, entries)))
            if room.take_all(sum(map(len, parts)), len(parts)):
                self.entries += entries
            else:
                for entry in entries:
                    if not room.take(entry.fields, is_first=not self.entries):
                        return False
                    self.entries.append(entry)
            if room.is_exceeded:
                return False
        return self._limit is None or len(self.entries) < self._limit
