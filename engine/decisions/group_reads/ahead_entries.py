"""Entries ahead: what a group with an index reads, in rotation over its keys or in order of ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice

from headgate.engine.commands import EntriesIndexed
from headgate.engine.config import GroupPolicy
from headgate.engine.decisions.group_reads.group_in_read import GroupInRead
from headgate.engine.decisions.group_reads.new_entries import NewEntries, Walk
from headgate.engine.entry import MAX_ID, Entry, EntryId
from headgate.engine.limits import AHEAD_AT_ONCE_MAX, HELD_AT_ONCE_MAX, PASSED_BYTES_MAX
from headgate.engine.room import ReadRoom
from headgate.engine.state.ahead import Ahead
from headgate.engine.state.entries.finder import Finder
from headgate.engine.state.extent import Missing
from headgate.engine.state.group import Group
from headgate.engine.state.lane import Key, Room
from headgate.engine.state.memory import Memory
from headgate.engine.state.stream import Stream
from headgate.engine.state.turns import Turns

_PAGE_ENTRIES = 256
_NO_PAGE: tuple[Sequence[EntryId], Sequence[Key]] = ((), ())


def entries_ahead(
    stream: Stream,
    group: GroupInRead,
    limit: int | None,
    left: ReadRoom,
    now_ms: int,
    *,
    takes_turns: bool,
) -> NewEntries:
    """Return entries that are ahead and may be delivered: fairly, or the smallest ids first.

    Arguments as of `new_entries`.
    """
    ahead = group.rotation
    if ahead is None:
        by_id = _ById(group, 0, limit, left, now_ms, takes_turns=takes_turns)
        return by_id.over(stream, group.ids_ahead())
    ahead.look()
    rotation = _Rotation(group, 0, limit, left, now_ms, takes_turns=takes_turns)
    return rotation.over(stream, ahead)


class _ById(Walk):
    """Looks at what is ahead in order of ids, as a walk looks at the log."""

    def over(self, stream: Stream, ids: Iterator[EntryId]) -> NewEntries:
        finder, through = Finder(stream.log), self.group.through
        for entry_id in islice(ids, HELD_AT_ONCE_MAX):
            try:
                entry = finder.find(entry_id)
            except Missing:
                if through == self.group.through:
                    raise
                break  # the next decision asks for it
            if entry is not None and not self.take(entry):
                break
            through = entry_id
            self.looked_at += 1
            if finder.is_spent:
                break
        new = self.result(self.group.last_id, self.group.entries_read)
        return new._replace(through=through, ahead_count=self.looked_at)


class _Rotation(Walk):
    """Looks at the entry whose key is next, and goes on to the key behind it."""

    def over(self, stream: Stream, ahead: Ahead) -> NewEntries:
        self._passed: list[tuple[EntryId, Key]] = []
        self._resting: list[Key] = []
        self._seen_count = 0  # in the rotation
        finder, room = Finder(stream.log), ReadRoom(PASSED_BYTES_MAX)
        goes_on, is_over = True, False
        pages = self._pages(ahead)
        while goes_on and self._seen_count < HELD_AT_ONCE_MAX and not room.is_spent:
            ids, keys = next(pages, _NO_PAGE)
            try:
                entries = finder.find_all(ids)
            except Missing:
                if not self.taken and not self._passed:
                    raise
                break  # the next decision asks for it
            is_over = ids is _NO_PAGE[0]
            goes_on = not is_over and self._take_page(ids, keys, entries, room)
            goes_on = goes_on and len(self.taken) != self.limit
        for key in self._resting:
            ahead.rest(key)
        self.looked_at = count = len(self.taken) + len(self._passed)
        self.is_blocked = is_over and len(ahead) > count + len(self.group.gone)
        new = self.result(self.group.last_id, self.group.entries_read)
        return new._replace(keys=self.keys, passed=self._passed, ahead_count=count)

    def _pages(self, ahead: Ahead) -> Iterator[tuple[Sequence[EntryId], Sequence[Key]]]:
        """Yield what comes next, with its keys."""
        gone, turns = self.group.gone, self.group.pel.turns
        page = None if gone else ahead.front(self._page_entries())
        if page is not None and (turns is None or turns.at_once is None or turns.are_free(page[1])):
            self._seen_count += len(page[0])
            yield page
        rotation = ahead.rotation(room_of(turns), self.now_ms)
        coming = islice(rotation, self._seen_count, None)
        while following := list(islice(coming, self._page_entries())):
            self._seen_count += len(following)
            self._resting += [key for entry_id, key in following if entry_id is None]
            left = [(each, key) for each, key in following if each is not None and each not in gone]
            yield [each for each, _ in left], [key for _, key in left]

    def _page_entries(self) -> int:
        left = _PAGE_ENTRIES if self.limit is None else self.limit - len(self.taken)
        return min(left, _PAGE_ENTRIES)

    def _take_page(
        self,
        ids: Sequence[EntryId],
        keys: Sequence[Key],
        entries: Sequence[Entry | None],
        room: ReadRoom,
    ) -> bool:
        """Deliver entries, or pass them by; false: the next one has no room, or takes long."""
        there = [entry for entry in entries if entry is not None]
        if len(there) == len(ids) and not self.has_rules and self._has_room_for(there):
            self.taken += there
            self.keys += keys
            return True
        for entry_id, key, entry in zip(ids, keys, entries, strict=False):
            if not self._take_of(entry, entry_id, key, room):
                return False
        return len(entries) == len(ids)

    def _has_room_for(self, entries: Sequence[Entry]) -> bool:
        if self.limit is not None and len(self.taken) + len(entries) > self.limit:
            return False
        if self.left.bytes_left is None:
            return True
        many = [entry.fields for entry in entries]
        size_bytes = sum(map(len, chain.from_iterable(many)))
        return self.left.take_all(size_bytes, sum(map(len, many)))

    def _take_of(self, entry: Entry | None, entry_id: EntryId, key: Key, room: ReadRoom) -> bool:
        """Deliver an entry, or pass it by; false: it has no room."""
        if len(self.taken) == self.limit:
            return False
        count = len(self.taken)
        if entry is None:  # it is damaged
            self._passed.append((entry_id, key))
            self.expired_count += 1
            return True
        room.take(entry.fields, is_first=True)
        if not self.take(entry):
            return False
        if len(self.taken) == count:
            self._passed.append((entry_id, key))
        else:
            self.keys[-1] = key
        return True


def room_of(turns: Turns | None) -> Room | None:
    if turns is None or turns.at_once is None:
        return None
    return lambda key: None if key is None else turns.room(key)


def indexed(stream: Stream, group: Group) -> EntriesIndexed | None:
    """Return what indexes the next entries of the log, or those of another index; None: nothing."""
    ahead = group.ahead
    if ahead is None:
        return None
    names, last_id, entries_read = (stream.name, group.name), group.last_id, group.entries_read
    if group.formerly_ahead:
        finder, rows = Finder(stream.log), []
        former = (entry_id for each in group.formerly_ahead for entry_id, _ in each.by_id())
        for entry_id in islice(former, AHEAD_AT_ONCE_MAX // 4):  # each is looked up
            entry = finder.find(entry_id)
            place = (None, 0) if entry is None else ahead.place_of(entry.fields)
            rows.append((entry_id, *place))
            if finder.is_spent:
                break
        if rows:
            return EntriesIndexed(*names, rows, last_id, entries_read)
    return _following(stream, group.name, ahead, group.policy.ahead_max, last_id, entries_read)


def first_indexed(
    stream: Stream, group: bytes, policy: GroupPolicy, position: tuple[EntryId, int | None]
) -> EntriesIndexed | None:
    """Return what indexes the first entries for a group that is about to have a policy."""
    if not policy.is_fair:
        return None
    empty = Ahead(policy.fair_field, policy.priority_field, Memory())
    with suppress(Missing):  # reads and housekeeping do all of it
        return _following(stream, group, empty, policy.ahead_max, *position)
    return None


def _following(
    stream: Stream,
    group: bytes,
    ahead: Ahead,
    ahead_max: int,
    last_id: EntryId,
    entries_read: int | None,
) -> EntriesIndexed | None:
    limit = min(ahead_max - len(ahead), AHEAD_AT_ONCE_MAX)
    if limit <= 0 or stream.log.last_id <= last_id:
        return None
    entries = stream.log.range(last_id.next(), MAX_ID, limit, ReadRoom(PASSED_BYTES_MAX))
    read = stream.entries_read_after(last_id, entries_read, entries)
    rows = [(entry.id, *ahead.place_of(entry.fields)) for entry in entries]
    return EntriesIndexed(stream.name, group, rows, entries[-1].id, read)
