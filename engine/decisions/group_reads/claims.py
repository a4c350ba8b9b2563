"""Claims: pending entries that a group read takes over, and when there will be some."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from headgate.engine.config import GroupPolicy
from headgate.engine.decisions.group_reads.group_in_read import GroupInRead
from headgate.engine.entry import EntryId, Fields
from headgate.engine.limits import CLAIM_SCAN_MAX, HELD_AT_ONCE_MAX, KEY_AHEAD_DEFAULT
from headgate.engine.replies import Delivery
from headgate.engine.requests.deliveries import ReadGroup
from headgate.engine.room import ReadRoom
from headgate.engine.state.group import Group, Pace
from headgate.engine.state.pending import Pel, PendingEntry
from headgate.engine.state.stream import Stream


def claimable_at(
    stream: bytes, group: Group, claim_idle_ms: int, spared: bytes | None, steady_ms: int
) -> tuple[int | None, bool]:
    """Return when a read may claim something of a group, if no command changes that.

    `spared` is the consumer whose entries the read does not claim; None: it claims all. Returns the
    steady time, None if there is nothing to wait for; and whether it holds for a read that spares
    no consumer, too.
    """
    candidates: list[PendingEntry] = []
    is_for_all = True
    policy = group.policy.on(stream)
    for pending in islice(group.pel.longest_idle_first(steady_ms), CLAIM_SCAN_MAX):
        if spared is not None and pending.is_owned_by(spared):
            is_for_all = False
            continue
        is_claimable = pending.is_claimable(steady_ms, claim_idle_ms)
        if is_claimable and policy.is_spent(pending.delivery_count):
            continue
        candidates.append(pending)
        break
    resting = group.pel.first_delayed()
    if resting is not None:
        candidates.append(resting)
    return min(
        (candidate.claimable_at_ms(claim_idle_ms) for candidate in candidates), default=None
    ), is_for_all


def allowed_at(
    stream: Stream, group: Group, claimable_at_ms: int | None, steady_ms: int, clock_set_ms: int
) -> int | None:
    """Return when the rules let a read get something, if no command changes that.

    All times are steady; None: the read may never claim, or there is nothing to wait for.
    """
    may_read = group.is_ready or (
        stream.log.last_id > group.last_id and not is_key_blocked(group, group.policy)
    )
    has_ready = group.pel.turns is not None and group.pel.turns.has_ready
    times = [] if claimable_at_ms is None else [claimable_at_ms]
    if group.pel.turns is not None and group.pel.turns.next_due_ms is not None:
        times.append(group.pel.turns.next_due_ms)
    at_ms = steady_ms if may_read or has_ready else min(times, default=None)
    if at_ms is None:
        return None
    pace, paused_until_ms = Pace.of(group.policy), group.policy.paused_until_ms
    if pace is not None:
        at_ms = max(at_ms, pace.free_at_ms(group.rate_used_ms))
    if paused_until_ms is not None:
        at_ms = max(at_ms, paused_until_ms - clock_set_ms)
    return at_ms


def is_key_blocked(group: Group, policy: GroupPolicy) -> bool:
    """Tell whether a group holds back as many entries as it may."""
    if group.ahead is not None:
        return len(group.ahead) >= policy.ahead_max
    if policy.key_field is None:
        return False
    return group.pel.held_count >= (policy.key_ahead_max or KEY_AHEAD_DEFAULT)


def claimed_by(
    stream: Stream, group: GroupInRead, request: ReadGroup, limit: int | None, steady_ms: int
) -> tuple[list[Delivery], list[EntryId]]:
    """Return the pending entries that a read claims, and the pending ids without a stream entry.

    1. Walk the pending entries from the longest idle on. Entries without an owner come first.
    2. Stop at the first entry that is not idle for long enough: those after it are idle for less.
    3. Skip an entry that this read has already delivered, that is about to become a dead letter,
       that the consumer itself holds (unless it claims its own), or whose stream entry is gone.
    4. Stop when the limit is reached or the bytes are used up.

    The walk looks at `CLAIM_SCAN_MAX` entries at most, so that entries which cannot be claimed do
    not make a read slow. Later reads can skip the ids without a stream entry.
    """
    taken: list[Delivery] = []
    gone: list[EntryId] = []
    if limit == 0:
        return taken, gone
    left = ReadRoom(request.size_bytes_max)
    for pending in candidates(group, request, steady_ms):
        if len(taken) == limit:
            break
        if group.is_over(pending.id, steady_ms):  # it is about to be settled
            continue
        entry = stream.log.get(pending.id)
        if entry is None:  # Redis: skipped, and left pending
            gone.append(pending.id)
            continue
        if not left.take(entry.fields, is_first=not taken):
            break
        taken.append(taken_over(group.pel, pending, entry.fields, request.consumer, steady_ms))
    return taken, gone


def candidates(group: GroupInRead, request: ReadGroup, steady_ms: int) -> Iterator[PendingEntry]:
    """Yield what a read may claim, in the stream or not; held entries whose turn has come first."""
    turns = group.pel.turns if request.by_policy else None
    for entry_id in () if turns is None else islice(turns.ready(), HELD_AT_ONCE_MAX):
        yield group.pel.by_id[entry_id]
    idle_ms_min = request.idle_ms_min
    if idle_ms_min is None:
        return
    for pending in islice(group.pel.longest_idle_first(steady_ms), CLAIM_SCAN_MAX):
        if pending.id in group.counts:  # Redis: a read claims an entry only once
            continue
        if not pending.is_claimable(steady_ms, idle_ms_min):
            return
        if group.policy.is_spent(pending.delivery_count):  # it is about to become a dead letter
            continue
        if request.claim_own or not pending.is_owned_by(request.consumer):
            yield pending


def with_times(stream: Stream, delivery: Delivery, clock_set_ms: int) -> Delivery:
    times = stream.times_of(delivery.id)
    return delivery if times is None else delivery._replace(times=times.later_by(clock_set_ms))


def taken_over(
    pel: Pel, pending: PendingEntry, fields: Fields | None, consumer: bytes, steady_ms: int
) -> Delivery:
    owner = pending.owner
    return Delivery(
        pending.id,
        fields,
        idle_ms=0 if owner is None else pending.idle_ms(steady_ms),
        delivered_before=pending.delivery_count,
        claimed_from=None if owner is None or owner.name == consumer else owner.name,
        last_error=pel.errors.get(pending.id),
    )
