"""Decisions about trims: by request, by the retention of a stream, or to make room in memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from headgate.engine.commands import (
    ArchiveTrimmed,
    Command,
    EntriesEvicted,
    PendingPurged,
    StreamTrimmed,
)
from headgate.engine.config import StreamConfig
from headgate.engine.decisions import Decision, Decisions
from headgate.engine.entry import MAX_ID, MIN_ID, Entry, EntryId
from headgate.engine.limits import (
    CHUNK_ENTRIES_MAX,
    COUNT_MAX,
    LOOKUPS_AT_ONCE_MAX,
    SAMPLED_MAX,
    SETTLED_AT_ONCE_MAX,
    TRIM_CHUNKS_DEFAULT,
    TRIM_ENTRIES_MAX,
    TRIMMED_AT_ONCE,
)
from headgate.engine.requests.entries import References, Trim, TrimArchive, TrimTo, check_trim
from headgate.engine.state.entries.log import Cut, Log
from headgate.engine.state.entries.packed import NodeLimits
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.stream import Stream


def trim(keyspace: Keyspace, request: Trim, now_ms: int) -> Decision[int]:
    """Decide to trim (XTRIM), in parts, what is there at the start; reply how many."""
    check_trim(request.to)
    stream = keyspace.stream(request.stream)
    return _Trimming(request.to, stream).part(0, MIN_ID, keyspace, now_ms)


class _Trimming:
    """A trim, part by part, of the entries that a stream has at the start."""

    def __init__(self, request: TrimTo, stream: Stream) -> None:
        self._name = stream.name
        self._request = request
        self._epoch = stream.epoch
        self._last_id = stream.last_id

    def part(self, removed: int, after: EntryId, keyspace: Keyspace, _: int) -> Decision[int]:
        """Decide the part after an id. The earlier parts have removed `removed` entries."""
        stream = keyspace.find(self._name)
        if stream is None or stream.epoch != self._epoch:  # it was deleted meanwhile
            return Decision(removed, [])
        trimmed = _trim_part(keyspace, stream, self._request, [], after, removed, self._last_id)
        removed += trimmed.removed
        next_part = (
            None if trimmed.reached is None else partial(self.part, removed, trimmed.reached)
        )
        return Decision(removed, trimmed.commands, next_part)


def trim_archive(keyspace: Keyspace, request: TrimArchive, now_ms: int) -> Decision[int]:
    del now_ms
    keyspace.stream(request.stream)
    return _trim_archive(request, 0, keyspace, 0)


def _trim_archive(request: TrimArchive, removed: int, keyspace: Keyspace, _: int) -> Decision[int]:
    stream = keyspace.find(request.stream)
    if stream is None or stream.archive is None or not stream.archive.length:
        return Decision(removed, [])
    cut = stream.archive.cut_below(MAX_ID if request.before is None else request.before)
    if cut is None:
        return Decision(removed, [])
    removed += cut.length
    next_part = None if cut.is_whole else partial(_trim_archive, request, removed)
    return Decision(removed, [ArchiveTrimmed(stream.name, cut.through)], next_part)


def retain(keyspace: Keyspace, stream: bytes, now_ms: int) -> Decision[None]:
    stream_state = keyspace.stream(stream)
    cut = retention_cut(stream_state, [], stream_state.config, now_ms)
    return Decision(None, trim_command(stream, cut))


def trim_oldest(keyspace: Keyspace, after: bytes | None) -> Decision[bytes | None]:
    """Decide to remove the oldest entries of one stream, to make room in memory.

    Like Redis's eviction, it samples streams, and takes the one with the lowest first id. Archived
    entries are older than live ones and go first: so nothing moves to an archive, where it would
    take the same room. The sample follows the name `after` (None: the first streams); the reply is
    where the next one begins, None if no stream follows.
    """
    names = list(islice(keyspace.streams.irange(after, inclusive=(False, True)), SAMPLED_MAX))
    streams = [keyspace.streams[name] for name in names]
    filled = [(stream, log) for stream in streams for log in stream.logs if log.length]
    commands: list[Command] = []
    if filled:
        oldest, log = min(filled, key=lambda each: each[1].first_id)
        at_once = min(TRIMMED_AT_ONCE, removed_at_once(oldest, References.KEEP))
        cut = log.portion(MIN_ID, MAX_ID, at_once)
        commands = trim_command(oldest.name, cut) if log is oldest.log else []
        if cut is not None and (log is not oldest.log or oldest.config.archive):
            commands.append(ArchiveTrimmed(oldest.name, cut.through))
    return Decision(names[-1] if names else None, commands)


def trims_after(
    keyspace: Keyspace, stream: Stream, appended: Sequence[Entry], trim: TrimTo | None, now_ms: int
) -> list[Command]:
    """Return the trims that follow an append; the append is decided but not applied yet."""
    retained = trim_command(stream.name, retention_cut(stream, appended, stream.config, now_ms))
    if trim is None:
        return retained
    # Only one part is done. The next append that trims removes the rest.
    part = _trim_part(keyspace, stream, trim, appended, MIN_ID, 0, MAX_ID)
    return [*part.commands, *retained]


class _TrimPart(NamedTuple):
    removed: int
    commands: list[Command]
    reached: EntryId | None  # where the next part begins; None: this is the last


def _trim_part(
    keyspace: Keyspace,
    stream: Stream,
    request: TrimTo,
    appended: Sequence[Entry],
    after: EntryId,
    removed: int,
    last_id: EntryId,
) -> _TrimPart:
    """Decide one part of a trim.

    `appended` entries are decided but not appended yet. Those up to `after` have been looked at:
    only a trim that spares entries leaves any of them. Those above `last_id` are not trimmed.
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
    cut = _part_of(stream, cut, request.references)
    if request.references is References.DELETE:
        commands = purge(stream, stream.log.ids(MIN_ID, cut.through))
    commands.append(StreamTrimmed(stream.name, cut.through))
    return _TrimPart(cut.length, commands, None if cut.is_whole else cut.through)


