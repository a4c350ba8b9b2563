"""Table: the latest entry of each key of a stream, and what a walk over it needs of the past.

The newest entry of a key is its row; one with the tombstone's field removes the row. Entries are
indexed in order of their ids, as they are appended, or later in parts: what is *behind* is not yet
indexed. A row whose entry was trimmed is none; the index forgets it in parts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sortedcontainers import SortedDict

from headgate.engine.config import StreamConfig
from headgate.engine.entry import MAX_ID, MIN_ID, Entry, EntryId, Fields
from headgate.engine.limits import ALL_TABLE_CHANGES_MAX, TABLE_CHANGES_MAX, TABLE_WALKS_MAX
from headgate.engine.state.memory import DELETED_KEY_BYTES, Memory, Pieces
from headgate.engine.state.rows import RowIndex

_FORGOTTEN_AT_ONCE = 1_000
"""Changes that are freed together. Each takes some 4 µs."""


class RowChange(NamedTuple):
    id: EntryId
    key: bytes
    is_removed: bool


class TablePast:
    """The changes of the rows since an id: what those are shown who walk over an earlier state.

    It is kept while somebody walks, and never recorded. Of each row, only the first change after
    each state that is walked over is kept.
    """

    __slots__ = ("_before", "_changes", "_memory", "since", "until_ms", "walks")

    def __init__(self, since: EntryId, memory: Memory) -> None:
        self._memory = memory
        self.since = since  # all changes after it are known
        # The ids that walks are as of, with the first entry that there was: older rows were none.
        self.walks: dict[EntryId, EntryId] = {}
        self.until_ms = 0  # nobody walks after that time
        self._changes: deque[RowChange] = deque()
        # By key: each change of its row, with the row's entry before.
        self._before: SortedDict[bytes, deque[tuple[EntryId, EntryId | None]]] = SortedDict()

    def note(self, change: RowChange, before: EntryId | None) -> None:
        known = self._before.get(change.key)
        if known is not None and known[-1][0] > next(reversed(self.walks)):
            return  # nobody walks as of a time between that change and this one
        if known is None:
            known = self._before[change.key] = deque()
        known.append((change.id, before))
        self._changes.append(change)
        self._memory.past_count += 1
        is_long = len(self._changes) > TABLE_CHANGES_MAX
        if is_long or self._memory.past_count > ALL_TABLE_CHANGES_MAX:
            self.since = max(self.since, self._forget_first())

    def _forget_first(self) -> EntryId:
        """Forget the oldest change, and return its id."""
        first = self._changes.popleft()
        self._memory.past_count -= 1
        changes = self._before[first.key]
        changes.popleft()
        if not changes:
            del self._before[first.key]
        return first.id

    def former_ids(self, keys: Iterable[bytes]) -> set[EntryId | None]:
        """Return the entries that were rows of these keys as of an id that somebody walks."""
        return {before for key in keys for _, before in self._before.get(key, ())}

    @property
    def has_ended(self) -> bool:
        return self.since == MAX_ID

    def end(self) -> None:
        """Note that nothing is known any more, so that walks begin again once this is freed."""
        self.since, self.until_ms = MAX_ID, 0

    def dismantle(self) -> Pieces:
        while self._changes:
            for _ in range(min(_FORGOTTEN_AT_ONCE, len(self._changes))):
                self._forget_first()
            yield

    def walk(
        self, rows: Iterator[tuple[bytes, EntryId]], start: bytes, as_of: EntryId
    ) -> Iterator[tuple[bytes, EntryId]]:
        """Yield rows as they were, given those that there are, from the same key on."""
        changed = self._before.irange(start)
        next_changed = next(changed, None)
        for key, entry_id in rows:
            while next_changed is not None and next_changed < key:
                yield from self._former(next_changed, None, as_of)
                next_changed = next(changed, None)
            if next_changed == key:
                yield from self._former(key, entry_id, as_of)
                next_changed = next(changed, None)
            else:
                yield key, entry_id
        while next_changed is not None:
            yield from self._former(next_changed, None, as_of)
            next_changed = next(changed, None)

    def _former(
        self, key: bytes, now: EntryId | None, as_of: EntryId
    ) -> Iterator[tuple[bytes, EntryId]]:
        former = next((was for at, was in self._before[key] if at > as_of), now)
        if former is not None:
            yield key, former


class Compaction(NamedTuple):
    """How far a pass over the stream of a table is that removes superseded entries."""

    through: EntryId = MIN_ID  # what was indexed when it began; all that it looks at
    after: EntryId = MIN_ID
    keeps_tombstones: bool = False  # an entry stayed that only a tombstone keeps from being a row
    seen: int = 0
    removed: int = 0
    not_before_ms: int = 0  # it goes on


class StreamTable:
    __slots__ = (
        "_memory",
        "_row_of",
        "compaction",
        "deleted",
        "fields",
        "key_field",
        "past",
        "rows",
        "through",
        "tombstone_field",
    )

    def __init__(self, config: StreamConfig, memory: Memory) -> None:
        assert config.row_fields is not None
        self.fields = self.key_field, self.tombstone_field = config.row_fields
        self._row_of = config.row_of
        self.through = MIN_ID  # entries up to here are indexed
        self.rows = RowIndex(memory)
        self._memory = memory
        # Keys of entries that were deleted before they were indexed: the newest of these.
        self.deleted: dict[bytes, EntryId] = {}
        self.past: TablePast | None = None
        self.compaction = Compaction()  # never recorded: after a start a pass begins anew

    def change_of(self, entry: Entry) -> RowChange | None:
        """Return what an entry does to a row; None if it has no key, or one that is too long."""
        change = self._row_of(entry.fields)
        return None if change is None else RowChange(entry.id, *change)

    def changes_of(self, entries: Iterable[Entry]) -> list[RowChange]:
        return [change for each in entries if (change := self.change_of(each)) is not None]

    def extend(self, changes: Iterable[RowChange], through: EntryId, last_id: EntryId) -> None:
        """Index entries up to an id; they come behind all that are indexed, up to `last_id`."""
        for change in changes:
            entry_id, key, is_removed = change
            if self.deleted and entry_id < self.deleted.get(key, MIN_ID):
                continue
            if self.past is not None:
                self.past.note(RowChange(*change), self.rows.find(key))
            if is_removed:
                self.rows.remove(key)
            else:
                self.rows.put(key, entry_id)
        self.through = through
        if self.deleted and through >= last_id:
            self._forget_deleted()

    def forget(self, entry_id: EntryId, fields: Fields) -> None:
        """Note that an entry is about to be deleted: the row of its key goes with it."""
        change = self._row_of(fields)
        if change is None:
            return
        key, _ = change
        is_behind = entry_id > self.through
        if is_behind or self.rows.find(key) == entry_id:
            self.rows.remove(key)
        if is_behind:
            self.note_deleted(key, max(entry_id, self.deleted.get(key, MIN_ID)))

    def note_deleted(self, key: bytes, entry_id: EntryId) -> None:
        """Note that an entry is gone that was not indexed: older ones of its key make no row."""
        if key not in self.deleted:
            self._memory.tables_bytes += DELETED_KEY_BYTES + len(key)
        self.deleted[key] = entry_id

    def _forget_deleted(self) -> None:
        self._memory.tables_bytes -= self._deleted_bytes
        self.deleted = {}

    @property
    def _deleted_bytes(self) -> int:
        return DELETED_KEY_BYTES * len(self.deleted) + sum(map(len, self.deleted))

    @property
    def memory_bytes(self) -> int:
        return self.rows.memory_bytes + self._deleted_bytes

    def walk(self, start: bytes, as_of: EntryId | None) -> Iterator[tuple[bytes, EntryId]] | None:
        """Yield rows from a key on, as they are or as of an id; None if these are not known."""
        rows = self.rows.walk(start)
        if as_of is None or as_of >= self.through:
            return rows
        past = self.past
        if past is None or as_of not in past.walks or as_of < past.since:
            return None
        return past.walk(rows, start, as_of)

    def keep_past(self, as_of: EntryId, first_id: EntryId, until_ms: int) -> None:
        """Note that somebody walks as of an id; `first_id` is that of the stream's first entry."""
        if self.past is None and as_of >= self.through:
            self.past = TablePast(as_of, self._memory)
        past = self.past
        if past is None or past.has_ended:
            return
        past.until_ms = max(past.until_ms, until_ms)
        if as_of >= self.through and as_of not in past.walks:
            past.walks[as_of] = first_id
            if len(past.walks) > TABLE_WALKS_MAX:
                del past.walks[next(iter(past.walks))]

    def first_id(self, as_of: EntryId) -> EntryId:
        """Return the first entry there was, as of an id that `walk` knows."""
        return MIN_ID if self.past is None else self.past.walks.get(as_of, MIN_ID)

    def take_past(self, now_ms: int) -> TablePast | None:
        """Let go of the past if nobody walks over it any more, and return it, to be freed."""
        past = self.past
        if past is None or past.until_ms >= now_ms:
            return None
        self.past = None
        return past

    def go_back(self, last_id: EntryId) -> None:
        """Note that ids behind one may come again."""
        self.through = min(self.through, last_id)
        self.compaction = Compaction()
        self._forget_deleted()
        if self.past is not None:
            self.past.end()

    def leave(self) -> None:
        self._forget_deleted()
        self.rows.leave()

    def dismantle(self) -> Pieces:
        if self.past is not None:
            yield from self.past.dismantle()
        yield from self.rows.dismantle()
