"""New entries: those behind a group's position that a read delivers, holds back or passes by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headgate.engine.decisions.group_reads.group_in_read import GroupInRead
from headgate.engine.entry import MAX_ID, MIN_ID, Entry, EntryId, EntryTimes, key_of
from headgate.engine.filters import matcher_of
from headgate.engine.limits import (
    CONDITIONS_PER_PASS,
    HELD_AT_ONCE_MAX,
    KEY_AHEAD_DEFAULT,
    PASSED_AT_ONCE_MAX,
    PASSED_BYTES_MAX,
)
from headgate.engine.room import ReadRoom
from headgate.engine.state.extent import Missing
from headgate.engine.state.stream import Stream

_PAGE_ENTRIES = 256


class NewEntries(NamedTuple):
    entries: list[Entry]
    last_id: EntryId
    entries_read: int | None
    passed_count: int = 0
    keys: Sequence[bytes | None] = ()  # of the entries, if the group bounds them
    held: Sequence[tuple[EntryId, bytes]] = ()  # with their keys
    held_until_ms: Sequence[int] = ()  # when each of these is due (unix time); 0: at once
    delayed: Sequence[tuple[EntryId, int, int]] = ()  # with delivery count, and when each is due
    expired_count: int = 0
    is_blocked: bool = False  # no key has a turn, or so many entries may not be held
    passed: Sequence[tuple[EntryId, bytes | None]] = ()  # of those ahead, with their keys
    through: EntryId = MIN_ID  # everything ahead up to here was looked at
    ahead_count: int = 0  # entries that leave the indexes

    @classmethod
    def none(cls, group: GroupInRead) -> NewEntries:
        return cls([], group.last_id, group.entries_read)


def new_entries(
    stream: Stream,
    group: GroupInRead,
    begun_count: int,
    limit: int | None,
    left: ReadRoom,
    now_ms: int,
    *,
    takes_turns: bool,
) -> NewEntries:
    """Return the entries that are new to a group and may be delivered.

    `begun_count` held entries get their turn by this read. What is delivered is taken from `left`;
    the first entry comes whatever its size. With `takes_turns`, a delivered entry is pending and so
    has the turn of its key.
    """
    if group.walks:
        walk = Walk(group, begun_count, limit, left, now_ms, takes_turns=takes_turns)
        return walk.through(stream)
    entries = stream.log.range(group.last_id.next(), MAX_ID, limit, left)
    last_id = entries[-1].id if entries else group.last_id
    read = stream.entries_read_after(group.last_id, group.entries_read, entries)
    return NewEntries(entries, last_id, read)


class Walk:
    """Looks at entries, up to the first that matches and cannot be delivered or held."""

    def __init__(
        self,
        group: GroupInRead,
        begun_count: int,
        limit: int | None,
        left: ReadRoom,
        now_ms: int,
        *,
        takes_turns: bool,
    ) -> None:
        rules = group.rules
        self._takes_turns = takes_turns
        self.now_ms = now_ms
        self._times = {} if group.deadlines is None else group.deadlines.by_id
        held_count = group.pel.held_count - begun_count
        self.group = group
        self.limit = limit
        self.left = left
        matcher = None if rules.filters is None else matcher_of(rules.filters)
        self._matches = None if matcher is None else matcher.matches
        self._needed = () if matcher is None else matcher.needed
        condition_count = 0 if matcher is None else matcher.condition_count
        self._passed_max = PASSED_AT_ONCE_MAX // (1 + condition_count // CONDITIONS_PER_PASS)
        self._key_field = rules.key_field
        self._ahead_left = (rules.key_ahead_max or KEY_AHEAD_DEFAULT) - held_count
        self._given: dict[bytes, int] = {}  # how many of a key this read delivers
        self.looked_at = 0
        self._behind: set[bytes] = set()  # keys of entries that it holds
        self.taken: list[Entry] = []
        self.keys: list[bytes | None] = []
        self._held: list[tuple[EntryId, bytes]] = []
        self._held_until_ms: list[int] = []
        self._delayed: list[tuple[EntryId, int, int]] = []
        self.expired_count = 0
        self.is_blocked = False

    def through(self, stream: Stream) -> NewEntries:
        last_id, entries_read = self.group.last_id, self.group.entries_read
        room = ReadRoom(PASSED_BYTES_MAX)
        goes_on = True
        while goes_on and self.looked_at < self._passed_max and not room.is_spent:
            try:
                if self._needed and stream.counts_on(last_id, entries_read):
                    enough = self._passed_max - self.looked_at
                    passed = stream.log.lacking(last_id.next(), self._needed, enough, room)
                    if passed is not None:
                        last_id = passed.through
                        self.looked_at += passed.length
                        entries_read = (entries_read or 0) + passed.length
                        continue
                before = room.share(1)
                page = stream.log.range(last_id.next(), MAX_ID, self._page_entries(), room)
            except Missing:
                if not self.looked_at:
                    raise
                break  # the next decision asks for it
            count = len(page)
            if not self._take_whole(page, before, room):
                count = next((at for at, each in enumerate(page) if not self.take(each)), count)
            is_full = self._matches is None and len(self.taken) == self.limit
            is_full = is_full or len(self._held) + len(self._delayed) >= HELD_AT_ONCE_MAX
            goes_on = bool(page) and count == len(page) and not is_full
            if count:
                entries_read = stream.entries_read_after(last_id, entries_read, page[:count])
                last_id = page[count - 1].id
                self.looked_at += count
        return self.result(last_id, entries_read)

    def result(self, last_id: EntryId, entries_read: int | None) -> NewEntries:
        kept_count = len(self.taken) + len(self._held) + len(self._delayed)
        passed_count = self.looked_at - kept_count - self.expired_count
        return NewEntries(
            self.taken,
            last_id,
            entries_read,
            passed_count,
            self.keys if any(key is not None for key in self.keys) else (),
            self._held,
            self._held_until_ms,
            self._delayed,
            self.expired_count,
            self.is_blocked,
        )

    @property
    def has_rules(self) -> bool:
        """Tell whether entries are looked at, other than for their size."""
        return self._matches is not None or bool(self._times)

    def _page_entries(self) -> int:
        """Return how many entries are looked at together; most are wanted without a filter."""
        if self._matches is not None or self.limit is None:
            return _PAGE_ENTRIES
        return min(self.limit - len(self.taken), _PAGE_ENTRIES)

    def _take_whole(self, page: list[Entry], before: ReadRoom, after: ReadRoom) -> bool:
        """Deliver a page if each entry has a key of its own; tells whether it was so."""
        turns, name, limit = self.group.pel.turns, self._key_field, self.limit
        if self._matches is not None or turns is None or name is None or turns.at_once is None:
            return False
        if self._times and not self._times.keys().isdisjoint([entry.id for entry in page]):
            return False
        if self.taken or self._behind or not page or (limit is not None and len(page) > limit):
            return False
        keys = [key_of(entry.fields, name) for entry in page]
        if not turns.are_free(keys) or not self.left.take_what_went(before, after, is_first=False):
            return False
        self.taken, self.keys = page, list(keys)
        self._given = dict.fromkeys(keys, 1)
        return True

    def take(self, entry: Entry) -> bool:
        if self._matches is not None and not self._matches(entry.fields):
            return True
        times = self._times.get(entry.id) if self._times else None
        if times is not None and self._take_by_time(entry, times):
            return True
        if len(self.taken) == self.limit:
            return False
        key = None if self._key_field is None else key_of(entry.fields, self._key_field)
        if key is not None and not self._has_turn(key):
            return self._hold(entry.id, key)
        if not self.left.take(entry.fields, is_first=not self.taken):
            return False
        self.taken.append(entry)
        self.keys.append(key)
        if key is not None and self._takes_turns:
            self._given[key] = self._given.get(key, 0) + 1
        return True

    def _take_by_time(self, entry: Entry, times: EntryTimes) -> bool:
        clock_set_ms = self.group.clock_set_ms
        is_over = times.is_over(self.now_ms - clock_set_ms)
        if not is_over and not times.is_early(self.now_ms - clock_set_ms):
            return False
        if entry.id in self.group.pel.by_id:  # the position was set back: it is pending already
            return True
        if is_over:
            if self.group.policy.on_expiry:  # nobody gets it, and then it is a dead letter
                self._delayed.append((entry.id, 0, self.now_ms))
            else:
                self.expired_count += 1
            return True
        due_ms = (times.deliver_at_ms or 0) + clock_set_ms
        key = None if self._key_field is None else key_of(entry.fields, self._key_field)
        if key is None:
            self._delayed.append((entry.id, 0, due_ms))
        else:
            self._held.append((entry.id, key))
            self._held_until_ms.append(due_ms)
        return True

    def _has_turn(self, key: bytes) -> bool:
        turns = self.group.pel.turns
        room = None if turns is None else turns.room(key)
        return key not in self._behind and (room is None or self._given.get(key, 0) < room)

    def _hold(self, entry_id: EntryId, key: bytes) -> bool:
        if entry_id in self.group.pel.by_id:  # the position was set back: it is pending already
            return True
        if self._ahead_left <= 0:
            self.is_blocked = True
            return False
        self._ahead_left -= 1
        self._behind.add(key)
        self._held.append((entry_id, key))
        self._held_until_ms.append(0)
        return True
