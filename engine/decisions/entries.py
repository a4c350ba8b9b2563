"""Decisions about entries: append, read, delete."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from headgate.engine.commands import (
    ChunksAdded,
    Command,
    DuplicateCounted,
    EntriesAdded,
    EntriesDeleted,
    EntriesTimed,
    KeyRemembered,
    PackedChunk,
    StreamCreated,
)
from headgate.engine.config import StreamConfig
from headgate.engine.decisions import Decision, Decisions, in_parts
from headgate.engine.decisions.attributes import attributes_changed, check_attributes
from headgate.engine.decisions.keys import keys_max, made_before
from headgate.engine.decisions.matching import matching_page
from headgate.engine.decisions.trims import deleted_at_once, purge, trims_after
from headgate.engine.entry import (
    MAX_ID,
    MIN_ID,
    Draft,
    Entry,
    EntryId,
    EntryTimes,
    Fields,
    IdRequest,
    PartialId,
    Timing,
    check_fields,
    make_entries,
    neighbours,
    sizes_of,
)
from headgate.engine.errors import (
    ClosedToAppends,
    IdNotGreater,
    IdsExhausted,
    Invalid,
    LastIdMismatch,
    NotATable,
    ReplyTooLarge,
    StreamExists,
    StreamNotFound,
)
from headgate.engine.filters import Matcher, TextCondition, matcher_of
from headgate.engine.limits import ENTRY_BYTES_MAX, ENTRY_FIELDS_MAX, TIMED_AT_ONCE_MAX, U64_MAX
from headgate.engine.packing import EncodedDrafts
from headgate.engine.replies import Added, Deletion, MatchingPage, PackedPage, StreamRead, Written
from headgate.engine.requests.entries import (
    Add,
    Budget,
    Delete,
    FindTimes,
    From,
    Range,
    RangeMatching,
    RangePacked,
    Read,
    References,
    StreamCursor,
    TrimTo,
    check_trim,
)
from headgate.engine.room import ReadRoom, ReplyRoom
from headgate.engine.state.entries.log import Log
from headgate.engine.state.entries.logs import Logs
from headgate.engine.state.entries.packed import Packed, PackedDrafts
from headgate.engine.state.extent import require_each
from headgate.engine.state.idempotency import Made
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.stream import Stream

T = TypeVar("T")


def add(
    keyspace: Keyspace, request: Add, now_ms: int, *, has_schema: bool = True
) -> Decision[Added]:
    """Decide to append entries, all or none (XADD); a repeat under a key gets the first ids.

    Dead letters are not checked by a schema (`has_schema`): nobody could correct them.
    """
    name, drafts, idempotent, trim = (
        request.stream,
        request.drafts,
        request.idempotent,
        request.trim,
    )
    if trim is not None:
        check_trim(trim, at=("trim",))
    stream = keyspace.find(name)
    if stream is None and not request.create_stream:
        raise StreamNotFound(name)
    made = made_before(keyspace, stream, idempotent, now_ms)
    if made is not None:
        return Decision(Added(made.ids(), is_repeat=True), [DuplicateCounted(name)])
    if stream is not None:
        _check_takes(keyspace, stream, request, has_schema=has_schema)
    check_last_id(stream, request.expected_last_id)
    check_attributes(stream, request.attributes)
    created = None
    if stream is None:
        keyspace.bounds.check_another_stream(len(keyspace.streams))
        created = StreamCreated(name, keyspace.next_epoch(now_ms), StreamConfig())
        stream = keyspace.drafted(name, created.epoch)
    appending = _appending(stream, drafts, now_ms)
    commands: list[Command] = [] if created is None else [created]
    commands += attributes_changed(keyspace, stream, request.attributes)
    if appending is None:
        return Decision(Added([], is_repeat=False), commands)
    commands.append(appending)
    ids = _ids_in(appending, drafts)
    if len(drafts) > 1 or drafts[0].timing is not None:  # most are not, and quick
        commands += timed(keyspace, stream, drafts, ids, now_ms)
    if idempotent is not None:
        made = Made(ids[0], len(ids), idempotent.digest, now_ms)
        producer, key, _ = idempotent
        keyspace.bounds.check_producer(stream, producer)
        commands.append(KeyRemembered(name, producer, key, made, keys_max(keyspace, stream)))
    reply = Added(ids, is_repeat=False)
    return _and_trims(reply, commands, keyspace, stream, appending, trim, now_ms)


def _check_takes(keyspace: Keyspace, stream: Stream, request: Add, *, has_schema: bool) -> None:
    if request.is_new:
        raise StreamExists(stream.name)
    if stream.closed_at_ms is not None:
        raise ClosedToAppends(stream.name)
    if stream.attributes and has_schema:
        keyspace.schemas.check(stream, request.drafts)


def check_last_id(stream: Stream | None, expected: EntryId | None) -> None:
    last_id = stream.last_id if stream is not None else MIN_ID
    if expected is not None and expected != last_id:
        raise LastIdMismatch(expected=expected, last_id=last_id)


def append(
    keyspace: Keyspace, stream: Stream, drafts: Sequence[Draft] | PackedDrafts, now_ms: int
) -> Decision[Written | None]:
    """Decide to append entries to a stream, all or none; reply None if there are no drafts.

    The same decision may create the stream. The trim after packed drafts is a part of its own.
    Raises ClosedToAppends, IdNotGreater, IdsExhausted or Invalid.
    """
    if stream.closed_at_ms is not None:
        raise ClosedToAppends(stream.name)
    if stream.attributes:
        keyspace.schemas.check(stream, drafts)
    appending = _appending(stream, drafts, now_ms)
    if appending is None:
        return Decision(None, [])
    commands: list[Command] = [appending]
    if timings_of(drafts):
        commands += timed(keyspace, stream, drafts, _ids_in(appending, drafts), now_ms)
    return _and_trims(_written(appending), commands, keyspace, stream, appending, None, now_ms)


def timings_of(drafts: Sequence[Draft] | PackedDrafts) -> Sequence[Timing | None]:
    if isinstance(drafts, PackedDrafts):
        drafts = drafts.drafts
    if isinstance(drafts, EncodedDrafts):  # they have fields alone
        return ()
    timings = [draft.timing for draft in drafts]
    return timings if any(timings) else ()


def timed(
    keyspace: Keyspace,
    stream: Stream,
    drafts: Sequence[Draft] | PackedDrafts,
    ids: Sequence[EntryId],
    now_ms: int,
) -> list[Command]:
    """Return the command that gives entries their times, if any; Invalid or LimitReached."""
    entries: list[tuple[EntryId, int | None, int | None]] = []
    for index, (entry_id, timing) in enumerate(zip(ids, timings_of(drafts), strict=False)):
        times = None if timing is None else timing.at(now_ms, index)
        if times is not None:
            entries.append((entry_id, *times))
        if len(entries) > TIMED_AT_ONCE_MAX:
            text = f"at most {TIMED_AT_ONCE_MAX} entries of an append have times"
            raise Invalid(text, location=("drafts", index))
    if not entries:
        return []
    keyspace.bounds.check_timed(stream, len(entries))
    return [EntriesTimed(stream.name, entries)]


def _appending(
    stream: Stream, drafts: Sequence[Draft] | PackedDrafts, now_ms: int
) -> EntriesAdded | ChunksAdded | None:
    last_id = stream.last_id
    if last_id == MIN_ID and stream.former_id.ms == now_ms and _begins_generated(drafts):
        last_id = stream.former_id  # of this millisecond: its ids do not come again
    if isinstance(drafts, PackedDrafts):
        chunks = _chunks(drafts.chunks, last_id, now_ms)
        if chunks is not None:
            return ChunksAdded(stream.name, chunks)
        drafts = drafts.drafts
    entries = _entries(drafts, last_id, now_ms)
    return EntriesAdded(stream.name, entries) if entries else None


def _begins_generated(drafts: Sequence[Draft] | PackedDrafts) -> bool:
    """Tell whether the first entry gets an id of the clock."""
    if isinstance(drafts, PackedDrafts):
        return drafts.chunks[0].bounds is None
    return bool(drafts) and drafts[0].id is None


def _and_trims(
    reply: T,
    commands: list[Command],
    keyspace: Keyspace,
    stream: Stream,
    appending: EntriesAdded | ChunksAdded,
    trim: TrimTo | None,
    now_ms: int,
) -> Decision[T]:
    if trim is None and not stream.config.retains:
        return Decision(reply, commands)
    if isinstance(appending, ChunksAdded):
        return Decision(reply, commands, partial(_trims_later, reply, stream.name, trim))
    commands += trims_after(keyspace, stream, appending.entries, trim, now_ms)
    return Decision(reply, commands)


def _chunks(packed: Sequence[Packed], last_id: EntryId, now_ms: int) -> list[PackedChunk] | None:
    """Return packed drafts with their ids, or None if a chunk would run out of sequence numbers."""
    chunks: list[PackedChunk] = []
    index = 0
    for count, data, bounds in packed:
        first_id = _id(None if bounds is None else bounds[0], last_id, now_ms, index)
        last_id = EntryId(first_id.ms, first_id.seq + count - 1) if bounds is None else bounds[1]
        if last_id.seq > U64_MAX:
            return None
        chunks.append(PackedChunk(first_id, last_id, count, data, bounds is None))
        index += count
    return chunks


def _ids_in(
    appending: EntriesAdded | ChunksAdded, drafts: Sequence[Draft] | PackedDrafts
) -> list[EntryId]:
    if isinstance(appending, EntriesAdded):
        return [entry.id for entry in appending.entries]
    assert isinstance(drafts, PackedDrafts)
    ids: list[EntryId] = []
    for first_id, _, count, _, is_run in appending.chunks:
        if is_run:
            ids += neighbours(first_id, count)
        else:
            wanted = (draft.id for draft in drafts.drafts[len(ids) : len(ids) + count])
            ids += [entry_id for entry_id in wanted if isinstance(entry_id, EntryId)]
    return ids


def _written(appending: EntriesAdded | ChunksAdded) -> Written:
    if isinstance(appending, EntriesAdded):
        entries = appending.entries
        return Written(appending.stream, len(entries), entries[0].id, entries[-1].id)
    chunks = appending.chunks
    count = sum(chunk.entry_count for chunk in chunks)
    return Written(appending.stream, count, chunks[0].first_id, chunks[-1].last_id)


def _trims_later(
    reply: T, stream: bytes, trim: TrimTo | None, keyspace: Keyspace, now_ms: int
) -> Decision[T]:
    stream_state = keyspace.find(stream)
    commands = [] if stream_state is None else trims_after(keyspace, stream_state, [], trim, now_ms)
    return Decision(reply, commands)


def _entries(drafts: Sequence[Draft], last_id: EntryId, now_ms: int) -> list[Entry]:
    """Give each draft its id. If several drafts are invalid, the error is about the first."""
    if len(drafts) > 1:
        ids, many, _ = zip(*drafts, strict=True)
        if not any(ids) and _are_sound(many):
            return make_entries(_next_ids(len(drafts), last_id, now_ms), many)
    entries: list[Entry] = []
    for index, (wanted, fields, _) in enumerate(drafts):
        check_fields(fields, index)
        last_id = _id(wanted, last_id, now_ms, index)
        entries.append(Entry(last_id, fields))
    return entries


def _are_sound(many: Sequence[Fields]) -> bool:
    """Tell quickly whether all entries are valid; if False, they may still be."""
    counts = set(map(len, many))
    is_paired = min(counts) > 0 and not any(count % 2 for count in counts)
    is_short = max(counts) <= 2 * ENTRY_FIELDS_MAX
    return is_paired and is_short and sum(sizes_of(many)) <= ENTRY_BYTES_MAX


def range_(keyspace: Keyspace, request: Range, now_ms: int) -> Decision[list[Entry]]:
    del now_ms
    stream = keyspace.stream(request.stream)
    if request.whole:
        return Decision(_whole_range(stream.log, request), [])
    logs = _logs_of(stream, archived=request.archived)
    return Decision(_range(logs, request, request.limit, request.size_bytes_max), [])


def _logs_of(stream: Stream, *, archived: bool) -> Log | Logs:
    return stream.everything if archived else stream.log


def range_packed(keyspace: Keyspace, request: RangePacked, now_ms: int) -> Decision[PackedPage]:
    del now_ms
    stream = keyspace.stream(request.stream)
    bounds = request.start, request.end, request.limit, request.size_bytes_max
    runs, last_id = _logs_of(stream, archived=request.archived).packed_range(*bounds)
    gone_through = stream.gone_through if request.archived else stream.trimmed_through
    return Decision(PackedPage(runs, last_id, stream.epoch, gone_through), [])


def range_matching(
    keyspace: Keyspace, request: RangeMatching, now_ms: int
) -> Decision[MatchingPage]:
    del now_ms
    log = _logs_of(keyspace.stream(request.stream), archived=request.archived)
    matcher = matcher_of(request.filters)
    bounds, room = (request.start, request.end), ReadRoom(request.size_bytes_max)
    page = matching_page(log, matcher, bounds, request.limit, room, reverse=request.reverse)
    return Decision(page, [])


def find_times(
    keyspace: Keyspace, request: FindTimes, now_ms: int
) -> Decision[dict[EntryId, EntryTimes]]:
    del now_ms
    return Decision(_times_in(keyspace, keyspace.stream(request.stream), request.ids), [])


def _times_in(
    keyspace: Keyspace, stream: Stream | None, ids: Iterable[EntryId]
) -> dict[EntryId, EntryTimes]:
    if stream is None or not stream.deadlines:
        return {}
    pairs = ((entry_id, stream.times_of(entry_id)) for entry_id in ids)
    clock_set_ms = keyspace.clock_set_ms
    return {
        entry_id: times.later_by(clock_set_ms) for entry_id, times in pairs if times is not None
    }


def _whole_range(log: Log, request: Range) -> list[Entry]:
    limit = log.length if request.limit is None else request.limit
    entries_max = limit if request.entries_max is None else request.entries_max
    entries = _range(log, request, min(limit, entries_max + 1), request.size_bytes_max)
    is_cut = len(entries) > entries_max
    if entries and not is_cut and len(entries) < limit:  # no more entries, or no more room
        last = entries[-1].id
        left = replace(request, end=last) if request.reverse else replace(request, start=last)
        is_cut = len(_range(log, left, 2, None)) > 1
    if is_cut:
        raise ReplyTooLarge("entries", entries_max)
    return entries


def _range(
    log: Log | Logs, request: Range, limit: int | None, size_bytes_max: int | None
) -> list[Entry]:
    room = ReadRoom(size_bytes_max)
    if request.reverse:
        return log.reverse_range(request.end, request.start, limit, room)
    return log.range(request.start, request.end, limit, room)


def freeze(keyspace: Keyspace, cursors: Sequence[StreamCursor]) -> tuple[StreamCursor, ...]:
    """Replace each `From.NOW` by the stream's last id, so a read that waits misses nothing."""
    frozen = []
    for cursor in cursors:
        if cursor.after is From.NOW:
            stream = keyspace.find(cursor.stream)
            last_id = MIN_ID if stream is None else stream.last_id
            frozen.append(StreamCursor(cursor.stream, last_id))
        else:
            frozen.append(cursor)
    return tuple(frozen)


