"""New entries: those behind a group's position that a read delivers."""

from __future__ import annotations

from typing import NamedTuple

from headgate.engine.decisions.group_reads.group_in_read import GroupInRead
from headgate.engine.entry import MAX_ID, Entry, EntryId
from headgate.engine.filters.matching import Matcher, matcher_of
from headgate.engine.limits import PASSED_AT_ONCE_MAX, PASSED_BYTES_MAX
from headgate.engine.room import ReadRoom
from headgate.engine.state.extents.missing import Missing
from headgate.engine.state.stream import Stream

_PAGE_ENTRIES = 256


class NewEntries(NamedTuple):
    """The new entries of a read, and where they leave the group."""

    entries: list[Entry]
    last_id: EntryId
    entries_read: int | None
    passed_count: int = 0

    @classmethod
    def none(cls, group: GroupInRead) -> NewEntries:
        """Return the new entries of a read without room for any."""
        return cls([], group.last_id, group.entries_read)


def new_entries(
    stream: Stream, group: GroupInRead, limit: int | None, left: ReadRoom
) -> NewEntries:
    """Return the entries that are new to a group and may be delivered.

    Args:
        stream: of the group.
        group: the group that reads.
        limit: entries at most.
        left: what they take is taken from it; the first entry comes whatever its size.
    """
    if group.rules.filters is not None:
        return _matching(stream, group, matcher_of(group.rules.filters), limit, left)
    entries = stream.log.range(group.last_id.next(), MAX_ID, limit, left)
    last_id = entries[-1].id if entries else group.last_id
    read = stream.entries_read_after(group.last_id, group.entries_read, entries)
    return NewEntries(entries, last_id, read)


def _matching(
    stream: Stream, group: GroupInRead, matcher: Matcher, limit: int | None, left: ReadRoom
) -> NewEntries:
    """Take the entries that match, and pass by the others, up to so many that are looked at."""
    taken: list[Entry] = []
    last_id, entries_read = group.last_id, group.entries_read
    looked_at, room = 0, ReadRoom(PASSED_BYTES_MAX)
    has_room = True
    while has_room and looked_at < PASSED_AT_ONCE_MAX and not room.is_spent:
        try:
            page = stream.log.range(last_id.next(), MAX_ID, _PAGE_ENTRIES, room)
        except Missing:
            if not looked_at:
                raise
            break  # the next decision asks for it
        if not page:
            break
        for at, entry in enumerate(page):
            if matcher.matches(entry.fields):
                has_room = len(taken) != limit and left.take(entry.fields, is_first=not taken)
                if not has_room:
                    page = page[:at]
                    break
                taken.append(entry)
        if page:
            entries_read = stream.entries_read_after(last_id, entries_read, page)
            last_id = page[-1].id
            looked_at += len(page)
    return NewEntries(taken, last_id, entries_read, looked_at - len(taken))
