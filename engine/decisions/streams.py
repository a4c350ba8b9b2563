"""Decisions about streams and their entries: create, configure, delete, add, trim."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice, takewhile
from typing import NamedTuple, TypeVar

from headgate.engine.commands import (
    AllDeleted,
    ChunksAdded,
    Command,
    CountersSet,
    DuplicateCounted,
    EntriesAdded,
    EntriesDeleted,
    EntriesEvicted,
    ExpirySet,
    KeyRemembered,
    KeysForgotten,
    PackedChunk,
    PendingPurged,
    StreamConfigured,
    StreamCreated,
    StreamDeleted,
    StreamRenamed,
    StreamTrimmed,
)
from headgate.engine.decisions import Decision, in_parts
from headgate.engine.entry import (
    MAX_ID,
    MIN_ID,
    Draft,
    Entry,
    EntryId,
    Fields,
    IdRequest,
    PartialId,
    check_fields,
    make_entries,
    neighbours,
    sizes_of,
)
from headgate.engine.errors import (
    CounterTooLow,
    IdempotencyMismatch,
    IdNotGreater,
    IdsExhausted,
    Invalid,
    LastIdMismatch,
    Location,
    StreamExists,
    StreamNotFound,
)
from headgate.engine.limits import (
    CHUNK_ENTRIES_MAX,
    DELETED_AT_ONCE_MAX,
    ENTRY_BYTES_MAX,
    ENTRY_FIELDS_MAX,
    EXPIRED_AT_ONCE_MAX,
    FORGOTTEN_KEYS_MS,
    LOOKUPS_AT_ONCE_MAX,
    SAMPLED_MAX,
    SETTLED_AT_ONCE_MAX,
    TRIM_CHUNKS_DEFAULT,
    TRIM_ENTRIES_MAX,
    TRIMMED_AT_ONCE,
    U64_MAX,
)
from headgate.engine.replies import Added, Deletion, Written
from headgate.engine.requests import References, TrimRequest, UpdateStream, patched
from headgate.engine.state.idempotency import Idempotent, Made
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.log import Cut, Log, NodeLimits
from headgate.engine.state.packed import Packed, PackedDrafts
from headgate.engine.state.stream import Stream, StreamConfig

T = TypeVar("T")


def create_stream(
    keyspace: Keyspace, name: bytes, config: StreamConfig, now_ms: int
) -> Decision[bool]:
    """Decide to create a stream; replies whether it is new.

    Raises:
        StreamExists: it is there with another configuration.
        LimitReached: there are as many streams as there may be.
    """
    stream = keyspace.find(name)
    if stream is None:
        keyspace.bounds.check_another_stream(len(keyspace.streams))
        return Decision(True, [StreamCreated(name, keyspace.next_epoch(now_ms), config)])
    if stream.config != config:
        raise StreamExists(name)
    return Decision(False, [])


def configure_stream(
    keyspace: Keyspace, name: bytes, config: StreamConfig, now_ms: int
) -> Decision[None]:
    """Decide to give a stream another configuration, which holds at once.

    Raises:
        StreamNotFound: there is none.
    """
    stream = keyspace.stream(name)
    if config == stream.config:
        return Decision(None, [])
    forgotten: list[Command] = []
    if _key_limits(keyspace, stream.config) != _key_limits(keyspace, config):
        forgotten.append(KeysForgotten(name, None))  # Redis: a changed value wipes the history
    trims = _trim_command(name, _retention_cuts(stream, [], config, now_ms))
    return Decision(None, [StreamConfigured(name, config), *forgotten, *trims])


def update_stream(keyspace: Keyspace, request: UpdateStream, now_ms: int) -> Decision[None]:
    """Decide to change what a patch says of a stream's configuration, which holds at once.

    Raises:
        StreamNotFound: there is none.
    """
    config = patched(keyspace.stream(request.stream).config, request.config)
    return configure_stream(keyspace, request.stream, config, now_ms)


def delete_stream(keyspace: Keyspace, name: bytes) -> Decision[bool]:
    """Decide to delete a stream with its groups; replies whether it was there."""
    found = keyspace.find(name) is not None
    return Decision(found, [StreamDeleted(name)] if found else [])


def delete_streams(keyspace: Keyspace, names: Sequence[bytes], now_ms: int) -> Decision[int]:
    """Decide to delete streams with their groups (DEL); replies how many were there."""
    if len(names) > DELETED_AT_ONCE_MAX:
        return in_parts(keyspace, now_ms, names, DELETED_AT_ONCE_MAX, delete_streams)
    found = [name for name in dict.fromkeys(names) if keyspace.find(name) is not None]
    return Decision(len(found), [StreamDeleted(name) for name in found])


def flush(keyspace: Keyspace) -> Decision[None]:
    """Decide to delete all streams (FLUSHALL)."""
    return Decision(None, [AllDeleted()] if keyspace.streams else [])


def add(
    keyspace: Keyspace,
    name: bytes,
    drafts: Sequence[Draft] | PackedDrafts,
    *,
    create_stream: bool,
    expected_last_id: EntryId | None,
    idempotent: Idempotent | None,
    trim: TrimRequest | None,
    now_ms: int,
) -> Decision[Added]:
    """Decide to append entries, all or none (XADD); a retry under a key replies what it made.

    What packed drafts push out goes in a part of its own.

    Raises:
        StreamNotFound: there is none and `create_stream` is false.
        IdempotencyMismatch: the key was used for another request.
        LastIdMismatch: the last id is not `expected_last_id`.
        IdNotGreater: an explicit id is not above the one before it.
        IdsExhausted: there is no greater id.
        Invalid: an entry has no fields, half a pair, or more than 1 GiB.
        LimitReached: the stream or the key's producer is one too many.
    """
    if trim is not None:
        check_trim(trim, at=("trim",))
    stream = keyspace.find(name)
    if stream is None and not create_stream:
        raise StreamNotFound(name)
    made = _made_before(keyspace, stream, idempotent, now_ms)
    if made is not None:
        return Decision(Added(made.ids(), is_repeat=True), [DuplicateCounted(name)])
    last_id = stream.last_id if stream is not None else MIN_ID
    if expected_last_id is not None and expected_last_id != last_id:
        raise LastIdMismatch(expected=expected_last_id, last_id=last_id)
    created = None
    if stream is None:
        keyspace.bounds.check_another_stream(len(keyspace.streams))
        created = StreamCreated(name, keyspace.next_epoch(now_ms), StreamConfig())
        stream = Stream(name, created.epoch, created.config)
    appending = _appending(stream, drafts, now_ms)
    commands: list[Command] = [] if created is None else [created]
    if appending is None:
        return Decision(Added([], is_repeat=False), commands)
    commands.append(appending)
    ids = _ids_in(appending, drafts)
    if idempotent is not None:
        made = Made(ids[0], len(ids), idempotent.digest, now_ms)
        producer, key, _ = idempotent
        keyspace.bounds.check_producer(stream, producer)
        commands.append(KeyRemembered(name, producer, key, made, keys_max(keyspace, stream)))
    reply = Added(ids, is_repeat=False)
    return _and_trims(reply, commands, keyspace, stream, appending, trim, now_ms)


def append(
    keyspace: Keyspace, stream: Stream, drafts: Sequence[Draft] | PackedDrafts, now_ms: int
) -> Decision[Written | None]:
    """Decide to append entries, all or none, to a stream that is there, or will be by then.

    Replies what was written, None for nothing. What packed drafts push out goes in a part of its
    own.

    Raises:
        IdNotGreater: an explicit id is not above the one before it.
        IdsExhausted: there is no greater id.
        Invalid: an entry has no fields, half a pair, or more than 1 GiB.
    """
    appending = _appending(stream, drafts, now_ms)
    if appending is None:
        return Decision(None, [])
    written = _written(appending)
    return _and_trims(written, [appending], keyspace, stream, appending, None, now_ms)


def _appending(
    stream: Stream, drafts: Sequence[Draft] | PackedDrafts, now_ms: int
) -> EntriesAdded | ChunksAdded | None:
    """Return the command that appends, None if there is nothing to."""
    if isinstance(drafts, PackedDrafts):
        chunks = _chunks(drafts.chunks, stream.last_id, now_ms)
        if chunks is not None:
            return ChunksAdded(stream.name, chunks)
        drafts = drafts.drafts
    entries = _entries(drafts, stream.last_id, now_ms)
    return EntriesAdded(stream.name, entries) if entries else None


def _and_trims(
    reply: T,
    commands: list[Command],
    keyspace: Keyspace,
    stream: Stream,
    appending: EntriesAdded | ChunksAdded,
    trim: TrimRequest | None,
    now_ms: int,
) -> Decision[T]:
    """Return the decision to append, and to trim then."""
    if trim is None and not stream.config.retains:
        return Decision(reply, commands)
    if isinstance(appending, ChunksAdded):
        return Decision(reply, commands, partial(_trims_later, reply, stream.name, trim))
    commands += _trims_after(keyspace, stream, appending.entries, trim, now_ms)
    return Decision(reply, commands)


def _chunks(packed: Sequence[Packed], last_id: EntryId, now_ms: int) -> list[PackedChunk] | None:
    """Say which ids packed drafts have; None if some of them have no neighbours for ids."""
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
    """Return the ids that an append gives to its drafts."""
    if isinstance(appending, EntriesAdded):
        return [entry.id for entry in appending.entries]
    assert isinstance(drafts, PackedDrafts)
    ids: list[EntryId] = []
    for first_id, _, count, _, is_run in appending.chunks:
        if is_run:
            ids += neighbours(first_id, count)
        else:
            wanted = (draft.id for draft in drafts.drafts[len(ids) : len(ids) + count])
            ids += [one for one in wanted if isinstance(one, EntryId)]
    return ids


def _written(appending: EntriesAdded | ChunksAdded) -> Written:
    """Return what an append writes."""
    if isinstance(appending, EntriesAdded):
        entries = appending.entries
        return Written(appending.stream, len(entries), entries[0].id, entries[-1].id)
    chunks = appending.chunks
    count = sum(chunk.entry_count for chunk in chunks)
    return Written(appending.stream, count, chunks[0].first_id, chunks[-1].last_id)


def _trims_later(
    reply: T, name: bytes, trim: TrimRequest | None, keyspace: Keyspace, now_ms: int
) -> Decision[T]:
    stream = keyspace.find(name)
    commands = [] if stream is None else _trims_after(keyspace, stream, [], trim, now_ms)
    return Decision(reply, commands)


def _entries(drafts: Sequence[Draft], last_id: EntryId, now_ms: int) -> list[Entry]:
    """Give each draft its id; of several faults the first draft's is raised."""
    if len(drafts) > 1:
        ids, many = zip(*drafts, strict=True)
        if not any(ids) and _are_sound(many):
            return make_entries(_next_ids(len(drafts), last_id, now_ms), many)
    entries: list[Entry] = []
    for index, (wanted, fields) in enumerate(drafts):
        check_fields(fields, index)
        last_id = _id(wanted, last_id, now_ms, index)
        entries.append(Entry(last_id, fields))
    return entries