def _unneeded(
    stream: Stream,
    request: TrimTo,
    limits: NodeLimits,
    appended: Sequence[Entry],
    after: EntryId,
    removed: int,
    last_id: EntryId,
) -> _TrimPart:
    """Decide one part of a trim that spares entries which groups still need (ACKED).

    Arguments as of `_trim_part`. The walk passes over entries that are still needed, and ends at
    the length or id, or after the first chunk that could not be removed as a whole.
    """
    limit = _trim_limit(request.limit, limits) if request.approximate else None
    length = stream.log.length + len(appended)
    evicted: list[EntryId] = []
    seen_count, at_once = 0, removed_at_once(stream, References.ACKED)
    reached: EntryId | None = None
    for ids in stream.log.nodes(after, appended, limits):
        if limit is not None and removed + len(evicted) + len(ids) > limit:
            break
        if ids[0] > last_id:
            break
        if seen_count >= at_once:
            reached = after
            break
        is_last = not _goes_whole(request, ids, length)
        free = stream.unreferenced(ids)
        for entry_id in ids:
            if _is_reached(request, entry_id, length) or entry_id > last_id:
                break
            if entry_id in free:
                evicted.append(entry_id)
                length -= 1
        if is_last:
            break
        seen_count += len(ids)
        after = ids[-1]
    return _TrimPart(
        len(evicted), [EntriesEvicted(stream.name, evicted)] if evicted else [], reached
    )


def _goes_whole(request: TrimTo, ids: Sequence[EntryId], length: int) -> bool:
    if request.max_length is not None:
        return length - len(ids) >= request.max_length
    return request.min_id is not None and ids[-1] < request.min_id


def _is_reached(request: TrimTo, entry_id: EntryId, length: int) -> bool:
    if request.max_length is not None:
        return length <= request.max_length
    return request.min_id is not None and entry_id >= request.min_id


def purge(stream: Stream, ids: Sequence[EntryId]) -> list[Command]:
    left = dict.fromkeys(ids)
    pending: set[EntryId] = set()
    for group in stream.groups.values():
        if group.pel.by_id:
            pending |= group.pel.by_id.keys() & left.keys()
    purged = [entry_id for entry_id in left if entry_id in pending]
    return [PendingPurged(stream.name, purged)] if purged else []


def retention_cut(
    stream: Stream, appended: Sequence[Entry], config: StreamConfig, now_ms: int
) -> Cut | None:
    cuts: list[Cut | None] = []
    if config.max_length is not None:
        cuts.append(stream.log.cut_to_length(config.max_length, appended))
    if config.max_age_ms is not None:
        oldest = EntryId(max(now_ms - config.max_age_ms, 0), 0)
        cuts.append(stream.log.cut_below(oldest, appended))
    cut = max(filter(None, cuts), key=attrgetter("through"), default=None)
    return None if cut is None else _part_of(stream, cut, References.KEEP)


def removed_at_once(stream: Stream, references: References) -> int:
    """Return how many entries may go in one step: each one is work in several groups.

    Groups without pending entries and without any ahead need nothing, unless they are looked for
    (ACKED). To forget an entry with its turn takes a group four times as long as to settle one, if
    others wait behind it.
    """
    if references is References.ACKED:
        concerned = len(stream.groups)
    else:
        is_kept = references is References.KEEP
        groups = stream.groups_by_key if is_kept else stream.groups.values()
        concerned = sum(1 for group in groups if group.pel.by_id or group.ahead_count)
    return max(SETTLED_AT_ONCE_MAX // (4 * concerned), 1) if concerned else COUNT_MAX


def deleted_at_once(stream: Stream | None, references: References) -> int:
    if stream is None:
        return LOOKUPS_AT_ONCE_MAX
    return min(LOOKUPS_AT_ONCE_MAX, removed_at_once(stream, references))


def _part_of(stream: Stream, cut: Cut, references: References) -> Cut:
    at_once = removed_at_once(stream, references)
    if cut.length <= at_once:
        return cut
    first = stream.log.portion(MIN_ID, cut.through, at_once)
    return cut if first is None else first._replace(is_whole=False)


def _cut(
    log: Log, request: TrimTo, node_limits: NodeLimits, appended: Sequence[Entry], removed: int
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
    # Redis: if references matter, `~` trims exactly; only its limit still counts whole nodes.
    largest = log.cut_chunks(
        length_max=0, min_id=None, limit=limit, appended=appended, node_limits=node_limits
    )
    return (
        min(cut, largest, key=lambda candidate: candidate.through) if largest is not None else None
    )


def _trim_limit(limit: int | None, node_limits: NodeLimits) -> int | None:
    if limit is None:
        per_chunk = node_limits.entries_max if node_limits.entries_max > 0 else CHUNK_ENTRIES_MAX
        limit = TRIM_CHUNKS_DEFAULT * per_chunk
    return min(limit, TRIM_ENTRIES_MAX) or None  # Redis: LIMIT 0 is no limit


def trim_command(stream: bytes, cut: Cut | None) -> list[Command]:
    return [] if cut is None else [StreamTrimmed(stream, cut.through)]


DECISIONS: Decisions = {Trim: trim, TrimArchive: trim_archive}