def read(keyspace: Keyspace, request: Read, now_ms: int) -> Decision[list[StreamRead]]:
    del now_ms
    if request.budget is not None:
        return Decision(_read_in_order(keyspace, request, request.budget), [])
    reads = list[StreamRead]()
    left = ReadRoom(request.size_bytes_max)
    share = left.share(len(request.cursors))
    _require_new(keyspace, request, request.size_bytes_max)
    for cursor in request.cursors:
        is_over = left.is_spent and any(before.entries for before in reads)
        room = share.share(1)
        stream = _stream_of(keyspace, request, cursor)
        limit = 0 if is_over else request.limit
        if not request.is_filtered or stream is None or limit == 0:
            reads.append(_read_stream(stream, cursor, limit, room, archived=request.archived))
        else:
            reads.append(_read_matching(stream, cursor, request, room))
        left.take_what_went(share, room)
        reads[-1] = _with_times(keyspace, stream, reads[-1])
    return Decision(reads, [])


def _with_times(keyspace: Keyspace, stream: Stream | None, read: StreamRead) -> StreamRead:
    if stream is None or not stream.deadlines:
        return read
    times = _times_in(keyspace, stream, (entry.id for entry in read.entries))
    return read._replace(times=times) if times else read


def _read_matching(
    stream: Stream, cursor: StreamCursor, request: Read, room: ReadRoom
) -> StreamRead:
    name, last_id, gap = stream.name, stream.last_id, None
    if isinstance(cursor.after, EntryId):
        after, low = cursor.after, cursor.after.next()
    elif cursor.after is From.LAST:
        after, low = MIN_ID, stream.log.last_id
    else:
        after = low = last_id
    if after >= last_id:
        return StreamRead(name, [], after, last_id, None, after)
    log = _logs_of(stream, archived=request.archived)
    matcher, share = _matcher_of(stream, request), len(request.cursors)
    page = matching_page(log, matcher, (low, last_id), request.limit, room, share=share)
    if cursor.after is not From.LAST:
        gap = stream.gap_after(after, page.last_id, with_archive=request.archived)
    archived = _begins_archived(stream, page.entries)
    return StreamRead(name, page.entries, page.last_id, last_id, gap, after, archived=archived)