def _are_sound(many: Sequence[Fields]) -> bool:
    """Tell at once that all of them can be stored: together they are no larger than one may be."""
    counts = set(map(len, many))
    is_paired = min(counts) > 0 and not any(count % 2 for count in counts)
    is_short = max(counts) <= 2 * ENTRY_FIELDS_MAX
    return is_paired and is_short and sum(sizes_of(many)) <= ENTRY_BYTES_MAX


def _made_before(
    keyspace: Keyspace, stream: Stream | None, idempotent: Idempotent | None, now_ms: int
) -> Made | None:
    """Return what was made under the key before, if the key still protects."""
    if stream is None or idempotent is None:
        return None
    since_ms = keyspace.steady_ms(now_ms) - key_window_ms(keyspace, stream)
    made = stream.keys.find(idempotent, since_ms)
    if made is not None and idempotent.digest and idempotent.digest != made.digest:
        raise IdempotencyMismatch(idempotent.key)
    return made


def key_window_ms(keyspace: Keyspace, stream: Stream) -> int:
    """Return how long a stream's idempotency keys protect."""
    return _key_limits(keyspace, stream.config)[0]


def keys_max(keyspace: Keyspace, stream: Stream) -> int:
    """Return how many idempotency keys a producer may have."""
    return _key_limits(keyspace, stream.config)[1]


