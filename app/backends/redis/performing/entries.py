"""Entries: append, read, delete; the last ones, with which a stream is closed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate, pairwise, repeat
from typing import Any, NamedTuple

from msgspec.structs import replace

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.faults import Fault, read_id
from headgate.app.backends.redis.library import Effect
from headgate.app.backends.redis.node import Word
from headgate.app.backends.redis.performing import (
    TABLES,
    Performers,
    by_function,
    not_supported,
    portions,
)
from headgate.app.backends.redis.performing.streams import bounded, describe, govern
from headgate.engine.clock import SystemClock
from headgate.engine.entry import (
    MIN_ID,
    Draft,
    Entry,
    EntryId,
    EntryTimes,
    IdRequest,
    PartialId,
    check_fields,
)
from headgate.engine.errors import Invalid, NotSupported, ReplyTooLarge, StreamNotFound
from headgate.engine.filters import Matcher, matcher_of
from headgate.engine.limits import CHUNK_ENTRIES_MAX, LOOKED_BYTES_MAX, TIMED_AT_ONCE_MAX
from headgate.engine.packing import EncodedDrafts, encode_entries
from headgate.engine.replies import (
    Added,
    ClosedStream,
    Deletion,
    MatchingPage,
    PackedEntries,
    PackedPage,
    StreamRead,
    gap_after,
)
from headgate.engine.requests.entries import (
    Add,
    Budget,
    CloseRange,
    Delete,
    FindTimes,
    From,
    OpenRanges,
    Range,
    RangeMatching,
    RangePacked,
    Read,
    ReadOn,
    StreamCursor,
    check_trim,
)
from headgate.engine.requests.streams import CloseStream
from headgate.engine.room import ReadRoom, ReplyRoom

FIELDS_MAX = 3_500
"""Fields of one entry. A function of the server can append no more at once."""

_DELETED_AT_ONCE, _TIMES_AT_ONCE = 1_000, 1_000

_ENTRIES_AT_ONCE, _BYTES_AT_ONCE, _PARTS_AT_ONCE = 2_000, 2**20, 20_000
"""Bounds of one call, so that the server is soon free for others."""

_LOOKED_AT_ONCE = 1_000
"""Entries that are read to look for matches."""

_STREAMS_AT_ONCE = 16
"""Streams that a read with a budget reads at once. It may not need the last of them."""


async def add(client: Client, request: Add) -> Added:
    stream, drafts = request.stream, request.drafts
    if request.trim is not None:
        check_trim(request.trim, at=("trim",))
    check_drafts(drafts)
    timings = timings_of(drafts)
    if len(drafts) == 1 and request.is_plain and not timings:
        words = _id_word(drafts[0].id), *drafts[0].fields
        may_create = request.create_stream
        added = await client.call(Effect.WRITE, "append", stream, *words, create_stream=may_create)
        return Added([read_id(added)], is_repeat=False)
    to = None if request.trim is None else bounded(request.trim)
    return _added(*await _append(client, request, Effect.WRITE, timings, trim=to))


async def _append(
    client: Client,
    request: Add | CloseStream,
    effect: Effect,
    timings: Sequence[_Timing],
    **more: object,
) -> Any:
    words = drafts_words(request.drafts)
    more |= {"producers_max": client.options.keyspace.producers_max, **timed(client, timings)}
    async with govern(client, request.stream, is_needed=bool(timings)):
        return await client.perform(effect, request, *words, drafts=None, **more)


def timed(client: Client, timings: Sequence[_Timing]) -> dict[str, object]:
    return {"timings": timings, "timed_max": client.options.keyspace.timed_max}


def _added(is_repeat: int, first: Any, *count: int) -> Added:
    if not count:
        return Added(list(map(read_id, first)), is_repeat=False)
    return Added(_run(first, *count), bool(is_repeat))


async def close_stream(client: Client, request: CloseStream) -> ClosedStream:
    check_drafts(request.drafts)
    effect = Effect.WRITE if request.drafts or request.is_new else Effect.FREE
    timings = timings_of(request.drafts)
    added, epoch, closed_at_ms = await _append(client, request, effect, timings)
    return ClosedStream(*_added(*added), int(epoch), int(closed_at_ms))


def _run(first: bytes, count: int) -> list[EntryId]:
    if not count:
        return []
    following = accumulate(repeat(read_id(first), count), lambda before, _: before.next())
    return list(following)


def check_drafts(drafts: Sequence[Draft]) -> None:
    """Raise Invalid for entries that cannot be stored: no fields, too many, or too large."""
    for index, (_, fields, _) in enumerate(drafts):
        check_fields(fields, index)
        if len(fields) > 2 * FIELDS_MAX:
            text = f"an entry may have at most {FIELDS_MAX} fields with this backend"
            raise Invalid(text, location=("drafts", index, "fields"))


class _Timing(NamedTuple):
    place: int  # of the draft among all, from 1 on
    stream: int  # the place of its stream, from 1 on
    delay_ms: int | None
    deliver_at_ms: int | None
    ttl: str | None  # ms
    deadline: str | None  # unix ms


def timings_of(drafts: Sequence[Draft], stream: int = 1) -> list[_Timing]:
    """Return the timings of the drafts that have one; raises Invalid for impossible times."""
    if isinstance(drafts, EncodedDrafts):  # they have fields alone
        return []
    now_ms, timings = SystemClock().wall_ms(), list[_Timing]()
    for index, (_, _, timing) in enumerate(drafts):
        if timing is None or timing.at(now_ms, index) is None:
            continue
        if len(timings) == TIMED_AT_ONCE_MAX:
            text = f"at most {TIMED_AT_ONCE_MAX} entries of an append may have times"
            raise Invalid(text, location=("drafts", index))
        ttl, deadline = timing.ttl_ms, timing.expires_at_ms
        timings.append(
            _Timing(
                *(index + 1, stream, timing.delay_ms, timing.deliver_at_ms),
                None if ttl is None else str(ttl),
                None if deadline is None else str(deadline),
            )
        )
    return timings


def drafts_words(drafts: Sequence[Draft]) -> list[Word]:
    words: list[Word] = [_kind_of_ids([draft.id for draft in drafts]), len(drafts)]
    for wanted, fields, _ in drafts:
        words += (_id_word(wanted), len(fields), *fields)
    return words


def _kind_of_ids(wanted: Sequence[IdRequest]) -> bytes:
    """Return `*` if the server chooses all ids, `<` if all are given and ascend, else nothing."""
    if not any(wanted):  # an id is never false
        return b"*"
    ids = [entry_id for entry_id in wanted if isinstance(entry_id, EntryId)]
    is_whole = len(ids) == len(wanted)
    return b"<" if is_whole and all(low < high for low, high in pairwise(ids)) else b""


def _id_word(wanted: IdRequest) -> bytes:
    if wanted is None:
        return b"*"
    if isinstance(wanted, PartialId):
        return b"%d-*" % wanted.ms
    return b"%d-%d" % wanted


async def find_times(client: Client, request: FindTimes) -> dict[EntryId, EntryTimes]:
    times: dict[EntryId, EntryTimes] = {}
    for ids in portions(request.ids, _TIMES_AT_ONCE):
        for place, due_ms, deadline_ms in await client.perform(Effect.READ, request, ids=ids):
            times[ids[place]] = EntryTimes(_whole(due_ms), _whole(deadline_ms))
    return times


def _whole(number: bytes | None) -> int | None:
    return None if number is None else int(float(number))


async def delete(client: Client, request: Delete) -> list[Deletion]:
    """Delete entries (XDEL, XDELEX), a long list in parts."""
    ids = request.ids
    outcomes: list[Deletion] = []
    while True:
        portion = ids[len(outcomes) : len(outcomes) + _DELETED_AT_ONCE]
        try:
            reply = await client.perform(Effect.FREE, request, ids=portion)
        except Fault as fault:
            if outcomes and fault.name == "StreamNotFound":  # it was deleted meanwhile
                return outcomes + [Deletion.NOT_FOUND] * (len(ids) - len(outcomes))
            raise
        outcomes += [Deletion(outcome.decode()) for outcome in reply]
        if len(outcomes) >= len(ids):
            return outcomes


async def range_(client: Client, request: Range) -> list[Entry]:
    """Return entries of a range (XRANGE, XREVRANGE); a long range is read in parts."""
    low, high = (b"%d-%d" % bound for bound in (request.start, request.end))
    limit, entries_max = request.limit, request.entries_max
    if request.whole and entries_max is not None:
        limit = entries_max + 1 if limit is None else min(limit, entries_max + 1)
    run = _Run(client, request.stream, limit, ReadRoom(request.size_bytes_max))
    await run.read(low, high, is_reverse=request.reverse)
    entries = run.entries
    if not request.whole:
        return entries
    is_long = entries_max is not None and len(entries) > entries_max
    if is_long or await run.is_cut(low, high, is_reverse=request.reverse):
        raise ReplyTooLarge("entries", await _bound(client, request))
    return entries


async def range_matching(client: Client, request: RangeMatching) -> MatchingPage:
    matcher, is_down = matcher_of(request.filters), request.reverse
    low, high, size_bytes_max = request.start, request.end, _looked_bytes(request.size_bytes_max)
    wanted = Range(request.stream, low, high, _LOOKED_AT_ONCE, size_bytes_max, is_down)
    entries = await range_(client, wanted)
    matching, last_id = _matching(entries, matcher, request.limit)
    return MatchingPage(matching, last_id or (low if is_down else high))


def unfiltered(request: Read) -> Read:
    """Return the read without its filter: equal for many filters, so servers are asked once."""
    size_bytes_max = _looked_bytes(request.size_bytes_max)
    return replace(
        request, filters=None, limit=_LOOKED_AT_ONCE, size_bytes_max=size_bytes_max, wait_ms=0
    )


def filtered(request: Read, reads: Sequence[StreamRead]) -> list[StreamRead]:
    assert request.filters is not None
    matcher = matcher_of(request.filters)
    results = []
    for read in reads:
        matching, last_id = _matching(read.entries, matcher, request.limit)
        through = max(read.next_after, read.last_id) if last_id is None else last_id
        results.append(read._replace(entries=matching, next_after=through))
    return results


def _looked_bytes(size_bytes_max: int | None) -> int:
    return LOOKED_BYTES_MAX if size_bytes_max is None else min(size_bytes_max, LOOKED_BYTES_MAX)


def _matching(
    entries: Sequence[Entry], matcher: Matcher, limit: int | None
) -> tuple[list[Entry], EntryId | None]:
    """Return the entries that match, and the id of the last one that was examined."""
    matching: list[Entry] = []
    last_id: EntryId | None = None
    for entry in entries[: matcher.portion]:
        if matcher.matches(entry.fields):
            if len(matching) == limit:
                break
            matching.append(entry)
        last_id = entry.id
    return matching, last_id


async def range_packed(client: Client, request: RangePacked) -> PackedPage:
    """Return entries of a range in the packed form that an engine stores."""
    limit = min(request.limit, _ENTRIES_AT_ONCE)
    bounds = request.start, request.end, limit, request.size_bytes_max
    entries = await range_(client, Range(request.stream, *bounds))
    info = await describe(client, request.stream)
    runs = [
        PackedEntries(len(run), encode_entries(run), None)
        for run in portions(entries, CHUNK_ENTRIES_MAX)
    ]
    last_id = entries[-1].id if entries else request.end
    return PackedPage(runs, last_id, info.epoch, info.trimmed_through)


async def _bound(client: Client, request: Range) -> int:
    """Return how many entries a reply may have or, without a limit, could have."""
    if request.entries_max is not None:
        return request.entries_max
    if request.limit is not None:
        return request.limit
    key = client.names.of(request.stream).key
    return int(await client.execute(request.stream, b"XLEN", key, changes=False))


class _Run:
    def __init__(self, client: Client, stream: bytes, limit: int | None, room: ReadRoom) -> None:
        self.entries: list[Entry] = []
        self._client = client
        self._stream = stream
        self._limit = limit
        self._room = room
        self._is_whole = False  # the range has no more

    @property
    def bounds(self) -> dict[str, int]:
        left = _ENTRIES_AT_ONCE if self._limit is None else self._limit - len(self.entries)
        size_bytes, parts, room = _BYTES_AT_ONCE, _PARTS_AT_ONCE, self._room
        if room.bytes_left is not None:
            size_bytes = max(min(room.bytes_left, size_bytes), 0)
            parts = max(min(room.parts_left, parts), 0)
        return {
            "count_max": min(left, _ENTRIES_AT_ONCE),
            "bytes_max": size_bytes,
            "parts_max": parts,
        }

    def take(self, rows: Sequence[Any], *, has_more: bool) -> bool:
        """Add the rows of a call; return whether to read on."""
        entries = self.entries
        for entry_id, fields in rows:
            if not self._room.take(fields, is_first=not entries):
                return False
            entries.append(Entry(read_id(entry_id), tuple(fields)))
        self._is_whole = not has_more
        is_full = self._limit is not None and len(entries) >= self._limit
        return has_more and not is_full and not self._room.is_spent

    async def read(self, low: bytes, high: bytes, *, is_reverse: bool = False) -> None:
        first, last = (high, low) if is_reverse else (low, high)
        while True:
            bounds = {"first": first, "last": last, **self.bounds}
            rows, has_more = await self._client.call(
                Effect.READ, "range", self._stream, reverse=is_reverse, **bounds
            )
            if not self.take(rows, has_more=bool(has_more)):
                return
            first = b"(" + rows[-1][0]

    async def is_cut(self, low: bytes, high: bytes, *, is_reverse: bool) -> bool:
        is_full = self._limit is not None and len(self.entries) >= self._limit
        if self._is_whole or is_full or not self.entries:
            return False
        last = b"(%d-%d" % self.entries[-1].id
        following = _Run(self._client, self._stream, 1, ReadRoom(None))
        await following.read(
            low if is_reverse else last, last if is_reverse else high, is_reverse=is_reverse
        )
        return bool(following.entries)


async def freeze(client: Client, cursors: Sequence[StreamCursor]) -> tuple[StreamCursor, ...]:
    """Replace cursors at `From.NOW` by the last id, so that a waiting read misses nothing."""
    return tuple(await asyncio.gather(*(_frozen(client, cursor) for cursor in cursors)))


async def _frozen(client: Client, cursor: StreamCursor) -> StreamCursor:
    if cursor.after is not From.NOW:
        return cursor
    bounds = {"count_max": 0, "bytes_max": 0, "parts_max": 0}
    reply = await client.call(Effect.READ, "read", cursor.stream, after="$", **bounds)
    return StreamCursor(cursor.stream, MIN_ID if reply is None else read_id(reply[0]))


async def read_once(client: Client, request: Read) -> list[StreamRead]:
    if request.keys is not None:
        raise NotSupported(TABLES)
    if request.filters is not None:
        return filtered(request, await read_once(client, unfiltered(request)))
    if request.budget is not None:
        return await _read_in_order(client, request, request.budget)
    left = ReadRoom(request.size_bytes_max)
    share = left.share(len(request.cursors))
    rooms = [share.share(1) for _ in request.cursors]
    results = await _read_all(client, request.cursors, request.limit, rooms)
    reads: list[StreamRead] = []
    for cursor, read, room in zip(request.cursors, results, rooms, strict=True):
        checked = _checked(request, cursor, read)
        if left.is_spent and any(before.entries for before in reads):
            checked = _shortened(checked, 0)
        else:
            left.take_what_went(share, room)
        reads.append(checked)
    return reads


async def _read_in_order(client: Client, request: Read, budget: Budget) -> list[StreamRead]:
    """Read stream by stream until the budget is used up; the reply omits the others."""
    reads: list[StreamRead] = []
    left = ReplyRoom(budget)
    for cursors in portions(request.cursors, _STREAMS_AT_ONCE):
        if not left.count:
            break
        rooms = [ReadRoom(budget.size_bytes_max) for _ in cursors]
        results = await _read_all(client, cursors, left.limit(request.limit), rooms)
        for cursor, result in zip(cursors, results, strict=True):
            if not left.count:
                break
            read = _shortened(_checked(request, cursor, result), left.limit(request.limit))
            reads.append(_shortened(read, left.take(read.entries)))
    return reads


def _checked(request: Read, cursor: StreamCursor, read: StreamRead | None) -> StreamRead:
    """Return a read; a missing stream has an empty one if it may be missing."""
    if read is not None:
        return read
    if not request.missing_ok:
        raise StreamNotFound(cursor.stream)
    after = MIN_ID if isinstance(cursor.after, From) else cursor.after
    return StreamRead(cursor.stream, [], after, MIN_ID, None, after)


def _shortened(read: StreamRead, count: int) -> StreamRead:
    if count >= len(read.entries):
        return read
    return _stream_read(read, read.entries[:count])._replace(closed_at_ms=None)


def _stream_read(read: StreamRead, entries: list[Entry]) -> StreamRead:
    behind = read.after if read.gap is None else read.gap.through
    return read._replace(entries=entries, next_after=entries[-1].id if entries else behind)


async def _read_all(
    client: Client, cursors: Sequence[StreamCursor], limit: int | None, rooms: Sequence[ReadRoom]
) -> Sequence[StreamRead | None]:
    if len(cursors) == 1:  # as most reads are
        return [await _read_stream(client, cursors[0], limit, rooms[0])]
    return await asyncio.gather(
        *(
            _read_stream(client, cursor, limit, room)
            for cursor, room in zip(cursors, rooms, strict=True)
        )
    )


async def _read_stream(
    client: Client, cursor: StreamCursor, limit: int | None, room: ReadRoom
) -> StreamRead | None:
    run = _Run(client, cursor.stream, limit, room)
    after = cursor.after.value if isinstance(cursor.after, From) else cursor.after
    reply = await client.call(Effect.READ, "read", cursor.stream, after=after, **run.bounds)
    if reply is None:
        return None
    after_text, last_id, trimmed, rows, has_more, closed_at_ms, has_times = reply
    if run.take(rows, has_more=bool(has_more)):
        await run.read(b"(" + rows[-1][0], b"+")
    after_id = read_id(after_text)
    gap = gap_after(after_id, read_id(trimmed))
    is_end = closed_at_ms is not None and len(run.entries) >= len(rows)
    read = StreamRead(
        *(cursor.stream, [], after_id, read_id(last_id), gap, after_id),
        closed_at_ms=int(closed_at_ms) if is_end else None,
    )
    if has_times:
        wanted = FindTimes(cursor.stream, [entry.id for entry in run.entries])
        with suppress(StreamNotFound, Fault):  # it was deleted meanwhile
            read = read._replace(times=await find_times(client, wanted))
    return _stream_read(read, run.entries)


_NOT_KEPT = not_supported("ranges that are kept open")

PERFORMERS: Performers = {
    Add: by_function(add),
    CloseStream: by_function(close_stream),
    Delete: by_function(delete),
    FindTimes: by_function(find_times),
    Range: by_function(range_),
    RangeMatching: by_function(range_matching),
    RangePacked: by_function(range_packed),
    Read: by_function(read_once),
    OpenRanges: _NOT_KEPT,
    ReadOn: _NOT_KEPT,
    CloseRange: _NOT_KEPT,
}
