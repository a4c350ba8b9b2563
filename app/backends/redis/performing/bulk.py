"""Backlogs of streams for bulk readers, and cuts of a range.

The server cannot count the entries of a range. A function walks over them, some at a time, which
takes about a second for a million. So the gateway remembers *places*: how many entries had been
added to a stream up to an id. While nothing above this id is deleted, the count above it follows
from the number of all entries ever added.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple
from weakref import WeakKeyDictionary

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.faults import Fault, read_id
from headgate.app.backends.redis.library import Effect
from headgate.app.backends.redis.performing import Performers, by_function
from headgate.app.backends.redis.performing.entries import range_
from headgate.app.backends.redis.performing.streams import describe
from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.errors import Invalid
from headgate.engine.replies import Histogram, Portion, Split, StreamInfo, gap_after
from headgate.engine.requests.bulk import BulkCursor, PlanRead, SplitRange
from headgate.engine.requests.entries import CountByTime, From, Range, TimeBuckets
from headgate.engine.room import shares

_PLACES_MAX = 10_000
"""Each takes a few hundred bytes."""

_COUNTED_AT_ONCE = 2_000
"""Entries that one call counts, which takes about 2 ms."""


_COUNTED_MAX = 200_000
"""Entries that one histogram counts, which takes about 200 ms."""

_ONE_BY_ONE = "which this backend counts one by one: give a later start or an earlier end"


class _Places:
    """How many entries streams had been given up to some ids, in order of last use."""

    def __init__(self) -> None:
        self._places: OrderedDict[tuple[bytes, int, EntryId], int] = OrderedDict()

    def get(self, info: StreamInfo, entry_id: EntryId) -> int | None:
        """Return the place of an id, or None if it is unknown or something above is deleted."""
        key = info.name, info.epoch, entry_id
        if info.max_deleted_id > entry_id or key not in self._places:
            return None
        self._places.move_to_end(key)
        return self._places[key]

    def put(self, info: StreamInfo, entry_id: EntryId, place: int) -> None:
        if info.max_deleted_id <= entry_id:
            self._places[info.name, info.epoch, entry_id] = place
            while len(self._places) > _PLACES_MAX:
                self._places.popitem(last=False)


_places: WeakKeyDictionary[Client, _Places] = WeakKeyDictionary()


class _Backlog(NamedTuple):
    info: StreamInfo | None  # None: there is no stream
    after: EntryId
    length: int


async def freeze_plan(client: Client, cursors: Sequence[BulkCursor]) -> tuple[BulkCursor, ...]:
    """Replace each cursor at `From.NOW` by the stream's current last id and epoch."""
    return tuple(await asyncio.gather(*(_frozen(client, cursor) for cursor in cursors)))


async def _frozen(client: Client, cursor: BulkCursor) -> BulkCursor:
    if cursor.after is not From.NOW:
        return cursor
    info = await _look(client, cursor.stream)
    if info is None:
        return BulkCursor(cursor.stream, MIN_ID)
    return BulkCursor(cursor.stream, info.last_id, info.epoch)


async def plan_once(client: Client, request: PlanRead) -> list[Portion]:
    cursors = await freeze_plan(client, request.cursors)
    backlogs = await asyncio.gather(*(_backlog(client, cursor) for cursor in cursors))
    counts = [backlog.length for backlog in backlogs]
    given = counts if request.entries_max is None else shares(counts, request.entries_max)
    return await asyncio.gather(
        *(
            _portion(client, cursor.stream, backlog, share)
            for cursor, backlog, share in zip(cursors, backlogs, given, strict=True)
        )
    )


async def _look(client: Client, stream: bytes) -> StreamInfo | None:
    try:
        return await describe(client, stream)
    except Fault:
        return None


async def _backlog(client: Client, cursor: BulkCursor) -> _Backlog:
    assert isinstance(cursor.after, EntryId)
    info = await _look(client, cursor.stream)
    if info is None:
        return _Backlog(None, cursor.after, 0)
    after = cursor.after if cursor.epoch in (None, info.epoch) else MIN_ID
    try:
        return _Backlog(info, after, await _count_above(client, info, after))
    except Fault:  # it was deleted meanwhile
        return _Backlog(None, cursor.after, 0)