def _key_limits(keyspace: Keyspace, config: StreamConfig) -> tuple[int, int]:
    window_ms, most = config.idempotency_window_ms, config.idempotency_max
    return (
        keyspace.defaults.idempotency_window_ms if window_ms is None else window_ms,
        keyspace.defaults.idempotency_max if most is None else most,
    )


def trim(keyspace: Keyspace, name: bytes, request: TrimRequest) -> Decision[int]:
    """Decide to trim a stream (XTRIM); replies how many entries go. A missing stream has none.

    What is appended between the parts of a long trim is not looked at.

    Raises:
        Invalid: the request contradicts itself.
    """
    check_trim(request)
    stream = keyspace.find(name)
    if stream is None:
        return Decision(0, [])
    return _Trimming(name, request, stream).part(0, MIN_ID, keyspace, 0)


class _Trimming:
    """A trim of what a stream has now, part by part."""

    def __init__(self, name: bytes, request: TrimRequest, stream: Stream) -> None:
        self._name = name
        self._request = request
        self._epoch = stream.epoch
        self._last_id = stream.last_id

    def part(self, removed: int, after: EntryId, keyspace: Keyspace, _: int) -> Decision[int]:
        """Decide the part behind an id; so many entries are gone already."""
        stream = keyspace.find(self._name)
        if stream is None or stream.epoch != self._epoch:  # it has gone meanwhile
            return Decision(removed, [])
        found = _trim_part(keyspace, stream, self._request, [], after, removed, self._last_id)
        removed += found.removed
        rest = None if found.reached is None else partial(self.part, removed, found.reached)
        return Decision(removed, found.commands, rest)


