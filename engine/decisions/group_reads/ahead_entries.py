"""Entries ahead: what a group with an index reads, in rotation over its keys or in order of ids."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from headgate.engine.commands import EntriesIndexed
from headgate.engine.decisions.group_reads.group_in_read import GroupInRead
from headgate.engine.decisions.group_reads.new_entries import NewEntries, Walk
from headgate.engine.entry import MAX_ID, Entry, EntryId
from headgate.engine.limits import AHEAD_AT_ONCE_MAX, PASSED_AT_ONCE_MAX, PASSED_BYTES_MAX
from headgate.engine.room import ReadRoom
from headgate.engine.state.ahead import Ahead
from headgate.engine.state.entries.finder import Finder
from headgate.engine.state.extent import Missing
from headgate.engine.state.group import Group
from headgate.engine.state.lane import Key, Room
from headgate.engine.state.stream import Stream
from headgate.engine.state.turns import Turns


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
        for entry_id in islice(ids, PASSED_AT_ONCE_MAX):
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
        resting: list[Key] = []
        self._passed: list[tuple[EntryId, Key]] = []
        self._rule_free = not self.has_rules
        finder, room = Finder(stream.log), ReadRoom(PASSED_BYTES_MAX)
        is_over, looked_at = True, 0
        for entry_id, key in ahead.rotation(room_of(self.group.pel.turns), self.now_ms):
            if looked_at >= PASSED_AT_ONCE_MAX or finder.is_spent or room.is_spent:
                is_over = False
                break
            looked_at += 1
            if entry_id is None:
                resting.append(key)
                continue
            if entry_id in self.group.gone:
                continue
            try:
                entry = finder.find(entry_id)
            except Missing:
                if not self.taken and not self._passed:
                    raise
                is_over = False
                break  # the next decision asks for it
            if not self._take_of(entry, entry_id, key, room):
                is_over = False
                break
        for key in resting:
            ahead.rest(key)
        self.looked_at = count = len(self.taken) + len(self._passed)
        self.is_blocked = is_over and len(ahead) > count + len(self.group.gone)
        new = self.result(self.group.last_id, self.group.entries_read)
        return new._replace(keys=self.keys, passed=self._passed, ahead_count=count)

    def _take_of(self, entry: Entry | None, entry_id: EntryId, key: Key, room: ReadRoom) -> bool:
        """Deliver an entry, or pass it by; false: it has no room."""
        if len(self.taken) == self.limit:
            return False
        count = len(self.taken)
        if entry is None:  # it is damaged
            self._passed.append((entry_id, key))
            self.expired_count += 1
            return True
        if self._rule_free:
            if not self.left.take(entry.fields, is_first=not count):
                return False
            self.taken.append(entry)
            self.keys.append(key)
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
        for entry_id in islice(former, AHEAD_AT_ONCE_MAX):
            entry = finder.find(entry_id)
            place = (None, 0) if entry is None else ahead.place_of(entry.fields)
            rows.append((entry_id, *place))
            if finder.is_spent:
                break
        if rows:
            return EntriesIndexed(*names, rows, last_id, entries_read)
    limit = min(group.policy.ahead_max - len(ahead), AHEAD_AT_ONCE_MAX)
    if limit <= 0 or stream.log.last_id <= last_id:
        return None
    entries = stream.log.range(last_id.next(), MAX_ID, limit, ReadRoom(PASSED_BYTES_MAX))
    read = stream.entries_read_after(last_id, entries_read, entries)
    rows = [(entry.id, *ahead.place_of(entry.fields)) for entry in entries]
    return EntriesIndexed(*names, rows, entries[-1].id, read)