def _matcher_of(stream: Stream, request: Read) -> Matcher:
    if request.keys is None:
        assert request.filters is not None
        return matcher_of(request.filters)
    if stream.table is None:
        raise NotATable(stream.name)
    text, is_prefix = request.keys
    return Matcher(TextCondition(stream.table.key_field, "prefix" if is_prefix else "exact", text))


def _begins_archived(stream: Stream, entries: Sequence[Entry]) -> bool:
    first_id = stream.log.first_id if stream.log.length else MAX_ID
    return bool(entries) and entries[0].id < first_id


def _read_in_order(keyspace: Keyspace, request: Read, budget: Budget) -> list[StreamRead]:
    reads: list[StreamRead] = []
    left = ReplyRoom(budget)
    _require_new(keyspace, request, budget.size_bytes_max)
    for cursor in request.cursors:
        if not left.count:
            break
        stream = _stream_of(keyspace, request, cursor)
        room = ReadRoom(budget.size_bytes_max)
        read = _read_stream(stream, cursor, left.limit(request.limit), room)
        taken = left.take(read.entries)
        if taken < len(read.entries):
            entries = read.entries[:taken]
            next_after = entries[-1].id if entries else read.after
            read = read._replace(entries=entries, next_after=next_after, closed_at_ms=None)
        reads.append(read)
    return reads