def retain(keyspace: Keyspace, name: bytes, now_ms: int) -> Decision[None]:
    """Decide what a stream's configured retention takes now.

    Raises:
        StreamNotFound: there is none.
    """
    stream = keyspace.stream(name)
    cuts = _retention_cuts(stream, [], stream.config, now_ms)
    return Decision(None, _trim_command(name, cuts))


def trim_oldest(keyspace: Keyspace, after: bytes | None) -> Decision[bytes | None]:
    """Decide to let the oldest entries of one stream go, to make room.

    Of some streams the one whose entries begin first is taken, as Redis samples for its eviction.

    Args:
        keyspace: all streams.
        after: look at the streams that follow this name; None: at the first ones.

    Returns:
        The name after which to look next time; None if there was nothing behind this one.
    """
    names = list(islice(keyspace.streams.irange(after, inclusive=(False, True)), SAMPLED_MAX))
    filled = [one for name in names if (one := keyspace.streams[name]).log.length]
    commands: list[Command] = []
    if filled:
        oldest = min(filled, key=lambda one: one.log.first_id)
        cut = oldest.log.portion(MIN_ID, MAX_ID, TRIMMED_AT_ONCE)
        commands = _trim_command(oldest.name, [cut])
    return Decision(names[-1] if names else None, commands)


def delete(
    keyspace: Keyspace,
    name: bytes,
    ids: Sequence[EntryId],
    references: References = References.KEEP,
) -> Decision[list[Deletion]]:
    """Decide to delete entries (XDEL, XDELEX); replies per id what became of it.

    An id named twice is there the first time only. A missing stream has no entries.
    """
    if len(ids) > LOOKUPS_AT_ONCE_MAX:
        return in_parts(
            keyspace,
            0,
            ids,
            LOOKUPS_AT_ONCE_MAX,
            lambda k, some, _: delete(k, name, some, references),
        )
    stream = keyspace.find(name)
    if stream is None:
        return Decision([Deletion.NOT_FOUND] * len(ids), [])
    found: dict[EntryId, None] = {}
    reply = []
    for entry_id in ids:
        if references is References.ACKED and stream.is_referenced(entry_id):
            # Redis: the reference is looked at first, so an id that was never there can be needed.
            reply.append(Deletion.REFERENCED)
        elif entry_id in found or stream.log.get(entry_id) is None:
            reply.append(Deletion.NOT_FOUND)
        else:
            found[entry_id] = None
            reply.append(Deletion.DELETED)
    commands: list[Command] = []
    if references is References.DELETE:  # ids that are gone already may still be pending
        commands += _purge(stream, ids)
    if found:
        commands.append(EntriesDeleted(name, list(found)))
    return Decision(reply, commands)


