"""Decisions about deliveries: acknowledgements, releases, claims."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice, takewhile

from headgate.engine.commands import (
    Command,
    ConsumerDeleted,
    EntriesAcked,
    EntriesClaimed,
    EntriesDelayed,
    EntriesDeleted,
    EntriesReleased,
    ErrorNoted,
    PendingPurged,
)
from headgate.engine.config import GroupPolicy
from headgate.engine.decisions import Decision, Decisions, in_parts
from headgate.engine.decisions.group_reads.claims import taken_over, with_times
from headgate.engine.decisions.trims import deleted_at_once
from headgate.engine.entry import MIN_ID, EntryId, Fields
from headgate.engine.limits import (
    AUTOCLAIM_MAX,
    AUTOCLAIM_SCAN_FACTOR,
    AUTOCLAIM_SCAN_MAX,
    COUNT_MAX,
    LOOKUPS_AT_ONCE_MAX,
    SETTLED_AT_ONCE_MAX,
)
from headgate.engine.replies import Claimed, Deletion, Delivery, Outcome
from headgate.engine.requests.deliveries import (
    Ack,
    AckAndDelete,
    AckThrough,
    Autoclaim,
    Claim,
    Extend,
    GiveBack,
    Nack,
    NackMode,
)
from headgate.engine.requests.entries import References
from headgate.engine.room import ReadRoom
from headgate.engine.state.entries.log import Log
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.pending import PendingEntry


def ack(keyspace: Keyspace, request: Ack, now_ms: int) -> Decision[list[Outcome]]:
    """Decide to acknowledge entries (XACK); with a consumer, only those it owns."""
    part = partial(_ack, request)
    return in_parts(keyspace, now_ms, request.ids, SETTLED_AT_ONCE_MAX, part)


def _ack(
    request: Ack, keyspace: Keyspace, ids: Sequence[EntryId], _: int
) -> Decision[list[Outcome]]:
    stream, group = request.stream, request.group
    pel = keyspace.group(stream, group).pel
    outcomes = _fence(pel.by_id.get, ids, request.consumer, Outcome.ACKED)
    if request.counts is not None:
        for index, entry_id in enumerate(ids):
            pending = pel.by_id.get(entry_id)
            if pending is not None and not _stands(pending, request.counts, ()):
                outcomes[index] = Outcome.CLAIMED
    done = Outcome.ACKED
    acked = [entry_id for entry_id, outcome in zip(ids, outcomes, strict=True) if outcome is done]
    if len(set(acked)) < len(acked):  # an id given twice counts once
        acked = list(dict.fromkeys(acked))
        left = set(acked)
        for index, entry_id in enumerate(ids):
            if outcomes[index] is done and entry_id not in left:
                outcomes[index] = Outcome.NOT_PENDING
            left.discard(entry_id)
    return Decision(outcomes, [EntriesAcked(stream, group, acked)] if acked else [])


def ack_through(keyspace: Keyspace, request: AckThrough, now_ms: int) -> Decision[None]:
    """Decide to acknowledge what a consumer received up to the entry `seen`.

    The acknowledgement of a delivery covers the deliveries before it. An entry must satisfy two
    conditions:

    - Its id is not greater than `seen`.
    - It was delivered no later than `seen`. A lower id is not enough, because a claimed entry may
      have a low id and still have been delivered later.

    An earlier delivery is not enough either: a consumer that reconnects reads what it holds in
    order of ids, so entries with greater ids that it has not seen yet may have been delivered
    before.
    """
    stream, group = request.stream, request.group
    consumer, seen = request.consumer, request.seen
    last = keyspace.group(stream, group).pel.by_id.get(seen)
    if last is None or not last.is_owned_by(consumer):
        return Decision(None, [])
    serial = last.serial

    def part(start: EntryId, keyspace: Keyspace, _: int) -> Decision[None]:
        holder = keyspace.group(stream, group).consumers.get(consumer)
        if holder is None:
            return Decision(None, [])
        through = takewhile(lambda entry: entry.id <= seen, holder.pending.walk(start))
        looked_at = list(islice(through, SETTLED_AT_ONCE_MAX))
        ids = [entry.id for entry in looked_at if entry.serial <= serial]
        next_part = None
        if len(looked_at) == SETTLED_AT_ONCE_MAX:
            next_part = partial(part, looked_at[-1].id.next())
        return Decision(None, [EntriesAcked(stream, group, ids)] if ids else [], next_part)

    return part(MIN_ID, keyspace, now_ms)


def ack_and_delete(
    keyspace: Keyspace, request: AckAndDelete, now_ms: int
) -> Decision[list[Deletion]]:
    """Decide to acknowledge and delete entries (XACKDEL); those not pending stay as they are."""
    part = partial(_ack_and_delete, request)
    at_once = deleted_at_once(keyspace.find(request.stream), request.references)
    return in_parts(keyspace, now_ms, request.ids, at_once, part)


def _ack_and_delete(
    request: AckAndDelete, keyspace: Keyspace, ids: Sequence[EntryId], _: int
) -> Decision[list[Deletion]]:
    name, references = request.stream, request.references
    stream = keyspace.find(name)
    group = None if stream is None else stream.groups.get(request.group)
    if stream is None or group is None:
        return Decision([Deletion.NOT_FOUND] * len(ids), [])
    acked: dict[EntryId, None] = {}
    deleted: list[EntryId] = []
    reply = []
    stream.log.require_all(ids)
    is_spared = references is References.ACKED
    free = stream.unreferenced(ids, but_by=group) if is_spared else frozenset(ids)
    for entry_id in ids:
        if entry_id in acked or entry_id not in group.pel.by_id:
            reply.append(Deletion.NOT_FOUND)
            continue
        acked[entry_id] = None
        alive = stream.log.has(entry_id)
        if alive and entry_id not in free:
            reply.append(Deletion.REFERENCED)
            continue
        reply.append(Deletion.DELETED)
        if alive:
            deleted.append(entry_id)
    commands: list[Command] = [EntriesAcked(name, group.name, list(acked))] if acked else []
    if references is References.DELETE and acked:
        commands.append(PendingPurged(name, list(acked)))
    if deleted:
        commands.append(EntriesDeleted(name, deleted))
    return Decision(reply, commands)


def nack(keyspace: Keyspace, request: Nack, now_ms: int) -> Decision[list[Outcome]]:
    """Decide to give deliveries back (XNACK); with a consumer, only those it owns.

    A failed entry is delayed by the group's policy, unless the request sets a delay.
    """
    part = partial(_nack, request)
    return in_parts(keyspace, now_ms, request.ids, LOOKUPS_AT_ONCE_MAX, part)


def _nack(
    request: Nack, keyspace: Keyspace, ids: Sequence[EntryId], now_ms: int
) -> Decision[list[Outcome]]:
    name, group = request.stream, request.group
    pel = keyspace.group(name, group).pel
    log = keyspace.stream(name).log
    outcomes = _fence(pel.by_id.get, ids, request.consumer, Outcome.RELEASED)
    counts: dict[EntryId, int] = {}
    if request.force:
        log.require_all(ids)
    for index, entry_id in enumerate(ids):
        pending = pel.by_id.get(entry_id)
        if pending is None and request.force and log.has(entry_id):
            outcomes[index] = Outcome.RELEASED
        elif pending is not None and not _stands(pending, request.counts, counts):
            outcomes[index] = Outcome.CLAIMED
        if outcomes[index] is Outcome.RELEASED:  # Redis: an id given twice is given back twice
            before = 0 if pending is None else pending.delivery_count
            counts[entry_id] = _count_after_nack(counts.pop(entry_id, before), request)
    policy = keyspace.group(name, group).policy.on(name)
    delays = {entry_id: _delay_ms(request, policy, count) for entry_id, count in counts.items()}
    released = [(entry_id, count) for entry_id, count in counts.items() if not delays[entry_id]]
    delayed = [
        (entry_id, count, min(now_ms + delays[entry_id], COUNT_MAX))
        for entry_id, count in counts.items()
        if delays[entry_id]
    ]
    commands: list[Command] = [EntriesReleased(name, group, released)] if released else []
    if delayed:
        commands.append(EntriesDelayed(name, group, delayed))
    if counts and request.error is not None:
        commands.append(ErrorNoted(name, group, list(counts), request.error))
    return Decision(outcomes, commands)


def _stands(
    pending: PendingEntry, counts: Mapping[EntryId, int] | None, released: Container[EntryId]
) -> bool:
    """Tell whether a delivery is the last one, and not given back."""
    if counts is None:
        return True
    is_held = pending.owner is not None and pending.id not in released
    return is_held and pending.delivery_count == counts[pending.id]


def _delay_ms(request: Nack, policy: GroupPolicy, count: int) -> int:
    if policy.is_spent(count):  # it is not delivered again, so a delay has no use
        return 0
    if request.delay_ms is not None:
        return request.delay_ms
    return policy.delay_ms(count) if request.mode is NackMode.FAIL else 0


def give_back(keyspace: Keyspace, request: GiveBack, now_ms: int) -> Decision[None]:
    """Decide to undo deliveries (XNACK SILENT), unless delivered again in the meantime."""
    part = partial(_give_back, request)
    ids = [*request.counts]
    return in_parts(keyspace, now_ms, ids, SETTLED_AT_ONCE_MAX, part, _nothing)


def _give_back(
    request: GiveBack, keyspace: Keyspace, ids: Sequence[EntryId], _: int
) -> Decision[None]:
    stream = keyspace.find(request.stream)
    if stream is None or request.group not in stream.groups:
        return Decision(None, [])
    group, counts = stream.groups[request.group], request.counts
    pel = group.pel.by_id
    released = [
        (entry_id, max(counts[entry_id] - 1, 0))
        for entry_id in ids
        if (pending := pel.get(entry_id)) is not None
        and pending.is_owned_by(request.consumer)
        and pending.delivery_count == counts[entry_id]
    ]
    names = request.stream, request.group
    commands: list[Command] = [EntriesReleased(*names, released)] if released else []
    consumer = group.consumers.get(request.consumer)
    if request.is_temporary and consumer is not None and len(consumer.pending) == len(released):
        commands.append(ConsumerDeleted(*names, consumer.name, release=True))
    return Decision(None, commands)


def extend(keyspace: Keyspace, request: Extend, now_ms: int) -> Decision[list[Outcome]]:
    """Decide to restart the idle time of entries that the consumer owns (XCLAIM JUSTID)."""
    part = partial(_extend, request)
    return in_parts(keyspace, now_ms, request.ids, SETTLED_AT_ONCE_MAX, part)


def _extend(
    request: Extend, keyspace: Keyspace, ids: Sequence[EntryId], now_ms: int
) -> Decision[list[Outcome]]:
    stream, group, consumer = request.stream, request.group, request.consumer
    pel = keyspace.group(stream, group).pel
    outcomes = _fence(pel.by_id.get, ids, consumer, Outcome.EXTENDED)
    for index, entry_id in enumerate(ids):
        pending = pel.by_id.get(entry_id)
        if pending is not None and pending.owner is None:
            outcomes[index] = Outcome.NOT_PENDING
        elif pending is not None and not _stands(pending, request.counts, ()):
            outcomes[index] = Outcome.CLAIMED
    extended: dict[EntryId, int] = {}
    for entry_id, outcome in zip(ids, outcomes, strict=True):
        if outcome is Outcome.EXTENDED:
            extended.pop(entry_id, None)  # an id given twice moves to the end of the order again
            extended[entry_id] = pel.by_id[entry_id].delivery_count
    counts = list(extended.items())
    command = EntriesClaimed(stream, group, consumer, now_ms, now_ms, counts, [], MIN_ID)
    return Decision(outcomes, [command] if counts else [])


def claim(keyspace: Keyspace, request: Claim, now_ms: int) -> Decision[Claimed]:
    part = partial(_claim, request, _ClaimRoom(request.size_bytes_max))
    return in_parts(keyspace, now_ms, request.ids, LOOKUPS_AT_ONCE_MAX, part, _claimed_too)


class _ClaimRoom:
    def __init__(self, size_bytes_max: int | None) -> None:
        self._room = ReadRoom(size_bytes_max)
        self._is_untouched = True
        self.is_over = False

    def take(self, fields: Fields) -> bool:
        """Take in the fields of the next entry; if there is no room, there is none from now on."""
        self.is_over = self.is_over or not self._room.take(fields, is_first=self._is_untouched)
        self._is_untouched = False
        return not self.is_over


def _claim(
    request: Claim, room: _ClaimRoom, keyspace: Keyspace, ids: Sequence[EntryId], now_ms: int
) -> Decision[Claimed]:
    if room.is_over:  # the other ids stay as they are
        return Decision(Claimed([], [], MIN_ID), [])
    stream, consumer = request.stream, request.consumer
    group = keyspace.group(stream, request.group)
    keyspace.bounds.check_consumer(group, consumer)
    log = keyspace.stream(stream).log
    at_ms = max(_delivery_time(request, now_ms), keyspace.clock_set_ms)  # steady time ≥ 0
    steady_ms = keyspace.steady_ms(now_ms)
    counts: dict[EntryId, int] = {}
    purged: dict[EntryId, None] = {}
    deliveries: list[Delivery] = []
    log.require_all(ids)
    for entry_id in ids:
        pending = group.pel.by_id.get(entry_id)
        is_again = entry_id in counts  # an id given twice: this command has just claimed it
        if not log.has(entry_id):
            if pending is not None:
                purged[entry_id] = None
            continue
        if is_again:
            is_claimable = now_ms - at_ms >= request.min_idle_ms
        else:
            is_claimable = _is_claimable(request, pending, steady_ms)
        if not is_claimable:
            continue
        fields = None if request.just_id else _fields_of(log, entry_id)
        if fields is not None and not room.take(fields):
            break
        if is_again:
            idle_ms, before = now_ms - at_ms, counts.pop(entry_id)  # to the end of the order again
            error = group.pel.errors.get(entry_id)
            delivery = Delivery(entry_id, fields, idle_ms, before, None, last_error=error)
        elif pending is None:
            before, delivery = 1, Delivery(entry_id, fields, 0, 0, None)
        else:
            before = pending.delivery_count
            delivery = taken_over(group.pel, pending, fields, consumer, steady_ms)
        count = _count_after_claim(before, request.retry_count, just_id=request.just_id)
        counts[entry_id] = count
        deliveries.append(_timed(keyspace, stream, delivery._replace(count_set=count)))
    last_id = max(request.last_id, group.last_id)
    command = EntriesClaimed(
        stream, group.name, consumer, now_ms, at_ms, list(counts.items()), list(purged), last_id
    )
    return Decision(Claimed(deliveries, list(purged), MIN_ID), [command])


def _is_claimable(request: Claim, pending: PendingEntry | None, steady_ms: int) -> bool:
    if pending is None:
        return request.force
    return pending.is_claimable(steady_ms, request.min_idle_ms)


def autoclaim(keyspace: Keyspace, request: Autoclaim, now_ms: int) -> Decision[Claimed]:
    """Decide to take over idle entries in id order, a page at a time (XAUTOCLAIM).

    A page has at most `AUTOCLAIM_MAX` entries, even if the request asks for more, and ends before
    one that exceeds its bytes. The cursor in the reply tells where to go on.
    """
    stream, consumer = request.stream, request.consumer
    group = keyspace.group(stream, request.group)
    keyspace.bounds.check_consumer(group, consumer)
    log = keyspace.stream(stream).log
    steady_ms = keyspace.steady_ms(now_ms)
    counts: list[tuple[EntryId, int]] = []
    purged: list[EntryId] = []
    deliveries: list[Delivery] = []
    room = _ClaimRoom(request.size_bytes_max)
    scan = group.pel.walk(request.start)
    limit = min(request.limit, AUTOCLAIM_MAX)
    scan_max = min(limit * AUTOCLAIM_SCAN_FACTOR, AUTOCLAIM_SCAN_MAX)
    following: PendingEntry | None = None
    if log.extents:
        walk = islice(group.pel.walk(request.start), scan_max)
        log.require_all(_looked_at(walk, limit, steady_ms, request.min_idle_ms))
    for looked_at, pending in enumerate(scan):
        following = pending
        # Redis: ids without a stream entry count towards the page as well.
        if looked_at == scan_max or len(deliveries) + len(purged) == limit:
            break
        if not log.has(pending.id):
            purged.append(pending.id)
        elif pending.is_claimable(steady_ms, request.min_idle_ms):
            fields = None if request.just_id else _fields_of(log, pending.id)
            if fields is not None and not room.take(fields):
                break
            count = _count_after_claim(pending.delivery_count, None, just_id=request.just_id)
            counts.append((pending.id, count))
            delivery = taken_over(group.pel, pending, fields, consumer, steady_ms)
            deliveries.append(_timed(keyspace, stream, delivery._replace(count_set=count)))
        following = None
    command = EntriesClaimed(
        stream, group.name, consumer, now_ms, now_ms, counts, purged, group.last_id
    )
    next_start = MIN_ID if following is None else following.id
    return Decision(Claimed(deliveries, purged, next_start), [command])


def _timed(keyspace: Keyspace, stream: bytes, delivery: Delivery) -> Delivery:
    return with_times(keyspace.stream(stream), delivery, keyspace.clock_set_ms)


def _looked_at(
    scan: Iterable[PendingEntry], limit: int, steady_ms: int, min_idle_ms: int
) -> Iterator[EntryId]:
    for pending in scan:
        if not limit:
            return
        yield pending.id
        limit -= pending.is_claimable(steady_ms, min_idle_ms)


def _fields_of(log: Log, entry_id: EntryId) -> Fields | None:
    entry = log.get(entry_id)
    return None if entry is None else entry.fields


def _fence(
    find: Callable[[EntryId], PendingEntry | None],
    ids: Sequence[EntryId],
    consumer: bytes | None,
    done: Outcome,
) -> list[Outcome]:
    outcomes = []
    for entry_id in ids:
        pending = find(entry_id)
        if pending is None:
            outcomes.append(Outcome.NOT_PENDING)
        elif consumer is None or pending.owner is None or pending.owner.name == consumer:
            outcomes.append(done)
        else:
            outcomes.append(Outcome.CLAIMED)
    return outcomes


def _nothing(_: None, __: None) -> None:
    """Join replies that are all None."""


def _claimed_too(before: Claimed, more: Claimed) -> Claimed:
    before.deliveries.extend(more.deliveries)
    before.deleted_ids.extend(more.deleted_ids)
    return before


def _delivery_time(request: Claim, now_ms: int) -> int:
    at_ms = now_ms
    if request.time_ms is not None:
        at_ms = request.time_ms
    elif request.idle_ms is not None:
        at_ms = now_ms - request.idle_ms
    return at_ms if 0 <= at_ms <= now_ms else now_ms  # Redis: an impossible time becomes now


def _count_after_claim(count: int, retry_count: int | None, *, just_id: bool) -> int:
    if retry_count is not None:
        return retry_count
    return count if just_id else min(count + 1, COUNT_MAX)


def _count_after_nack(count: int, request: Nack) -> int:
    if request.retry_count is not None:
        return request.retry_count
    if request.mode is NackMode.FATAL:
        return COUNT_MAX
    return max(count - 1, 0) if request.mode is NackMode.SILENT else count


DECISIONS: Decisions = {
    GiveBack: give_back,
    Ack: ack,
    AckThrough: ack_through,
    AckAndDelete: ack_and_delete,
    Nack: nack,
    Extend: extend,
    Claim: claim,
    Autoclaim: autoclaim,
}