async def _count_above(client: Client, info: StreamInfo, after: EntryId) -> int:
    if not info.length or after >= info.last_id:
        return 0
    if after < info.first_id:
        return info.length
    places = _places.setdefault(client, _Places())
    place = places.get(info, after)
    if place is not None:
        return info.entries_added - place
    if after.ms - info.first_id.ms < info.last_id.ms - after.ms:  # this is likely the shorter way
        count = info.length - (await _walk(client, info.name, MIN_ID, after))[-1].place
    else:
        count = (await _walk(client, info.name, after, info.last_id))[-1].place
    places.put(info, after, info.entries_added - count)
    return count


async def _portion(client: Client, stream: bytes, backlog: _Backlog, share: int) -> Portion:
    info, after, count = backlog
    if info is None:
        return Portion(stream, None, after, after, 0, 0, MIN_ID, None, None)
    end = after
    try:
        if 0 < share == count:  # all there is
            end = await _last(client, info) or after
        elif share:
            share, end = (await _walk(client, stream, after, info.last_id, share))[-1]
    except Fault:  # it was deleted meanwhile
        return Portion(stream, None, after, after, 0, 0, MIN_ID, None, None)
    if share:
        place = info.entries_added - (count - share)
        _places.setdefault(client, _Places()).put(info, end, place)
    return Portion(
        stream=stream,
        epoch=info.epoch,
        after=after,
        end=end,
        entries=share,
        backlog=count,
        last_id=info.last_id,
        first_id=info.first_id if info.length else None,
        gap=gap_after(after, info.trimmed_through),
    )


async def _last(client: Client, info: StreamInfo) -> EntryId | None:
    last = Range(info.name, end=info.last_id, limit=1, reverse=True)
    entries = await range_(client, last)
    return entries[0].id if entries else None


class _Mark(NamedTuple):
    """A point in a walk through a range: the number of entries up to this id."""

    place: int
    id: EntryId


async def _walk(
    client: Client, stream: bytes, after: EntryId, through: EntryId, limit: int | None = None
) -> list[_Mark]:
    """Count the entries above `after`, up to and including `through`, and at most `limit`.

    Return marks on the way: the first at the beginning, the last at the end.
    """
    marks, has_more = [_Mark(0, after)], 1
    while has_more and (limit is None or marks[-1].place < limit):
        count, last_id = marks[-1]
        left = _COUNTED_AT_ONCE if limit is None else min(limit - count, _COUNTED_AT_ONCE)
        counted, reached, has_more = await client.call(
            Effect.READ, "count", stream, after=last_id, through=through, limit=left
        )
        if counted:
            marks.append(_Mark(count + counted, read_id(reached)))
    return marks


async def split_range(client: Client, request: SplitRange) -> list[Split]:
    """Cut a range into parts of equal count.

    A walk through the range leaves marks; each end is then looked up from the mark before it.
    """
    stream = request.stream
    marks = await _walk(client, stream, request.after, request.through)
    total = marks[-1].place
    count_min, larger_count = divmod(total, request.parts)
    sizes = [count_min + (at < larger_count) for at in range(min(request.parts, total))]
    ends: list[EntryId] = []
    wanted = list(accumulate(sizes))
    for mark, following in pairwise(marks):
        low, high = (bisect_right(wanted, each.place) for each in (mark, following))
        if low < high:
            offsets = [place - mark.place for place in wanted[low:high]]
            bounds = {"after": mark.id, "through": following.id}
            ids = await client.call(Effect.READ, "places", stream, **bounds, places=offsets)
            ends += map(read_id, ids)
    cuts = pairwise([request.after, *ends])
    return [Split(*cut, size) for cut, size in zip(cuts, sizes, strict=False)]


async def count_by_time(client: Client, request: CountByTime) -> Histogram:
    """Count the entries of a range by time by walking it; Invalid if there are too many."""
    stream = request.stream
    info = await describe(client, stream)
    buckets = TimeBuckets.of(request, info.first_id if info.length else None, info.last_id)
    left = _COUNTED_MAX
    counts: list[int] = []
    for after, through in buckets.ranges():
        counts.append((await _walk(client, stream, after, through, left + 1))[-1].place)
        left -= counts[-1]
        if left < 0:
            raise Invalid(f"the range has more than {_COUNTED_MAX} entries, {_ONE_BY_ONE}")
    return buckets.counted(counts)


PERFORMERS: Performers = {
    PlanRead: by_function(plan_once),
    SplitRange: by_function(split_range),
    CountByTime: by_function(count_by_time),
}
