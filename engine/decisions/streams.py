"""Decisions about streams and their entries: create, configure, delete, add, trim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from engine.commands import Add, Command, ConfigureStream, CreateStream, Delete, DeleteStream, Trim
from engine.decisions import Decision
from engine.entry import MAX_ID, MIN_ID, Draft, Entry, EntryId, IdRequest, PartialId
from engine.errors import (
    IdNotGreater,
    IdsExhausted,
    Invalid,
    LastIdMismatch,
    StreamExists,
    StreamNotFound,
)
from engine.keyspace import Keyspace
from engine.limits import (
    CHUNK_ENTRIES_MAX,
    ENTRY_BYTES_MAX,
    TRIM_CHUNKS_DEFAULT,
    TRIM_ENTRIES_MAX,
    U64_MAX,
)
from engine.log import Cut, Log, NodeLimits
from engine.stream import Stream, StreamConfig


class TrimRequest(NamedTuple):
    """What to keep: the newest `max_length` entries, or ids from `min_id` on. One of the two."""

    max_length: int | None = None
    min_id: EntryId | None = None
    approximate: bool = False  # only whole chunks: cheaper, and keeps a little more
    limit: int | None = (
        None  # of an approximate trim: entries to remove; None: 100 chunks, 0: no limit
    )


def create_stream(
    keyspace: Keyspace, name: bytes, config: StreamConfig, now_ms: int
) -> Decision[bool]:
    """Decide to create a stream; replies whether it is new.

    Raises:
        StreamExists: it is there with another configuration.
    """
    stream = keyspace.find(name)
    if stream is None:
        return Decision(True, [CreateStream(name, keyspace.next_epoch(now_ms), config)])
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
    trims = _trim_command(name, _retention_cuts(stream, [], config, now_ms))
    return Decision(None, [ConfigureStream(name, config), *trims])


def delete_stream(keyspace: Keyspace, name: bytes) -> Decision[bool]:
    """Decide to delete a stream with its groups; replies whether it was there."""
    found = keyspace.find(name) is not None
    return Decision(found, [DeleteStream(name)] if found else [])


def add(
    keyspace: Keyspace,
    name: bytes,
    drafts: Sequence[Draft],
    *,
    create_stream: bool,
    expected_last_id: EntryId | None,
    trim: TrimRequest | None,
    now_ms: int,
) -> Decision[list[EntryId]]:
    """Decide to append entries, all or none (XADD); replies their ids.

    Raises:
        StreamNotFound: there is none and `create_stream` is false.
        LastIdMismatch: the last id is not `expected_last_id`.
        IdNotGreater: an explicit id is not above the one before it.
        IdsExhausted: there is no greater id.
        Invalid: an entry has no fields, half a pair, or more than 1 GiB.
    """
    if trim is not None:
        check_trim(trim)
    stream = keyspace.find(name)
    if stream is None and not create_stream:
        raise StreamNotFound(name)
    last_id = stream.last_id if stream is not None else MIN_ID
    if expected_last_id is not None and expected_last_id != last_id:
        raise LastIdMismatch(expected=expected_last_id, last_id=last_id)
    entries: list[Entry] = []
    for index, draft in enumerate(drafts):
        _check_fields(draft.fields, index)
        last_id = _next_id(draft.id, last_id, now_ms, index)
        entries.append(Entry(last_id, draft.fields))
    commands: list[Command] = []
    if stream is None:
        epoch = keyspace.next_epoch(now_ms)
        commands.append(CreateStream(name, epoch, StreamConfig()))
        stream = Stream(name, epoch, StreamConfig())
    if entries:
        commands.append(Add(name, entries))
        commands += _trims_after(keyspace, stream, entries, trim, now_ms)
    return Decision([entry.id for entry in entries], commands)


def trim(keyspace: Keyspace, name: bytes, request: TrimRequest) -> Decision[int]:
    """Decide to trim a stream (XTRIM); replies how many entries go. A missing stream has none.

    Raises:
        Invalid: the request contradicts itself.
    """
    check_trim(request)
    stream = keyspace.find(name)
    cut = _cut(stream.log, request, keyspace.node_limits) if stream is not None else None
    return Decision(cut.length, [Trim(name, cut.through)]) if cut else Decision(0, [])


def retain(keyspace: Keyspace, name: bytes, now_ms: int) -> Decision[None]:
    """Decide what a stream's configured retention takes now.

    Raises:
        StreamNotFound: there is none.
    """
    stream = keyspace.stream(name)
    cuts = _retention_cuts(stream, [], stream.config, now_ms)
    return Decision(None, _trim_command(name, cuts))


def delete(keyspace: Keyspace, name: bytes, ids: Sequence[EntryId]) -> Decision[list[bool]]:
    """Decide to delete entries (XDEL); replies per id whether it was there.

    An id named twice is there the first time only. A missing stream has no entries.
    """
    stream = keyspace.find(name)
    found: dict[EntryId, None] = {}
    reply = []
    for entry_id in ids:
        alive = (
            stream is not None and entry_id not in found and stream.log.get(entry_id) is not None
        )
        reply.append(alive)
        if alive:
            found[entry_id] = None
    return Decision(reply, [Delete(name, list(found))] if found else [])


def check_trim(request: TrimRequest) -> None:
    """Refuse a trim that contradicts itself, in Redis's words.

    Raises:
        Invalid: with the field at fault.
    """
    if request.max_length is not None and request.min_id is not None:
        text = "MAXLEN and MINID options at the same time are not compatible"
        raise Invalid(f"ERR syntax error, {text}", field="min_id")
    if request.max_length is None and request.min_id is None:
        text = "XTRIM must be called with a trimming strategy"
        raise Invalid(f"ERR syntax error, {text}", field="max_length")
    if request.max_length is not None and request.max_length < 0:
        raise Invalid("ERR The MAXLEN argument must be >= 0.", field="max_length")
    if request.limit is not None and request.limit < 0:
        raise Invalid("ERR The LIMIT argument must be >= 0.", field="limit")
    if request.limit is not None and not request.approximate:
        text = "LIMIT cannot be used without the special ~ option"
        raise Invalid(f"ERR syntax error, {text}", field="limit")


def _check_fields(fields: tuple[bytes, ...], index: int) -> None:
    if not fields or len(fields) % 2:
        text = "ERR wrong number of arguments for 'xadd' command"
        raise Invalid(text, field=f"entries[{index}].fields")
    if sum(map(len, fields)) > ENTRY_BYTES_MAX:
        raise Invalid("ERR Elements are too large to be stored", field=f"entries[{index}].fields")


def _next_id(request: IdRequest, last_id: EntryId, now_ms: int, index: int) -> EntryId:
    if request == MIN_ID:
        text = "ERR The ID specified in XADD must be greater than 0-0"
        raise IdNotGreater(text, last_id=last_id, index=index)
    if last_id == MAX_ID:
        raise IdsExhausted
    if request is None:
        # Redis: when the clock stands still or steps back, the sequence goes on.
        return EntryId(now_ms, 0) if now_ms > last_id.ms else last_id.next()
    if isinstance(request, PartialId):
        wanted = EntryId(request.ms, 0)
        if request.ms == last_id.ms and last_id.seq < U64_MAX:
            wanted = last_id.next()
    else:
        wanted = request
    if wanted <= last_id:
        text = "ERR The ID specified in XADD is equal or smaller than the target stream top item"
        raise IdNotGreater(text, last_id=last_id, index=index)
    return wanted


def _trims_after(
    keyspace: Keyspace,
    stream: Stream,
    appended: Sequence[Entry],
    trim: TrimRequest | None,
    now_ms: int,
) -> list[Command]:
    """Return the trims that follow an append, seen before it is applied."""
    cuts = _retention_cuts(stream, appended, stream.config, now_ms)
    if trim is not None:
        cuts.append(_cut(stream.log, trim, keyspace.node_limits, appended))
    return _trim_command(stream.name, cuts)


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
    log: Log, request: TrimRequest, node_limits: NodeLimits, appended: Sequence[Entry] = ()
) -> Cut | None:
    if request.approximate:
        return log.cut_chunks(
            length_max=request.max_length,
            min_id=request.min_id,
            limit=_trim_limit(request.limit, node_limits),
            appended=appended,
            node_limits=node_limits,
        )
    if request.max_length is not None:
        return log.cut_to_length(request.max_length, appended)
    assert request.min_id is not None
    return log.cut_below(request.min_id, appended)


def _trim_limit(limit: int | None, node_limits: NodeLimits) -> int | None:
    if limit is None:
        per_chunk = node_limits.entries_max if node_limits.entries_max > 0 else CHUNK_ENTRIES_MAX
        limit = TRIM_CHUNKS_DEFAULT * per_chunk
    return min(limit, TRIM_ENTRIES_MAX) or None  # Redis: LIMIT 0 is no limit


def _trim_command(name: bytes, cuts: Sequence[Cut | None]) -> list[Command]:
    through = [cut.through for cut in cuts if cut is not None]
    return [Trim(name, max(through))] if through else []
