"""Decisions about deliveries: group reads, acknowledgement, release, claims."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from heapq import merge
from itertools import islice, takewhile
from typing import NamedTuple

from headgate.engine.commands import (
    Command,
    ConsumerSeen,
    EntriesAcked,
    EntriesClaimed,
    EntriesDelayed,
    EntriesDeleted,
    EntriesDelivered,
    EntriesRedelivered,
    EntriesReleased,
    PendingPurged,
)
from headgate.engine.decisions import Decision, Unclaimable, in_parts
from headgate.engine.entry import MAX_ID, MIN_ID, EntryId
from headgate.engine.limits import (
    AUTOCLAIM_MAX,
    AUTOCLAIM_SCAN_FACTOR,
    AUTOCLAIM_SCAN_MAX,
    CLAIM_SCAN_MAX,
    COUNT_MAX,
    GROUP_READ_MAX,
    LOOKUPS_AT_ONCE_MAX,
    SETTLED_AT_ONCE_MAX,
)
from headgate.engine.replies import Claimed, Deletion, Delivery, GroupRead, GroupState, Outcome
from headgate.engine.requests import (
    ClaimRequest,
    GroupCursor,
    GroupRequest,
    NackMode,
    NackRequest,
    References,
)
from headgate.engine.state.group import Group
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.pending import Consumer, PendingEntry
from headgate.engine.state.policy import GroupPolicy
from headgate.engine.state.read_room import ReadRoom
from headgate.engine.state.stream import Stream


def read_group(keyspace: Keyspace, request: GroupRequest, now_ms: int) -> Decision[list[GroupRead]]:
    """Decide a group read; replies one `GroupRead` per cursor, served or not.

    Raises:
        GroupNotFound: for the first stream that has no such group.
        LimitReached: the consumer is new to a group that may have no more.
    """
    groups = groups_in_read(keyspace, request)
    reads: list[GroupRead] = []
    commands: list[Command] = []
    unclaimable: list[Unclaimable] = []
    for cursor in request.cursors:
        group = groups[cursor.stream]
        read, command, gone = read_stream(
            keyspace.stream(cursor.stream), group, request, cursor, now_ms
        )
        reads.append(read)
        commands.append(command)
        unclaimable += gone
        if len(groups) < len(request.cursors):  # a stream is named twice
            group.note(command)
        if cursor.after is not None:
            # Redis: a stream read as history switches claiming off for those that follow.
            request = request._replace(claim_idle_ms=None, claim_released=False)
    return Decision(reads, commands, None, unclaimable)


_NEWCOMER = Consumer(b"", 0)
"""Stands for one that is not there yet, and so holds nothing."""


class GroupInRead:
    """A group as its consumer will find it once the earlier cursors of the same read are applied.

    Redis serves the streams of a read one by one: of one that is named twice, the second cursor
    is given what the first has left.
    """

    __slots__ = (
        "_consumer",
        "clock_set_ms",
        "counts",
        "entries_read",
        "gained",
        "last_id",
        "pel",
        "policy",
    )

    def __init__(self, stream: bytes, group: Group, consumer: bytes, clock_set_ms: int) -> None:
        """Start with the group of a stream as it is."""
        self.clock_set_ms = clock_set_ms
        self._consumer = group.consumers.get(consumer) or _NEWCOMER
        self.pel = group.pel  # as it was before the read
        self.policy = group.policy.on(stream)
        self.last_id = group.last_id
        self.entries_read = group.entries_read
        self.counts: dict[EntryId, int] = {}  # delivery counts of what this read has made pending
        self.gained: set[EntryId] = set()  # those among them it did not hold before

    @property
    def held_count(self) -> int:
        """Return how many entries the consumer holds."""
        return len(self._consumer.pending) + len(self.gained)

    def held_before(self, ids: Collection[EntryId]) -> set[EntryId]:
        """Return which of the ids the consumer has held before the read."""
        find, top = self.pel.by_id.get, self._consumer.pending.top
        found = (find(one) for one in ids if one <= top)  # what is new mostly lies above
        return {one.id for one in found if one is not None and one.owner is self._consumer}

    def note(self, command: Command) -> None:
        """Take account of what was decided for a cursor."""
        if isinstance(command, EntriesRedelivered):
            self._count_one_more(command.ids)
        elif isinstance(command, EntriesDelivered):
            self._count_one_more(command.claimed)
            self.counts.update(dict.fromkeys(command.delivered, 1))
            pending = {*command.claimed, *command.delivered}
            self.gained |= pending - self.held_before(pending)
            self.last_id, self.entries_read = command.last_id, command.entries_read

    def held_after(self, after: EntryId) -> Iterator[EntryId]:
        """Yield what the consumer holds, in order of the ids."""
        if after == MAX_ID:
            return iter(())
        before = (pending.id for pending in self._consumer.pending.walk(after.next()))
        return merge(before, sorted(one for one in self.gained if one > after))

    def may_hold_all(self, after: EntryId, max_pending: int) -> bool:
        """Tell whether it may hold all that it holds, and holds some of it above `after`.

        Then what is above is within the bound, and nothing has to be counted.
        """
        held = self.held_count
        if held == max_pending:
            return next(iter(self.held_after(after)), None) is not None
        return held < max_pending

    def held_through(self, end: EntryId, limit: int) -> int:
        """Return how many entries up to `end` the consumer holds, if fewer than `limit`."""
        through = takewhile(lambda one: one.id <= end, self._consumer.pending.walk())
        return sum(1 for _ in islice(through, limit)) + sum(one <= end for one in self.gained)

    def _count_one_more(self, ids: Sequence[EntryId]) -> None:
        for entry_id in ids:
            count = self.counts.get(entry_id) or self.pel.by_id[entry_id].delivery_count
            self.counts[entry_id] = min(count + 1, COUNT_MAX)


def groups_in_read(keyspace: Keyspace, request: GroupRequest) -> dict[bytes, GroupInRead]:
    """Return the groups of a read as they are, by stream.

    Raises:
        GroupNotFound: for the first stream that has no such group.
        LimitReached: the consumer is new to a group that may have no more.
    """
    found: dict[bytes, GroupInRead] = {}
    for stream, _ in request.cursors:
        group = keyspace.group(stream, request.group)
        keyspace.bounds.check_consumer(group, request.consumer)
        found[stream] = GroupInRead(stream, group, request.consumer, keyspace.clock_set_ms)
    return found


class StreamDecision(NamedTuple):
    """What is decided for one cursor of a group read."""

    read: GroupRead
    command: Command
    unclaimable: Sequence[Unclaimable] = ()  # as of a `Decision`


def read_stream(
    stream: Stream, group: GroupInRead, request: GroupRequest, cursor: GroupCursor, now_ms: int
) -> StreamDecision:
    """Decide one cursor of a group read; those of `request` are not looked at."""
    if request.limit is None or request.limit > GROUP_READ_MAX:
        request = request._replace(limit=GROUP_READ_MAX)
    if cursor.after is None:
        return _read_new(stream, group, request, now_ms)
    return _read_history(stream, group, request, cursor.after, now_ms)


def ack(
    keyspace: Keyspace, stream: bytes, group: bytes, ids: Sequence[EntryId], consumer: bytes | None
) -> Decision[list[Outcome]]:
    """Decide to acknowledge (XACK); fenced when a consumer is named: others' entries stay theirs.

    Raises:
        GroupNotFound: there is no such group.
    """
    if len(ids) > SETTLED_AT_ONCE_MAX:
        return in_parts(
            keyspace,
            0,
            ids,
            SETTLED_AT_ONCE_MAX,
            lambda k, some, _: ack(k, stream, group, some, consumer),
        )
    pel = keyspace.group(stream, group).pel
    outcomes = _fence(pel.by_id.get, ids, consumer, Outcome.ACKED)
    acked: dict[EntryId, None] = {}
    for index, entry_id in enumerate(ids):
        if outcomes[index] is Outcome.ACKED and entry_id in acked:
            outcomes[index] = Outcome.NOT_PENDING  # named twice: pending the first time only
        elif outcomes[index] is Outcome.ACKED:
            acked[entry_id] = None
    return Decision(outcomes, [EntriesAcked(stream, group, list(acked))] if acked else [])


def ack_through(
    keyspace: Keyspace, stream: bytes, group: bytes, consumer: bytes, seen: EntryId
) -> Decision[None]:
    """Decide to acknowledge what a consumer holds up to an id, if that was delivered no later.

    The last of many deliveries vouches for those before it. A lower id alone does not: what was
    claimed comes late. Nor does an earlier delivery: a consumer that comes again is shown what it
    holds by id, and what it has not been shown yet was delivered before.

    Args:
        keyspace: all streams.
        stream: the stream.
        group: the group.
        consumer: who holds them.
        seen: the last that arrived; if it is pending no more, nothing is acknowledged.

    Raises:
        GroupNotFound: there is no such group.
    """
    last = keyspace.group(stream, group).pel.by_id.get(seen)
    if last is None or not last.is_owned_by(consumer):
        return Decision(None, [])
    serial = last.serial

    def part(start: EntryId, keyspace: Keyspace, _: int) -> Decision[None]:
        found = keyspace.group(stream, group).consumers.get(consumer)
        if found is None:
            return Decision(None, [])
        through = takewhile(lambda one: one.id <= seen, found.pending.walk(start))
        looked_at = list(islice(through, SETTLED_AT_ONCE_MAX))
        ids = [one.id for one in looked_at if one.serial <= serial]
        rest = None
        if len(looked_at) == SETTLED_AT_ONCE_MAX:
            rest = partial(part, looked_at[-1].id.next())
        return Decision(None, [EntriesAcked(stream, group, ids)] if ids else [], rest)

    return part(MIN_ID, keyspace, 0)


def ack_and_delete(
    keyspace: Keyspace, name: bytes, group: bytes, ids: Sequence[EntryId], references: References
) -> Decision[list[Deletion]]:
    """Decide to acknowledge entries and delete them too (XACKDEL); replies per id.

    An id that is not pending in the group is left alone. A missing stream or group has none.
    """
    if len(ids) > LOOKUPS_AT_ONCE_MAX:
        return in_parts(
            keyspace,
            0,
            ids,
            LOOKUPS_AT_ONCE_MAX,
            lambda k, some, _: ack_and_delete(k, name, group, some, references),
        )
    stream = keyspace.find(name)
    found = stream.groups.get(group) if stream is not None else None
    if stream is None or found is None:
        return Decision([Deletion.NOT_FOUND] * len(ids), [])
    acked: dict[EntryId, None] = {}
    deleted: list[EntryId] = []
    reply = []
    for entry_id in ids:
        if entry_id in acked or entry_id not in found.pel.by_id:
            reply.append(Deletion.NOT_FOUND)
            continue
        acked[entry_id] = None
        alive = stream.log.get(entry_id) is not None
        is_kept = references is References.ACKED and stream.is_referenced(entry_id, but_by=found)
        if alive and is_kept:
            reply.append(Deletion.REFERENCED)
            continue
        reply.append(Deletion.DELETED)
        if alive:
            deleted.append(entry_id)
    commands: list[Command] = [EntriesAcked(name, group, list(acked))] if acked else []
    if references is References.DELETE and acked:
        commands.append(PendingPurged(name, list(acked)))
    if deleted:
        commands.append(EntriesDeleted(name, deleted))
    return Decision(reply, commands)


def nack(
    keyspace: Keyspace,
    name: bytes,
    group: bytes,
    ids: Sequence[EntryId],
    request: NackRequest,
    consumer: bytes | None,
    now_ms: int,
) -> Decision[list[Outcome]]:
    """Decide to give deliveries back (XNACK); fenced as `ack` is.

    What has failed rests for as long as the group's policy says, if the request says nothing.

    Raises:
        GroupNotFound: there is no such group.
    """
    if len(ids) > LOOKUPS_AT_ONCE_MAX:
        return in_parts(
            keyspace,
            now_ms,
            ids,
            LOOKUPS_AT_ONCE_MAX,
            lambda k, some, now: nack(k, name, group, some, request, consumer, now),
        )
    pel = keyspace.group(name, group).pel
    log = keyspace.stream(name).log
    outcomes = _fence(pel.by_id.get, ids, consumer, Outcome.RELEASED)
    counts: dict[EntryId, int] = {}
    for index, entry_id in enumerate(ids):
        pending = pel.by_id.get(entry_id)
        if pending is None and request.force and log.get(entry_id) is not None:
            outcomes[index] = Outcome.RELEASED
        if outcomes[index] is Outcome.RELEASED:  # Redis: an id named twice is given back twice
            before = 0 if pending is None else pending.delivery_count
            counts[entry_id] = _count_after_nack(counts.pop(entry_id, before), request)
    policy = keyspace.group(name, group).policy.on(name)
    rests = {entry_id: _rest_ms(request, policy, count) for entry_id, count in counts.items()}
    released = [(one, count) for one, count in counts.items() if not rests[one]]
    resting = [
        (one, count, min(now_ms + rests[one], COUNT_MAX))
        for one, count in counts.items()
        if rests[one]
    ]
    commands: list[Command] = [EntriesReleased(name, group, released)] if released else []
    return Decision(
        outcomes, [*commands, *([EntriesDelayed(name, group, resting)] if resting else [])]
    )


def _rest_ms(request: NackRequest, policy: GroupPolicy, count: int) -> int:
    if policy.is_spent(count):  # a rest comes before a delivery, and there is none
        return 0
    if request.delay_ms is not None:
        return request.delay_ms
    return policy.delay_ms(count) if request.mode is NackMode.FAIL else 0


def give_back(
    keyspace: Keyspace,
    stream: bytes,
    group: bytes,
    consumer: bytes,
    counts: Mapping[EntryId, int],
) -> Decision[None]:
    """Decide to undo deliveries nobody received, or nobody settled (XNACK SILENT).

    An entry that was delivered again since, to whomever, is left alone.

    Args:
        keyspace: all streams.
        stream: the stream.
        group: the group.
        consumer: to whom they were delivered.
        counts: their delivery counts, the delivery that is undone included.
    """
    if len(counts) > SETTLED_AT_ONCE_MAX:
        ids, counts = [*counts], dict(counts)  # no pair of them is worth an object

        def part(keyspace: Keyspace, some: Sequence[EntryId], _: int) -> Decision[None]:
            return give_back(keyspace, stream, group, consumer, {one: counts[one] for one in some})

        return in_parts(keyspace, 0, ids, SETTLED_AT_ONCE_MAX, part, _nothing)
    found = keyspace.find(stream)
    if found is None or group not in found.groups:
        return Decision(None, [])
    pel = found.groups[group].pel.by_id
    released = [
        (entry_id, max(count - 1, 0))
        for entry_id, count in counts.items()
        if (pending := pel.get(entry_id)) is not None
        and pending.is_owned_by(consumer)
        and pending.delivery_count == count
    ]
    return Decision(None, [EntriesReleased(stream, group, released)] if released else [])


def extend(
    keyspace: Keyspace,
    stream: bytes,
    group: bytes,
    ids: Sequence[EntryId],
    consumer: bytes,
    now_ms: int,
) -> Decision[list[Outcome]]:
    """Decide to restart the idle clock of one's own entries (XCLAIM JUSTID).

    Raises:
        GroupNotFound: there is no such group.
    """
    if len(ids) > SETTLED_AT_ONCE_MAX:
        return in_parts(
            keyspace,
            now_ms,
            ids,
            SETTLED_AT_ONCE_MAX,
            lambda k, some, now: extend(k, stream, group, some, consumer, now),
        )
    pel = keyspace.group(stream, group).pel
    outcomes = _fence(pel.by_id.get, ids, consumer, Outcome.EXTENDED)
    for index, entry_id in enumerate(ids):
        pending = pel.by_id.get(entry_id)
        if pending is not None and pending.owner is None:
            outcomes[index] = Outcome.NOT_PENDING
    extended: dict[EntryId, int] = {}
    for entry_id, outcome in zip(ids, outcomes, strict=True):
        if outcome is Outcome.EXTENDED:
            extended.pop(entry_id, None)  # named twice, it goes to the end of its equals twice
            extended[entry_id] = pel.by_id[entry_id].delivery_count
    counts = list(extended.items())
    command = EntriesClaimed(stream, group, consumer, now_ms, now_ms, counts, [], MIN_ID)
    return Decision(outcomes, [command] if counts else [])


def claim(
    keyspace: Keyspace,
    name: bytes,
    group_name: bytes,
    consumer: bytes,
    ids: Sequence[EntryId],
    request: ClaimRequest,
    now_ms: int,
) -> Decision[Claimed]:
    """Decide to take over pending entries by id (XCLAIM).

    Raises:
        GroupNotFound: there is no such group.
        LimitReached: the consumer is new to the group, which may have no more.
    """
    if len(ids) > LOOKUPS_AT_ONCE_MAX:
        return in_parts(
            keyspace,
            now_ms,
            ids,
            LOOKUPS_AT_ONCE_MAX,
            lambda k, some, now: claim(k, name, group_name, consumer, some, request, now),
            _claimed_too,
        )
    group = keyspace.group(name, group_name)
    keyspace.bounds.check_consumer(group, consumer)
    log = keyspace.stream(name).log
    at_ms = max(_delivery_time(request, now_ms), keyspace.clock_set_ms)  # no steady time is below 0
    steady_ms = keyspace.steady_ms(now_ms)
    counts: dict[EntryId, int] = {}
    purged: dict[EntryId, None] = {}
    deliveries: list[Delivery] = []
    for entry_id in ids:
        pending, entry = group.pel.by_id.get(entry_id), log.get(entry_id)
        if entry is None:
            if pending is not None:
                purged[entry_id] = None
        elif entry_id in counts:  # named twice: it was just taken, by us
            if now_ms - at_ms >= request.min_idle_ms:
                count = counts.pop(entry_id)  # and goes to the end of its equals once more
                counts[entry_id] = count_set = _count_after_claim(count, request)
                idle_ms = now_ms - at_ms
                deliveries.append(Delivery(entry_id, entry.fields, idle_ms, count, None, count_set))
        elif pending is None:
            if request.force:
                counts[entry_id] = _count_after_claim(1, request)
                deliveries.append(Delivery(entry_id, entry.fields, 0, 0, None, counts[entry_id]))
        elif pending.is_claimable(steady_ms, request.min_idle_ms):
            counts[entry_id] = count_set = _count_after_claim(pending.delivery_count, request)
            deliveries.append(_taken(pending, entry.fields, consumer, steady_ms, count_set))
    last_id = max(request.last_id, group.last_id)
    command = EntriesClaimed(
        name, group_name, consumer, now_ms, at_ms, list(counts.items()), list(purged), last_id
    )
    return Decision(Claimed(deliveries, list(purged), MIN_ID), [command])


def autoclaim(
    keyspace: Keyspace,
    name: bytes,
    group_name: bytes,
    consumer: bytes,
    *,
    min_idle_ms: int,
    start: EntryId,
    limit: int,
    just_id: bool,
    now_ms: int,
) -> Decision[Claimed]:
    """Decide to take over idle entries in id order, a page at a time (XAUTOCLAIM).

    However large the page, it ends with what is not to be waited for; the cursor goes on.

    Raises:
        GroupNotFound: there is no such group.
        LimitReached: the consumer is new to the group, which may have no more.
    """
    group = keyspace.group(name, group_name)
    keyspace.bounds.check_consumer(group, consumer)
    log = keyspace.stream(name).log
    steady_ms = keyspace.steady_ms(now_ms)
    request = ClaimRequest(min_idle_ms, just_id=just_id)
    counts: list[tuple[EntryId, int]] = []
    purged: list[EntryId] = []
    deliveries: list[Delivery] = []
    scan = group.pel.walk(start)
    limit = min(limit, AUTOCLAIM_MAX)
    for _ in range(min(limit * AUTOCLAIM_SCAN_FACTOR, AUTOCLAIM_SCAN_MAX)):
        # Redis: ids that are gone count towards the page as well.
        if len(deliveries) + len(purged) == limit or (pending := next(scan, None)) is None:
            break
        entry = log.get(pending.id)
        if entry is None:
            purged.append(pending.id)
        elif pending.is_claimable(steady_ms, min_idle_ms):
            count = _count_after_claim(pending.delivery_count, request)
            counts.append((pending.id, count))
            deliveries.append(_taken(pending, entry.fields, consumer, steady_ms, count))
    following = next(scan, None)
    command = EntriesClaimed(
        name, group_name, consumer, now_ms, now_ms, counts, purged, group.last_id
    )
    next_start = MIN_ID if following is None else following.id
    return Decision(Claimed(deliveries, purged, next_start), [command])


def claimable_at(
    stream: bytes, group: Group, claim_idle_ms: int, spared: bytes | None, steady_ms: int
) -> tuple[int | None, bool]:
    """Return when a read may claim something of a group, if nothing happens before.

    Args:
        stream: of which it reads.
        group: as a consumer of it.
        claim_idle_ms: it claims what is idle for so long.
        spared: whose entries it does not claim.
        steady_ms: steady time.

    Returns:
        Steady time, or None if there is nothing to wait for; and whether the same holds for a read
        that spares nobody.
    """
    found: list[PendingEntry] = []
    is_for_all = True
    policy = group.policy.on(stream)
    for pending in islice(group.pel.longest_idle_first(steady_ms), CLAIM_SCAN_MAX):
        if spared is not None and pending.is_owned_by(spared):
            is_for_all = False
            continue
        is_claimable = pending.is_claimable(steady_ms, claim_idle_ms)
        if is_claimable and policy.is_spent(pending.delivery_count):
            continue
        found.append(pending)
        break
    resting = group.pel.first_delayed()
    if resting is not None:
        found.append(resting)
    return min((one.claimable_at_ms(claim_idle_ms) for one in found), default=None), is_for_all


def _read_new(
    stream: Stream, group: GroupInRead, request: GroupRequest, now_ms: int
) -> StreamDecision:
    """Decide what of one stream a consumer is given (XREADGROUP with `>`).

    1. Count the room: the limit, and what `max_pending` leaves above what the consumer holds.
    2. Take pending entries that are idle for long enough, the longest idle first (`_claimable`).
    3. Read what is above the group's position, for the room that is left.
    4. Make one command of both, `Deliver`; without either the consumer is only seen.
    5. Tell what is given, and how group and consumer stand after it.

    No entry is given twice in one read. The group's position never falls. The first entry is given
    whatever its size; all others keep within `size_bytes_max`.
    """
    room = _least(request.limit, request.max_pending, group.held_count)
    taken, gone = _claimable(stream, group, request, room, now_ms - group.clock_set_ms)
    room = None if room is None else room - len(taken)
    entries = []
    left = ReadRoom(request.size_bytes_max)
    for one in taken:
        left.take(one.fields or (), is_first=True)
    is_full = room == 0 or (bool(taken) and left.is_spent)
    if stream.log.last_id > group.last_id and not is_full:
        entries = stream.log.range(group.last_id.next(), MAX_ID, room, left)
    last_id = entries[-1].id if entries else group.last_id
    entries_read = stream.entries_read_after(group.last_id, group.entries_read, entries)
    names = stream.name, request.group, request.consumer
    command: Command = ConsumerSeen(*names, now_ms)
    if taken or entries:
        command = EntriesDelivered(
            *names,
            now_ms,
            claimed=[delivery.id for delivery in taken],
            delivered=[] if request.no_ack else [entry.id for entry in entries],
            last_id=last_id,
            entries_read=entries_read,
        )
    new = [Delivery(entry.id, entry.fields, 0, 0, None) for entry in entries]
    caught_up = GroupState.CAUGHT_UP if last_id >= stream.log.last_id else GroupState.LIVE
    pending = {delivery.id for delivery in (taken if request.no_ack else taken + new)}
    pending.difference_update(group.gained)
    held = group.held_count + len(pending) - len(group.held_before(pending))
    full = request.max_pending is not None and held >= request.max_pending
    read = GroupRead(
        stream.name,
        taken + new,
        served=bool(taken or entries),
        lag=stream.lag(last_id, entries_read),
        pending_count=held,
        state=GroupState.MAX_PENDING if full else caught_up,
    )
    unclaimable = [Unclaimable(stream.name, request.group, gone)] if gone else ()
    return StreamDecision(read, command, unclaimable)


def _read_history(
    stream: Stream, group: GroupInRead, request: GroupRequest, after: EntryId, now_ms: int
) -> StreamDecision:
    deliveries: list[Delivery] = []
    room, left = request.limit, ReadRoom(request.size_bytes_max)
    if request.max_pending is not None and not group.may_hold_all(after, request.max_pending):
        before = group.held_through(after, request.max_pending)
        room = _least(request.limit, request.max_pending, before)
    for entry_id in group.held_after(after):
        if room is not None and len(deliveries) >= room:
            break
        entry = stream.log.get(entry_id)
        if entry is not None and not left.take(entry.fields, is_first=not deliveries):
            break
        fields = None if entry is None else entry.fields
        if entry_id in group.counts:  # this read has just delivered it
            one = Delivery(entry_id, fields, 0, group.counts[entry_id], None)
        else:
            pending, steady_ms = group.pel.by_id[entry_id], now_ms - group.clock_set_ms
            one = _taken(pending, fields, request.consumer, steady_ms)
        deliveries.append(one)
    live = [delivery.id for delivery in deliveries if delivery.fields is not None]
    names = stream.name, request.group, request.consumer
    command: Command = ConsumerSeen(*names, now_ms)
    if live:
        command = EntriesRedelivered(*names, now_ms, live)
    read = GroupRead(
        stream.name,
        deliveries,
        served=room != 0,
        lag=stream.lag(group.last_id, group.entries_read),
        pending_count=group.held_count,
        state=GroupState.MAX_PENDING if room == 0 else GroupState.LIVE,
    )
    return StreamDecision(read, command)


def _claimable(
    stream: Stream, group: GroupInRead, request: GroupRequest, limit: int | None, steady_ms: int
) -> tuple[list[Delivery], list[EntryId]]:
    """Return what a read takes over of what is pending, and the ids it has met that are gone.

    1. Walk the pending entries from the longest idle on; those that nobody owns come first.
    2. End at the first that is not idle enough: those behind it are idle for less.
    3. Leave out what this read has given already, what is about to become a dead letter, what the
       consumer holds itself (unless it claims its own), and what is gone from the stream.
    4. End when the limit is reached, or the room is taken.

    It looks at `CLAIM_SCAN_MAX` entries at most, so that entries which nobody can have do not make
    a read long. What is gone from the stream is told, so that the next reads need not meet it.
    """
    taken: list[Delivery] = []
    gone: list[EntryId] = []
    idle_ms_min = request.idle_ms_min
    if idle_ms_min is None or limit == 0:
        return taken, gone
    left = ReadRoom(request.size_bytes_max)
    for pending in islice(group.pel.longest_idle_first(steady_ms), CLAIM_SCAN_MAX):
        if pending.id in group.counts:  # Redis: a read claims an entry once
            continue
        if not pending.is_claimable(steady_ms, idle_ms_min) or len(taken) == limit:
            break
        if group.policy.is_spent(pending.delivery_count):  # it is about to be a dead letter
            continue
        if not request.claim_own and pending.is_owned_by(request.consumer):
            continue
        entry = stream.log.get(pending.id)
        if entry is None:  # Redis: skipped, and left pending
            gone.append(pending.id)
            continue
        if not left.take(entry.fields, is_first=not taken):
            break
        taken.append(_taken(pending, entry.fields, request.consumer, steady_ms))
    return taken, gone


def _taken(
    pending: PendingEntry,
    fields: tuple[bytes, ...] | None,
    consumer: bytes,
    steady_ms: int,
    count_set: int | None = None,
) -> Delivery:
    owner = pending.owner
    return Delivery(
        pending.id,
        fields,
        idle_ms=0 if owner is None else pending.idle_ms(steady_ms),
        delivered_before=pending.delivery_count,
        claimed_from=None if owner is None or owner.name == consumer else owner.name,
        count_set=count_set,
    )


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
    """Join the replies of parts that have none."""


def _claimed_too(before: Claimed, more: Claimed) -> Claimed:
    before.deliveries.extend(more.deliveries)
    before.deleted_ids.extend(more.deleted_ids)
    return before


def _least(limit: int | None, max_pending: int | None, held: int) -> int | None:
    if max_pending is None:
        return limit
    room = max(max_pending - held, 0)
    return room if limit is None else min(limit, room)


def _delivery_time(request: ClaimRequest, now_ms: int) -> int:
    at_ms = now_ms
    if request.time_ms is not None:
        at_ms = request.time_ms
    elif request.idle_ms is not None:
        at_ms = now_ms - request.idle_ms
    return at_ms if 0 <= at_ms <= now_ms else now_ms  # Redis: nonsense becomes now


def _count_after_claim(count: int, request: ClaimRequest) -> int:
    if request.retry_count is not None:
        return request.retry_count
    return count if request.just_id else min(count + 1, COUNT_MAX)


def _count_after_nack(count: int, request: NackRequest) -> int:
    if request.retry_count is not None:
        return request.retry_count
    if request.mode is NackMode.FATAL:
        return COUNT_MAX
    return max(count - 1, 0) if request.mode is NackMode.SILENT else count