def forget_keys(keyspace: Keyspace, name: bytes, now_ms: int) -> Decision[None]:
    """Decide which idempotency keys of a stream are too old to protect: those of some moments.

    Whoever wants to be rid of all of them asks again until there is nothing to do.

    Raises:
        StreamNotFound: there is none.
    """
    stream = keyspace.stream(name)
    before_ms = now_ms - key_window_ms(keyspace, stream)
    first_at_ms = stream.keys.first_at_ms
    if first_at_ms is None or first_at_ms >= keyspace.steady_ms(before_ms):
        return Decision(None, [])
    some_ms = keyspace.wall_ms(first_at_ms) + FORGOTTEN_KEYS_MS
    return Decision(None, [KeysForgotten(name, min(before_ms, some_ms))])


def due_ms(keyspace: Keyspace, name: bytes) -> int | None:
    """Return when the first entry or idempotency key of a stream is too old (unix ms), if any."""
    stream = keyspace.find(name)
    if stream is None:
        return None
    found = []
    max_age_ms = stream.config.max_age_ms
    if max_age_ms is not None and stream.log.length:
        found.append(stream.log.first_id.ms + max_age_ms + 1)
    first_at_ms = stream.keys.first_at_ms
    if first_at_ms is not None:
        found.append(keyspace.wall_ms(first_at_ms) + key_window_ms(keyspace, stream) + 1)
    return min(found, default=None)


def expire(keyspace: Keyspace, now_ms: int) -> Decision[None]:
    """Decide which streams go because their time is over, the first of them."""
    over = takewhile(lambda one: one[0] <= now_ms, keyspace.expiring)
    return Decision(None, [StreamDeleted(name) for _, name in islice(over, EXPIRED_AT_ONCE_MAX)])


def set_expiry(keyspace: Keyspace, name: bytes, at_ms: int | None) -> Decision[None]:
    """Decide when a stream goes (PEXPIREAT), or that it stays (PERSIST).

    Raises:
        StreamNotFound: there is none.
    """
    if keyspace.stream(name).expires_at_ms == at_ms:
        return Decision(None, [])
    return Decision(None, [ExpirySet(name, at_ms)])


def rename(keyspace: Keyspace, name: bytes, to: bytes) -> Decision[None]:
    """Decide to give a stream another name; one that has it goes (RENAME).

    Raises:
        StreamNotFound: there is none of the first name.
    """
    keyspace.stream(name)
    if name == to:
        return Decision(None, [])
    replaced: list[Command] = [StreamDeleted(to)] if keyspace.find(to) is not None else []
    return Decision(None, [*replaced, StreamRenamed(name, to)])


def set_stream(
    keyspace: Keyspace,
    name: bytes,
    last_id: EntryId,
    entries_added: int | None,
    max_deleted_id: EntryId,
) -> Decision[None]:
    """Decide to set a stream's counters (XSETID).

    Args:
        keyspace: all streams.
        name: the stream.
        last_id: its last id from now on.
        entries_added: entries ever added; None leaves it.
        max_deleted_id: greatest id ever deleted; `0-0` leaves it.

    Raises:
        StreamNotFound: there is none.
        CounterTooLow: the counters would contradict each other or the entries.
    """
    stream = keyspace.stream(name)
    if last_id < stream.max_deleted_id:
        raise CounterTooLow("last_id", "max_deleted_id", "the greatest id ever deleted")
    if stream.log.length and last_id < stream.log.last_id:
        raise CounterTooLow("last_id", "newest", "the id of the newest entry")
    if entries_added is not None and stream.log.length > entries_added:
        raise CounterTooLow("entries_added", "length", "the number of entries")
    command = CountersSet(
        name,
        last_id,
        stream.entries_added if entries_added is None else entries_added,
        stream.max_deleted_id if max_deleted_id == MIN_ID else max_deleted_id,
    )
    return Decision(None, [command])