def _require_new(keyspace: Keyspace, request: Read, size_bytes_max: int | None) -> None:
    """Check that what a read of many streams returns is in memory; `Missing` names all of it."""
    if not keyspace.memory.cold_bytes or len(request.cursors) == 1:
        return
    share = None if size_bytes_max is None else size_bytes_max // len(request.cursors)
    require_each(
        partial(stream.log.require_range, after.next(), MAX_ID, request.limit, ReadRoom(share))
        for name, after in request.cursors
        if isinstance(after, EntryId) and (stream := keyspace.find(name)) is not None
    )


def _stream_of(keyspace: Keyspace, request: Read, cursor: StreamCursor) -> Stream | None:
    return keyspace.find(cursor.stream) if request.missing_ok else keyspace.stream(cursor.stream)


def _read_stream(
    stream: Stream | None,
    cursor: StreamCursor,
    limit: int | None,
    room: ReadRoom,
    *,
    archived: bool = False,
) -> StreamRead:
    after = MIN_ID if isinstance(cursor.after, From) else cursor.after
    if stream is None:
        return StreamRead(cursor.stream, [], after, MIN_ID, None, after)
    if cursor.after is From.NOW:
        after = stream.last_id
    entries = []
    log = _logs_of(stream, archived=archived)
    if cursor.after is From.LAST and limit != 0:
        entries = stream.log.reverse_range(MAX_ID, MIN_ID, 1, room)
    elif log.last_id > after and limit != 0:
        entries = log.range(after.next(), MAX_ID, limit, room)
    through = entries[-1].id if entries else MAX_ID
    gap = stream.gap_after(after, through, with_archive=archived)
    behind = after if gap is None else gap.through
    next_after = entries[-1].id if entries else behind
    closed_at_ms = stream.closed_at_ms if next_after >= log.last_id else None
    read = StreamRead(cursor.stream, entries, next_after, stream.last_id, gap, after, closed_at_ms)
    return read._replace(archived=True) if archived and _begins_archived(stream, entries) else read


