"""Matching: the entries of a stream for which a filter holds, a bounded part of it at a time."""

from __future__ import annotations

from itertools import count

from headgate.engine.entry import Entry, EntryId
from headgate.engine.filters import Matcher
from headgate.engine.limits import LOOKED_BYTES_MAX
from headgate.engine.replies import MatchingPage
from headgate.engine.room import ReadRoom
from headgate.engine.state.entries.log import Log
from headgate.engine.state.entries.logs import Logs
from headgate.engine.state.extent import Missing

_PAGE_ENTRIES = 64
"""Entries that are looked at first; the next page is twice as large, as there are few matches."""


def matching_page(
    log: Log | Logs,
    matcher: Matcher,
    bounds: tuple[EntryId, EntryId],
    limit: int | None,
    room: ReadRoom,
    *,
    reverse: bool = False,
    share: int = 1,
) -> MatchingPage:
    """Look at the first entries of a range, and return those for which a filter holds.

    What they take is taken from `room`; the first one comes whatever its size. `share`: look at one
    in so many of the entries that may be looked at.
    """
    low, high = bounds
    taken: list[Entry] = []
    left, looked = max(matcher.portion // share, 1), ReadRoom(LOOKED_BYTES_MAX // share)
    through = high if reverse else low
    for number in count():
        wanted = min(_PAGE_ENTRIES << number, left)
        try:
            if reverse:
                page = log.reverse_range(high, low, wanted, looked)
            else:
                page = log.range(low, high, wanted, looked)
        except Missing:
            if not number:
                raise
            break  # the next look asks for it
        for entry in page:
            if matcher.matches(entry.fields):
                if len(taken) == limit or not room.take(entry.fields, is_first=not taken):
                    return MatchingPage(taken, through)
                taken.append(entry)
            through = entry.id
        if not page or through == (low if reverse else high):
            return MatchingPage(taken, low if reverse else high)
        left -= len(page)
        if not left or looked.is_spent or len(taken) == limit:
            break
        low, high = (low, through.previous()) if reverse else (through.next(), high)
    return MatchingPage(taken, through)