def check_trim(request: TrimRequest, *, at: Location = ()) -> None:
    """Refuse a trim that contradicts itself.

    Args:
        request: the trim.
        at: where it stands in the request that it is part of.

    Raises:
        Invalid: it does.
    """
    if request.max_length is not None and request.min_id is not None:
        raise Invalid(
            "a trim goes by max_length or by min_id, not by both", location=(*at, "min_id")
        )
    if request.max_length is None and request.min_id is None:
        raise Invalid("a trim goes by max_length or by min_id", location=(*at, "max_length"))
    if request.max_length is not None and request.max_length < 0:
        raise Invalid("max_length is 0 or more", location=(*at, "max_length"))
    if request.limit is not None and request.limit < 0:
        raise Invalid("limit is 0 or more", location=(*at, "limit"))
    if request.limit is not None and not request.approximate:
        raise Invalid("only an approximate trim has a limit", location=(*at, "limit"))


def _next_ids(count: int, last_id: EntryId, now_ms: int) -> list[EntryId]:
    """Return what `*` gets, so many times: neighbours but where the sequence is exhausted."""
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
    if request is None:  # Redis: when the clock stands still or steps back, the sequence goes on
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


def _trims_after(
    keyspace: Keyspace,
    stream: Stream,
    appended: Sequence[Entry],
    trim: TrimRequest | None,
    now_ms: int,
) -> list[Command]:
    """Return the trims that follow an append, seen before it is applied."""
    retained = _trim_command(stream.name, _retention_cuts(stream, appended, stream.config, now_ms))
    if trim is None:
        return retained
    # What one part leaves goes with the next append.
    part = _trim_part(keyspace, stream, trim, appended, MIN_ID, 0, MAX_ID)
    return [*part.commands, *retained]


class _TrimPart(NamedTuple):
    """What goes in one part of a trim."""

    removed: int
    commands: list[Command]
    reached: EntryId | None  # where the next part begins; None: there is none


def _trim_part(
    keyspace: Keyspace,
    stream: Stream,
    request: TrimRequest,
    appended: Sequence[Entry],
    after: EntryId,
    removed: int,
    last_id: EntryId,
) -> _TrimPart:
    """Decide one part of a trim.

    Args:
        keyspace: all streams.
        stream: what is trimmed.
        request: what is to be kept.
        appended: entries that will have been added by then.
        after: everything up to here has been looked at; only a trim that spares entries leaves any.
        removed: how many entries are gone already.
        last_id: only entries up to this one.
    """
    limits = keyspace.defaults.node_limits
    if request.references is References.ACKED:
        return _unneeded(stream, request, limits, appended, after, removed, last_id)
    cut = _cut(stream.log, request, limits, appended, removed)
    if cut is not None and cut.through > last_id:
        cut = stream.log.cut_below(last_id.next())
    if cut is None:
        return _TrimPart(0, [], None)
    commands: list[Command] = []
    if request.references is References.DELETE:
        if cut.length > SETTLED_AT_ONCE_MAX:
            first = stream.log.portion(MIN_ID, cut.through, SETTLED_AT_ONCE_MAX)
            cut = cut if first is None else first._replace(is_whole=False)
        live = [entry.id for entry in stream.log.range(MIN_ID, cut.through)]
        commands = _purge(stream, live)
    commands.append(StreamTrimmed(stream.name, cut.through))
    return _TrimPart(cut.length, commands, None if cut.is_whole else cut.through)