def delete(keyspace: Keyspace, request: Delete, now_ms: int) -> Decision[list[Deletion]]:
    at_once = deleted_at_once(keyspace.stream(request.stream), request.references)

    def part(keyspace: Keyspace, ids: Sequence[EntryId], _: int) -> Decision[list[Deletion]]:
        return _delete(keyspace, request, ids)

    return in_parts(keyspace, now_ms, request.ids, at_once, part)


def _delete(
    keyspace: Keyspace, request: Delete, ids: Sequence[EntryId]
) -> Decision[list[Deletion]]:
    stream, references = keyspace.find(request.stream), request.references
    if stream is None:
        return Decision([Deletion.NOT_FOUND] * len(ids), [])
    doomed: dict[EntryId, None] = {}
    reply = []
    stream.require_all(ids)
    free = stream.unreferenced(ids) if references is References.ACKED else frozenset(ids)
    for entry_id in ids:
        if entry_id not in free:
            # Redis checks references first, so an id without a stream entry can be referenced.
            reply.append(Deletion.REFERENCED)
        elif entry_id in doomed or not stream.has(entry_id):
            reply.append(Deletion.NOT_FOUND)
        else:
            doomed[entry_id] = None
            is_found = request.archived or stream.log.has(entry_id)
            reply.append(Deletion.DELETED if is_found else Deletion.NOT_FOUND)
    commands: list[Command] = []
    if references is References.DELETE:  # an id without a stream entry may still be pending
        commands += purge(stream, ids)
    if doomed:
        commands.append(EntriesDeleted(stream.name, list(doomed)))
    return Decision(reply, commands)


