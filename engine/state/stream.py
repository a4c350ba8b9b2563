"""Stream: a log, its counters and its groups, and the arithmetic of reading positions.

Invariants: `last_id` is not below any id of the log and goes back only by XSETID; `max_deleted_id`
moves with deletes and never with trims; a stream may be empty and still exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from sortedcontainers import SortedDict

from headgate.engine.commands import TailLost
from headgate.engine.config import GroupPolicy, StreamConfig
from headgate.engine.entry import MIN_ID, Entry, EntryId, EntryTimes
from headgate.engine.limits import (
    AHEAD_AT_ONCE_MAX,
    ATTRIBUTE_BYTES,
    COUNT_MAX,
    LOST_MAX,
    ROWS_AT_ONCE_MAX,
)
from headgate.engine.replies import Gap, gap_after
from headgate.engine.state.chunk import Chunk, ChunkState, SharedChunk, shared_chunks
from headgate.engine.state.entries.deadlines import Deadlines
from headgate.engine.state.entries.log import Log
from headgate.engine.state.entries.logs import Logs
from headgate.engine.state.entries.packed import NodeLimits
from headgate.engine.state.extent import require_each
from headgate.engine.state.group import Group
from headgate.engine.state.idempotency import Keys
from headgate.engine.state.memory import STREAM_BYTES, Memory, Pieces
from headgate.engine.state.table import StreamTable

_NO_ATTRIBUTES: dict[bytes, bytes] = {}
"""Of every stream that has none."""

_NO_GROUPS: SortedDict[bytes, Group] = SortedDict()
"""Of every stream that has none: an empty one takes more than the rest of the stream."""


def attribute_bytes(name: bytes, value: bytes | None) -> int:
    return 0 if value is None else ATTRIBUTE_BYTES + len(name) + len(value)


class Stream:
    __slots__ = (
        "_memory",
        "archive",
        "attributes",
        "attributes_bytes",
        "closed_at_ms",
        "config",
        "deadlines",
        "entries_added",
        "epoch",
        "expires_at_ms",
        "fair_groups",
        "former_id",
        "gone_through",
        "groups",
        "groups_by_key",
        "keys",
        "last_id",
        "log",
        "lost",
        "lost_tails",
        "max_deleted_id",
        "name",
        "revision",
        "table",
        "trimmed_through",
    )

    def __init__(
        self, name: bytes, epoch: int, config: StreamConfig, memory: Memory | None = None
    ) -> None:
        self._memory = memory or Memory()
        self._memory.streams_bytes += STREAM_BYTES + len(name)
        self.name = name
        self.revision = 0  # of the last change that `Revisions` has numbered
        self.epoch = epoch  # identity of this life of the name: greater in every later life
        self.log = Log(self._memory, name)
        self.table: StreamTable | None = None  # of its latest entries by key
        self.config = config
        self.set_config(config)
        self.archive: Log | None = None  # what was trimmed and stays readable
        self.lost: list[tuple[EntryId, EntryId]] = []  # first and last ids of what was damaged
        self.lost_tails: Sequence[TailLost] = ()  # what may be lost of all streams
        self.last_id = MIN_ID  # last generated id
        self.max_deleted_id = MIN_ID  # greatest id removed by a delete
        self.trimmed_through = MIN_ID  # greatest id removed by a trim: what a late reader missed
        self.gone_through = MIN_ID  # greatest id removed by a trim that is in no archive
        # Last id of a deleted stream of this name, if all ids of this one are greater.
        self.former_id = MIN_ID
        self.entries_added = 0  # over the stream's whole life
        self.groups = _NO_GROUPS
        self.groups_by_key: tuple[Group, ...] = ()  # whose entries have turns
        self.fair_groups: tuple[Group, ...] = ()  # of which something may be ahead
        self.keys = Keys(self._memory)
        self.deadlines: Deadlines | None = None  # of entries that have times
        self.expires_at_ms: int | None = None  # unix time at which the stream goes; None: never
        self.closed_at_ms: int | None = None  # unix time since which it takes no entries
        self.attributes = _NO_ATTRIBUTES  # of what is layered over it
        self.attributes_bytes = 0  # what they take

    def set_config(self, config: StreamConfig) -> StreamTable | None:
        """Change the configuration; returns the table that has gone by it."""
        before, self.config = self.table, config
        if before is not None and before.fields == config.row_fields:
            return None
        self.table = None if config.row_fields is None else StreamTable(config, self._memory)
        if before is not None:
            before.leave()
        return before

    def add_group(self, name: bytes, last_id: EntryId, entries_read: int | None) -> Group:
        if not self.groups:
            self.groups = SortedDict()
        group = self.groups[name] = Group(name, last_id, entries_read, self._memory)
        return group

    def set_attributes(self, values: Mapping[bytes, bytes | None]) -> None:
        """Give attributes other values; None: they go."""
        before_bytes = self.attributes_bytes
        if not self.attributes:
            self.attributes = {}
        for name, value in values.items():
            self.attributes_bytes -= attribute_bytes(name, self.attributes.pop(name, None))
            self.attributes_bytes += attribute_bytes(name, value)
            if value is not None:
                self.attributes[name] = value
        self._memory.streams_bytes += self.attributes_bytes - before_bytes

    def set_policy(self, group: Group, policy: GroupPolicy) -> None:
        group.set_policy(policy)
        self.note_turns()

    def note_turns(self) -> None:
        groups = self.groups.values()
        self.groups_by_key = tuple(group for group in groups if group.pel.turns is not None)
        self.fair_groups = tuple(group for group in groups if group.indexes)

    def set_times(self, times: Iterable[tuple[EntryId, EntryTimes]]) -> None:
        if self.deadlines is None:
            self.deadlines = Deadlines(self._memory)
        self.deadlines.extend(times)

    def times_of(self, entry_id: EntryId) -> EntryTimes | None:
        return None if self.deadlines is None else self.deadlines.by_id.get(entry_id)

    def _note_gone(self, entry_id: EntryId) -> None:
        if self.deadlines is not None:
            self.deadlines.forget(entry_id)
        for group in self.groups_by_key:
            group.pel.forget_turn(entry_id)

    def leave(self) -> None:
        memory = self._memory
        memory.streams_bytes -= STREAM_BYTES + len(self.name) + self.attributes_bytes
        if self.deadlines is not None:
            memory.streams_bytes -= self.deadlines.memory_bytes
        self.log.leave()
        if self.archive is not None:
            self.archive.leave()
        memory.keys_bytes -= self.keys.memory_bytes
        if self.table is not None:
            self.table.leave()
        for group in self.groups.values():
            group.leave()

    @property
    def memory_bytes(self) -> int:
        groups = self.groups.values()
        return (
            STREAM_BYTES
            + len(self.name)
            + self.attributes_bytes
            + self.log.memory_bytes
            + (0 if self.archive is None else self.archive.memory_bytes)
            + self.keys.memory_bytes
            + (0 if self.deadlines is None else self.deadlines.memory_bytes)
            + (0 if self.table is None else self.table.memory_bytes)
            + sum(group.memory_bytes + group.pel.memory_bytes for group in groups)
            + sum(index.memory_bytes for group in self.fair_groups for index in group.indexes)
        )

    @property
    def thing_count(self) -> int:
        groups = self.groups.values()
        held = sum(len(group.pel) + len(group.consumers) for group in groups)
        timed = 0 if self.deadlines is None else len(self.deadlines)
        return (
            sum(log.chunk_count for log in self.logs) + len(groups) + held + len(self.keys) + timed
        )

    def rename(self, name: bytes) -> None:
        self._memory.streams_bytes += len(name) - len(self.name)
        for log in self.logs:
            log.extents.name = name
        self.name = name

    @property
    def logs(self) -> Sequence[Log]:
        return (self.log,) if self.archive is None else (self.archive, self.log)

    @property
    def everything(self) -> Log | Logs:
        """Return all readable entries, those of the archive among them."""
        return self.log if self.archive is None else Logs(self.archive, self.log)

    def _trimmed_into(self) -> Log | None:
        if self.config.archive and self.archive is None:
            self.archive = Log(self._memory, self.name)
        return self.archive if self.config.archive else None

    def load(self, state: ChunkState, *, is_archived: bool) -> None:
        """Take over a dumped chunk behind all others, those of the archive before the others."""
        if is_archived:
            if self.archive is None:
                self.archive = Log(self._memory, self.name)
            self.archive.load(state)
            return
        self.log.load(state)
        if self.archive is not None:
            self.log.note_shared(self.archive)

    def load_rows(
        self,
        through: EntryId,
        rows: Iterable[tuple[bytes, bytes]],
        deleted: Iterable[tuple[bytes, EntryId]],
    ) -> None:
        if self.table is None:
            raise ValueError("rows of a stream that is no table")
        self.table.through = through
        for keys, ids in rows:
            self.table.rows.load(keys, ids)
        for key, entry_id in deleted:
            self.table.note_deleted(key, entry_id)

    def load_extents(
        self, columns: Sequence[bytes], dead: Sequence[tuple[int, bytes]], is_archived: bool
    ) -> None:
        if is_archived and self.archive is None:
            self.archive = Log(self._memory, self.name)
        log = self.archive if is_archived else self.log
        assert log is not None
        log.load_extents(columns, dead)

    def sealed(self) -> Sequence[SharedChunk]:
        if self.archive is None:
            return shared_chunks(self.log.sealed, ())
        growing = self.log.growing
        return shared_chunks(self.log.sealed, self.archive.sealed_below(growing))

    def trim_archive(self, through: EntryId) -> None:
        assert self.archive is not None
        last_id = self.archive.last_id_through(through)
        self.archive.trim_through(through)
        self.gone_through = max(self.gone_through, last_id)

    def dismantle(self) -> Pieces:
        for log in self.logs:
            yield from log.dismantle()
        while self.groups:
            yield from self.groups.popitem()[1].dismantle()
        yield from self.keys.dismantle()
        if self.table is not None:
            yield from self.table.dismantle()
        if self.deadlines is not None:
            yield from self.deadlines.dismantle()
        yield

    def extend(self, entries: Sequence[Entry], limits: NodeLimits) -> None:
        if len(entries) * len(self.fair_groups) <= AHEAD_AT_ONCE_MAX:  # or they are indexed later
            for group in self.fair_groups:
                self._index(group, entries)
        table = self.table
        if table is not None and len(entries) <= ROWS_AT_ONCE_MAX and not self.is_behind(table):
            table.extend(table.changes_of(entries), entries[-1].id, entries[-1].id)
        self.log.extend(entries, limits)
        self.last_id = entries[-1].id
        self._count(len(entries))

    def is_behind(self, table: StreamTable) -> bool:
        """Tell whether there are entries that a table has still to index."""
        return self.log.last_id > table.through

    def _index(self, group: Group, entries: Sequence[Entry]) -> None:
        """Index new entries, unless others are to be indexed before them."""
        ahead = group.ahead
        if ahead is None or group.formerly_ahead or self.log.last_id > group.last_id:
            return
        if len(ahead) + len(entries) > group.policy.ahead_max:
            return
        place_of = ahead.place_of
        group.index([(each.id, *place_of(each.fields)) for each in entries], entries[-1].id)
        group.entries_read = min(self.entries_added + len(entries), COUNT_MAX)

    def attach(self, chunks: Sequence[Chunk]) -> None:
        self.log.attach(chunks)
        self.last_id = chunks[-1].last_id
        self._count(sum(chunk.count for chunk in chunks))

    def _count(self, added: int) -> None:
        self.entries_added = min(self.entries_added + added, COUNT_MAX)  # XSETID may set it high

    def has(self, entry_id: EntryId) -> bool:
        return any(log.has(entry_id) for log in self.logs)

    def require_all(self, ids: Sequence[EntryId]) -> None:
        require_each(partial(log.require_all, ids) for log in self.logs)

    def _leave_indexes(self, entry_id: EntryId) -> None:
        """Note that an entry is about to go."""
        if self.table is not None or any(group.ahead_count for group in self.fair_groups):
            entry = self.log.get(entry_id)
            fields = () if entry is None else entry.fields
            if self.table is not None:
                self.table.forget(entry_id, fields)
            for group in self.fair_groups:
                for index in group.indexes:
                    index.forget(entry_id, fields)

    def delete(self, entry_id: EntryId) -> None:
        self._leave_indexes(entry_id)
        if self.log.delete(entry_id):
            self._note_gone(entry_id)
            self.max_deleted_id = max(self.max_deleted_id, entry_id)
        elif self.archive is not None:
            self.archive.delete(entry_id)

    def set_last_id(self, last_id: EntryId) -> None:
        """Set the last id, not below a live entry. When it goes back, ids may come again.

        So what is archived above it goes: no two entries have one id.
        """
        if last_id < self.last_id:
            self.log.free_above(last_id)
            if self.archive is not None:
                self.archive.drop_above(last_id)
            if self.deadlines is not None:
                self.deadlines.forget_gone()
            if self.table is not None:
                self.table.go_back(last_id)
            for group in self.groups.values():
                group.pel.show_all()
        self.last_id = last_id

    def unreferenced(
        self, ids: Sequence[EntryId], *, but_by: Group | None = None, with_unread: bool = True
    ) -> set[EntryId]:
        """Return entries no group has to read or settle (ACKED), but for `but_by`'s pending.

        Without `with_unread`, groups are asked only for what they have to settle.
        """
        left = set(ids)
        highest = max(left, default=MIN_ID)
        for group in self.groups.values():
            if group is not but_by and group.pel.by_id:
                left -= group.pel.by_id.keys() & left
            if not with_unread:
                continue
            if highest > group.last_id:
                left = {entry_id for entry_id in left if entry_id <= group.last_id}
                highest = max(left, default=MIN_ID)
            if group.ahead_count:
                left = {entry_id for entry_id in left if not self._is_ahead(group, entry_id)}
        return left

    def _is_ahead(self, group: Group, entry_id: EntryId) -> bool:
        entry = self.log.get(entry_id)
        return entry is not None and any(
            index.has(entry_id, entry.fields) for index in group.indexes
        )

    def is_over_for(self, group: Group) -> bool:
        """Tell whether nothing can come to a group any more: all of a closed stream is settled."""
        is_closed = self.closed_at_ms is not None
        is_at_end = group.last_id >= self.log.last_id and not group.ahead_count
        return is_closed and not group.pel.by_id and is_at_end

    def purge(self, ids: Sequence[EntryId]) -> None:
        """Drop entries from every group's pending entries (DELREF)."""
        for group in self.groups.values():
            if group.pel.by_id:
                group.pel.remove_all(ids)

    def evict(self, entry_id: EntryId) -> None:
        """Remove a live entry as a trim does: `max_deleted_id` stays."""
        self._leave_indexes(entry_id)
        self.log.delete(entry_id, self._trimmed_into())
        self._note_gone(entry_id)
        self._note_trimmed(entry_id)

    def _note_trimmed(self, through: EntryId) -> None:
        self.trimmed_through = max(self.trimmed_through, through)
        if not self.config.archive:
            self.gone_through = self.trimmed_through

    def lose(self, first_id: EntryId, last_id: EntryId) -> None:
        """Remove damaged entries. The number of entries behind them is not known any more."""
        for group in self.groups_by_key:
            group.pel.forget_turns(first_id, last_id)
        if self.archive is not None and self.archive.lose(first_id, last_id):
            self._note_gap(first_id, last_id)
        if self.log.lose(first_id, last_id):
            self.note_lost(first_id, last_id)

    def note_lost(self, first_id: EntryId, last_id: EntryId) -> None:
        self.max_deleted_id = max(self.max_deleted_id, min(last_id, self.last_id))
        self._note_gap(first_id, last_id)

    def _note_gap(self, first_id: EntryId, last_id: EntryId) -> None:
        self.lost = sorted([*self.lost, (first_id, last_id)])
        if len(self.lost) > LOST_MAX:
            self.lost[:2] = [(self.lost[0][0], self.lost[1][1])]

    def gap_after(
        self, after: EntryId, through: EntryId, *, with_archive: bool = False
    ) -> Gap | None:
        """Return the gap of a reader that has seen all up to `after`; `0-0` has seen nothing."""
        gone_id = self.gone_through if with_archive else self.trimmed_through
        gap = gap_after(after, max(gone_id, self.former_id))
        for first_id, last_id in self._lost_ids() if gap is None else ():
            if after < last_id and first_id <= through:
                return Gap(max(after, first_id.previous()), last_id)
        return gap

    def _lost_ids(self) -> Iterator[tuple[EntryId, EntryId]]:
        yield from self.lost
        for tail in self.lost_tails:
            if self.epoch <= tail.epoch:
                yield tail.first_id, tail.last_id

    def trim(self, through: EntryId) -> None:
        last_id = self.log.last_id_through(through)  # what was deleted is not missed
        self.log.trim_through(through, self._trimmed_into())
        self._note_trimmed(last_id)
        if self.deadlines is not None:
            self.deadlines.forget_through(through)
        for group in self.groups_by_key:
            if group.pel.by_id:
                group.pel.forget_through(through)
        for group in self.fair_groups:
            group.drop_through(group.indexes, through)

    def lag_of(self, group: Group) -> int | None:
        """Return how many entries a group has still to be given."""
        lag = self.lag(group.last_id, group.entries_read)
        return None if lag is None else lag + group.ahead_count

    def lag(self, last_id: EntryId, entries_read: int | None) -> int | None:
        """Return how many entries a group at that position has still to be given.

        The six rules of Redis 8, the first that applies; None where they leave it unknown.
        """
        if self.entries_added == 0 or self.log.length == 0:
            return 0
        first_id = self.log.first_id
        if last_id < first_id and self.max_deleted_id < first_id:
            return self.log.length
        if entries_read is not None and not self._tombstone_after(last_id):
            return self.entries_added - entries_read
        place = self._place_of(last_id)
        return None if place is None else self.entries_added - place

    def entries_read_after(
        self, last_id: EntryId, entries_read: int | None, delivered: list[Entry]
    ) -> int | None:
        """Return a group's `entries_read` once `delivered` are read in order (XREADGROUP)."""
        count = entries_read
        for index, entry in enumerate(delivered):
            if count is None or not self.counts_on(last_id, count):
                count = self._place_of(entry.id)
                last_id = entry.id
            else:  # from here on every entry counts one: the conditions stay true
                return count + len(delivered) - index
        return count

    def counts_on(self, last_id: EntryId, entries_read: int | None) -> bool:
        """Tell whether each entry that a group reads counts one, at a position."""
        is_known = entries_read is not None and last_id >= self.log.first_id
        return is_known and not self._tombstone_after(last_id)

    def _tombstone_after(self, entry_id: EntryId) -> bool:
        deleted = self.max_deleted_id
        return self.log.length > 0 and deleted != MIN_ID and entry_id <= deleted

    def _place_of(self, entry_id: EntryId) -> int | None:
        """Return the logical position of an id among all entries ever added, if it can be known."""
        if self.entries_added == 0:
            return 0
        if self.log.length == 0 and entry_id <= self.last_id:
            return self.entries_added
        if entry_id != MIN_ID and entry_id < self.max_deleted_id:
            return None
        if entry_id >= self.last_id:
            return self.entries_added if entry_id == self.last_id else None
        first_id = self.log.first_id
        if self.max_deleted_id == MIN_ID or self.max_deleted_id < first_id:
            if entry_id < first_id:
                return self.entries_added - self.log.length
            if entry_id == first_id:
                return self.entries_added - self.log.length + 1
        return None