def _unneeded(
    stream: Stream,
    request: TrimRequest,
    limits: NodeLimits,
    appended: Sequence[Entry],
    after: EntryId,
    removed: int,
    last_id: EntryId,
) -> _TrimPart:
    """Decide one part of a trim that spares needed entries (ACKED); arguments as above.

    Needed entries are passed over. The walk ends with the length or the id reached, or behind the
    first chunk that could not have gone as a whole.
    """
    limit = _trim_limit(request.limit, limits) if request.approximate else None
    length = stream.log.length + len(appended)
    evicted: list[EntryId] = []
    seen_count = 0
    reached: EntryId | None = None
    for entries in stream.log.nodes(after, appended, limits):
        if limit is not None and removed + len(evicted) + len(entries) > limit:
            break
        if entries[0].id > last_id:
            break
        if seen_count >= SETTLED_AT_ONCE_MAX:
            reached = after
            break
        is_last = not _goes_whole(request, entries, length)
        for entry in entries:
            if _is_reached(request, entry, length) or entry.id > last_id:
                break
            if not stream.is_referenced(entry.id):
                evicted.append(entry.id)
                length -= 1
        if is_last:
            break
        seen_count += len(entries)
        after = entries[-1].id
    return _TrimPart(
        len(evicted), [EntriesEvicted(stream.name, evicted)] if evicted else [], reached
    )


def _goes_whole(request: TrimRequest, entries: Sequence[Entry], length: int) -> bool:
    if request.max_length is not None:
        return length - len(entries) >= request.max_length
    return request.min_id is not None and entries[-1].id < request.min_id


def _is_reached(request: TrimRequest, entry: Entry, length: int) -> bool:
    if request.max_length is not None:
        return length <= request.max_length
    return request.min_id is not None and entry.id >= request.min_id


def _purge(stream: Stream, ids: Sequence[EntryId]) -> list[Command]:
    groups = stream.groups.values()
    pending = [one for one in dict.fromkeys(ids) if any(one in g.pel.by_id for g in groups)]
    return [PendingPurged(stream.name, pending)] if pending else []


def _retention_cuts(
    stream: Stream, appended: Sequence[Entry], config: StreamConfig, now_ms: int
) -> list[Cut | None]:
    cuts = []
    if config.max_length is not None:
        cuts.append(stream.log.cut_to_length(config.max_length, appended))
    if config.max_age_ms is not None:
        oldest = EntryId(max(now_ms - config.max_age_ms, 0), 0)
        cuts.append(stream.log.cut_below(oldest, appended))
    return cuts


def _cut(
    log: Log,
    request: TrimRequest,
    node_limits: NodeLimits,
    appended: Sequence[Entry],
    removed: int,
) -> Cut | None:
    limit = _trim_limit(request.limit, node_limits)
    limit = None if limit is None else limit - removed
    if request.approximate and request.references is References.KEEP:
        return log.cut_chunks(
            length_max=request.max_length,
            min_id=request.min_id,
            limit=limit,
            appended=appended,
            node_limits=node_limits,
        )
    if request.max_length is not None:
        cut = log.cut_to_length(request.max_length, appended)
    else:
        assert request.min_id is not None
        cut = log.cut_below(request.min_id, appended)
    if cut is None or not request.approximate:
        return cut
    # Redis: with references to see to, `~` is exact; only its limit still counts whole nodes.
    most = log.cut_chunks(
        length_max=0, min_id=None, limit=limit, appended=appended, node_limits=node_limits
    )
    return min(cut, most, key=lambda one: one.through) if most is not None else None


def _trim_limit(limit: int | None, node_limits: NodeLimits) -> int | None:
    if limit is None:
        per_chunk = node_limits.entries_max if node_limits.entries_max > 0 else CHUNK_ENTRIES_MAX
        limit = TRIM_CHUNKS_DEFAULT * per_chunk
    return min(limit, TRIM_ENTRIES_MAX) or None  # Redis: LIMIT 0 is no limit


def _trim_command(name: bytes, cuts: Sequence[Cut | None]) -> list[Command]:
    through = [cut.through for cut in cuts if cut is not None]
    return [StreamTrimmed(name, max(through))] if through else []
