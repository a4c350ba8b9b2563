"""Finder: entries of a log by their ids, in any order, within one decision."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import itemgetter

from headgate.engine.entry import Entry, EntryId
from headgate.engine.state.chunk import Chunk
from headgate.engine.state.entries.log import Log

_id_of = itemgetter(0)

_COST_MAX = 10_000
"""Microseconds for unpacking, about."""


class Finder:
    """Unpacks each chunk once. The log must not change meanwhile."""

    def __init__(self, log: Log, *, are_scattered: bool = False) -> None:
        """Get ready; entries that are scattered are few of each chunk."""
        self._log = log
        self._are_scattered = are_scattered
        self._chunk: Chunk | None = None
        self._entries: Sequence[Entry] = ()
        self._at = 0  # of the last entry that was found
        self._known: dict[EntryId, Sequence[Entry]] = {}  # by the first id of the chunk
        self._cost = 0

    @property
    def is_spent(self) -> bool:
        """Tell whether so much was unpacked that other requests are to run."""
        return self._cost > _COST_MAX

    def find(self, entry_id: EntryId) -> Entry | None:
        """Return a live entry; raises Missing."""
        chunk = self._chunk
        if chunk is None or not chunk.first_id <= entry_id <= chunk.last_id:
            chunk = self._log.chunk_of(entry_id)
            if chunk is None:
                return None
            self._chunk, self._entries, self._at = chunk, self._entries_of(chunk), -1
        entries, at = self._entries, self._at + 1
        entry = entries[at] if at < len(entries) else None
        if entry is None or entry.id != entry_id:
            at = bisect_left(entries, entry_id, key=_id_of)
            entry = entries[at] if at < len(entries) else None
            if entry is None or entry.id != entry_id:
                return None
        self._at = at
        return None if chunk.tombstones >> at & 1 else entry

    def find_all(self, ids: Sequence[EntryId]) -> list[Entry | None]:
        """Return the entries of these ids, or of the first of them if it takes long."""
        found: list[Entry | None] = []
        while len(found) < len(ids) and not self.is_spent:
            found.append(self.find(ids[len(found)]))
            following = self._entries[self._at + 1 : self._at + 1 + len(ids) - len(found)]
            wanted = ids[len(found) : len(found) + len(following)]
            if found[-1] is None or self._is_torn or list(map(_id_of, following)) != wanted:
                continue
            found += following
            self._at += len(following)
        return found

    @property
    def _is_torn(self) -> bool:
        return self._chunk is None or self._chunk.tombstones != 0

    def _entries_of(self, chunk: Chunk) -> Sequence[Entry]:
        known = self._known.get(chunk.first_id)
        if known is None:
            self._cost += chunk.cost
            known = chunk.few_entries() if self._are_scattered else chunk.entries()
            self._known[chunk.first_id] = known
        return known