def _next_ids(count: int, last_id: EntryId, now_ms: int) -> list[EntryId]:
    """Return `count` ids for `*`: consecutive until the sequence number is exhausted."""
    ids: list[EntryId] = []
    while len(ids) < count:
        first = _id(None, last_id, now_ms, len(ids))
        ids += neighbours(first, min(count - len(ids), U64_MAX + 1 - first.seq))
        last_id = ids[-1]
    return ids


def _id(request: IdRequest, last_id: EntryId, now_ms: int, index: int) -> EntryId:
    if request is None and now_ms > last_id.ms:
        return EntryId(now_ms, 0)
    if request == MIN_ID:
        raise IdNotGreater(request, last_id=last_id, index=index)
    if last_id == MAX_ID:
        raise IdsExhausted
    if request is None:  # Redis: if the clock has not advanced, the sequence goes on
        return last_id.next()
    if isinstance(request, PartialId):
        wanted = EntryId(request.ms, 0)
        if request.ms == last_id.ms and last_id.seq < U64_MAX:
            wanted = last_id.next()
    else:
        wanted = request
    if wanted <= last_id:
        raise IdNotGreater(request, last_id=last_id, index=index)
    return wanted


DECISIONS: Decisions = {
    Add: add,
    Range: range_,
    RangeMatching: range_matching,
    RangePacked: range_packed,
    Read: read,
    Delete: delete,
    FindTimes: find_times,
}
