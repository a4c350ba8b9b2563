"""Decisions about group reads: what a consumer of a group receives (XREADGROUP)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from heapq import merge
from itertools import islice, takewhile
from typing import NamedTuple

from msgspec.structs import replace

from headgate.engine.commands import (
    Command,
    ConsumerSeen,
    EntriesDelivered,
    EntriesRedelivered,
)
from headgate.engine.decisions import Decision, Decisions, Unclaimable
from headgate.engine.entry import MAX_ID, EntryId, Fields
from headgate.engine.errors import Invalid
from headgate.engine.limits import CLAIM_SCAN_MAX, COUNT_MAX, GROUP_READ_MAX
from headgate.engine.replies import Delivery, GroupRead, GroupState
from headgate.engine.requests.deliveries import GroupCursor, ReadGroup
from headgate.engine.room import ReadRoom, ReplyRoom
from headgate.engine.state.extents.missing import require_each
from headgate.engine.state.group import Group
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.pending import Consumer, Pel, PendingEntry
from headgate.engine.state.stream import Stream


def read_group(keyspace: Keyspace, request: ReadGroup, now_ms: int) -> Decision[list[GroupRead]]:
    """Decide a group read, without waiting; reply with one `GroupRead` per cursor, served or not.

    Raises:
        Invalid: the request acknowledges entries first, and this needs a decision of its own.
    """
    if request.acked:
        raise Invalid("a read that acknowledges is asked for by itself", location=("acked",))
    groups = groups_in_read(keyspace, request)
    reads: list[GroupRead] = []
    commands: list[Command] = []
    unclaimable: list[Unclaimable] = []
    left = None if request.budget is None else ReplyRoom(request.budget)
    limit = request.limit
    if keyspace.memory.cold_bytes:
        require_each(_needs(keyspace, groups, request, now_ms))
    for cursor in request.cursors:
        group, stream = groups[cursor.stream], keyspace.stream(cursor.stream)
        if left is not None:
            request = replace(request, limit=left.limit(limit))
        read, command, gone = read_stream(stream, group, request, cursor, now_ms)
        if left is not None:
            with_idle = request.claim_idle_ms is not None and cursor.after is None
            taken = left.take(read.deliveries, with_idle=with_idle)
            if taken < len(read.deliveries):  # decide again, to deliver only what is in the reply
                less = replace(request, limit=taken)
                read, command, _ = read_stream(stream, group, less, cursor, now_ms)
        reads.append(read)
        commands.append(command)
        unclaimable += gone
        if len(groups) < len(request.cursors):  # a stream is named twice
            group.note(command)
        if cursor.after is not None:
            # Redis: after a stream that is read as history, the streams that follow claim nothing.
            request = replace(request, claim_idle_ms=None, claim_released=False)
    return Decision(reads, commands, None, unclaimable)


_NEWCOMER = Consumer(b"", 0)
"""Stands for a consumer that does not exist yet and so holds nothing."""


class GroupInRead:
    """A group as the consumer finds it after the earlier cursors of the same read are applied.

    Redis serves the streams of a read one by one. If a stream is named twice, the second cursor
    gets what the first has left.
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
        """Start with the present group of a stream."""
        self.clock_set_ms = clock_set_ms
        self._consumer = group.consumers.get(consumer) or _NEWCOMER
        self.pel = group.pel  # as before the read
        self.policy = group.policy.on(stream)
        self.last_id = group.last_id
        self.entries_read = group.entries_read
        self.counts: dict[EntryId, int] = {}  # delivery counts of what this read delivers
        self.gained: set[EntryId] = set()  # ids that the consumer did not hold before

    @property
    def held_count(self) -> int:
        """Return how many entries the consumer holds."""
        return len(self._consumer.pending) + len(self.gained)

    def held_before(self, ids: Collection[EntryId]) -> set[EntryId]:
        """Return those of the ids that the consumer held before the read."""
        find, top = self.pel.by_id.get, self._consumer.pending.top
        entries = (
            find(entry_id) for entry_id in ids if entry_id <= top
        )  # new ids are mostly above
        return {
            entry.id for entry in entries if entry is not None and entry.owner is self._consumer
        }

    def note(self, command: Command) -> None:
        """Take into account the command that was decided for a cursor."""
        if isinstance(command, EntriesRedelivered):
            self._count_one_more(command.ids)
        elif isinstance(command, EntriesDelivered):
            self._count_one_more(command.claimed)
            self.counts.update(dict.fromkeys(command.delivered, 1))
            pending = {*command.claimed, *command.delivered}
            self.gained |= pending - self.held_before(pending)
            self.last_id, self.entries_read = command.last_id, command.entries_read

    def held_after(self, after: EntryId) -> Iterator[EntryId]:
        """Yield the ids above `after` that the consumer holds, in order."""
        if after == MAX_ID:
            return iter(())
        before = (pending.id for pending in self._consumer.pending.walk(after.next()))
        return merge(before, sorted(entry_id for entry_id in self.gained if entry_id > after))

    def may_hold_all(self, after: EntryId, max_pending: int) -> bool:
        """Tell without counting whether all entries above `after` are within `max_pending`.

        This is so if the consumer holds fewer than `max_pending` entries, or exactly as many and at
        least one of them above `after`.
        """
        held = self.held_count
        if held == max_pending:
            return next(iter(self.held_after(after)), None) is not None
        return held < max_pending

    def held_through(self, end: EntryId, limit: int) -> int:
        """Return how many entries up to `end` the consumer holds.

        The entries that it held before the read are counted up to `limit`.
        """
        through = takewhile(lambda pending: pending.id <= end, self._consumer.pending.walk())
        return sum(1 for _ in islice(through, limit)) + sum(
            entry_id <= end for entry_id in self.gained
        )

    def _count_one_more(self, ids: Sequence[EntryId]) -> None:
        for entry_id in ids:
            count = self.counts.get(entry_id) or self.pel.by_id[entry_id].delivery_count
            self.counts[entry_id] = min(count + 1, COUNT_MAX)


def groups_in_read(keyspace: Keyspace, request: ReadGroup) -> dict[bytes, GroupInRead]:
    """Return the groups of a read by stream, as they are now.

    Raises:
        GroupNotFound: a stream has no such group; the error names the first.
        LimitReached: the consumer is new, and a group has as many consumers as it may have.
    """
    groups: dict[bytes, GroupInRead] = {}
    for stream, _ in request.cursors:
        group = keyspace.group(stream, request.group)
        keyspace.bounds.check_consumer(group, request.consumer)
        groups[stream] = GroupInRead(stream, group, request.consumer, keyspace.clock_set_ms)
    return groups


class StreamDecision(NamedTuple):
    """The decision about one cursor of a group read."""

    read: GroupRead
    command: Command
    unclaimable: Sequence[Unclaimable] = ()  # as of a `Decision`


def _needs(
    keyspace: Keyspace, groups: Mapping[bytes, GroupInRead], request: ReadGroup, now_ms: int
) -> Iterator[Callable[[], None]]:
    """Yield checks that what the cursors of a read return is in memory."""
    size_bytes_max = request.size_bytes_max
    limit = GROUP_READ_MAX if request.limit is None else min(request.limit, GROUP_READ_MAX)
    for name, after in request.cursors:
        group, log = groups[name], keyspace.stream(name).log
        if not log.extents:
            continue
        if after is not None:
            held = islice(group.held_after(after), limit)
            yield partial(log.require_all, held, size_bytes_max)
            continue
        room = _room(limit, request.max_pending, group.held_count)
        if not room:
            continue
        claimable = _candidates(group, request, now_ms - group.clock_set_ms)
        claimed = (pending.id for pending in islice(claimable, room))
        yield partial(log.require_all, claimed, size_bytes_max)
        left = ReadRoom(size_bytes_max)
        yield partial(log.require_range, group.last_id.next(), MAX_ID, room, left)


def read_stream(
    stream: Stream, group: GroupInRead, request: ReadGroup, cursor: GroupCursor, now_ms: int
) -> StreamDecision:
    """Decide one cursor of a group read; the cursors in `request` are ignored."""
    if request.limit is None or request.limit > GROUP_READ_MAX:
        request = replace(request, limit=GROUP_READ_MAX)
    if cursor.after is None:
        return _read_new(stream, group, request, now_ms)
    return _read_history(stream, group, request, cursor.after, now_ms)


def claimable_at(
    stream: bytes, group: Group, claim_idle_ms: int, spared: bytes | None, steady_ms: int
) -> tuple[int | None, bool]:
    """Return when a read may claim something of a group, if no command changes that.

    Args:
        stream: the stream of the group.
        group: the group that reads.
        claim_idle_ms: the read claims entries that are idle for this long.
        spared: the consumer whose entries the read does not claim; None: it claims all.
        steady_ms: the present steady time.

    Returns:
        The steady time, or None if there is nothing to wait for; and whether this time also holds
            for a read that spares no consumer.
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


def _read_new(
    stream: Stream, group: GroupInRead, request: ReadGroup, now_ms: int
) -> StreamDecision:
    """Decide a consumer's read of one stream (XREADGROUP with `>`).

    1. Compute the room: the limit, and `max_pending` less the number of entries the consumer holds.
    2. Claim pending entries that are idle for long enough, the longest idle first (`_claimable`).
    3. Read entries above the group's position, into the room that is left.
    4. Put both into one command, `EntriesDelivered`. If there is neither, only note that the
       consumer was seen (`ConsumerSeen`).
    5. Reply with the entries, and with the state of the group and the consumer after the read.

    Invariants: no entry is delivered twice in one read. The group's position never decreases. The
    first entry is delivered whatever its size; the others keep within `size_bytes_max`.
    """
    room = _room(request.limit, request.max_pending, group.held_count)
    taken, gone = _claimable(stream, group, request, room, now_ms - group.clock_set_ms)
    room = None if room is None else room - len(taken)
    entries = []
    left = ReadRoom(request.size_bytes_max)
    for claimed in taken:
        left.take(claimed.fields or (), is_first=True)
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
    state = GroupState.MAX_PENDING if full else caught_up
    if stream.closed_at_ms is not None and state is GroupState.CAUGHT_UP and request.by_policy:
        is_settled = not group.pel.by_id and (request.no_ack or not held)
        state = GroupState.CLOSED if is_settled else state
    read = GroupRead(
        stream.name,
        taken + new,
        served=bool(taken or entries) or state is GroupState.CLOSED,
        lag=stream.lag(last_id, entries_read),
        pending_count=held,
        state=state,
    )
    unclaimable = [Unclaimable(stream.name, request.group, gone)] if gone else ()
    return StreamDecision(read, command, unclaimable)


def _read_history(
    stream: Stream, group: GroupInRead, request: ReadGroup, after: EntryId, now_ms: int
) -> StreamDecision:
    deliveries: list[Delivery] = []
    room, left = request.limit, ReadRoom(request.size_bytes_max)
    if request.max_pending is not None and not group.may_hold_all(after, request.max_pending):
        before = group.held_through(after, request.max_pending)
        room = _room(request.limit, request.max_pending, before)
    for entry_id in group.held_after(after):
        if room is not None and len(deliveries) >= room:
            break
        entry = stream.log.get(entry_id)
        if entry is not None and not left.take(entry.fields, is_first=not deliveries):
            break
        fields = None if entry is None else entry.fields
        if entry_id in group.counts:  # an earlier cursor of this read delivers it
            error = group.pel.errors.get(entry_id)
            count = group.counts[entry_id]
            delivered = Delivery(entry_id, fields, 0, count, None, last_error=error)
        else:
            pending, steady_ms = group.pel.by_id[entry_id], now_ms - group.clock_set_ms
            delivered = taken_over(group.pel, pending, fields, request.consumer, steady_ms)
        deliveries.append(delivered)
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
    stream: Stream, group: GroupInRead, request: ReadGroup, limit: int | None, steady_ms: int
) -> tuple[list[Delivery], list[EntryId]]:
    """Return the pending entries that a read claims, and the pending ids without a stream entry.

    1. Walk the pending entries from the longest idle on. Entries without an owner come first.
    2. Stop at the first entry that is not idle for long enough: the entries after it are idle for
       less.
    3. Skip an entry that this read has already delivered, that is about to become a dead letter,
       that the consumer itself holds (unless it claims its own), or whose stream entry is gone.
    4. Stop when the limit is reached or the bytes are used up.

    The walk looks at `CLAIM_SCAN_MAX` entries at most, so that entries which cannot be claimed do
    not make a read slow. The ids without a stream entry are returned so that later reads can skip
    them.
    """
    taken: list[Delivery] = []
    gone: list[EntryId] = []
    if limit == 0:
        return taken, gone
    left = ReadRoom(request.size_bytes_max)
    for pending in _candidates(group, request, steady_ms):
        if len(taken) == limit:
            break
        entry = stream.log.get(pending.id)
        if entry is None:  # Redis: skipped, and left pending
            gone.append(pending.id)
            continue
        if not left.take(entry.fields, is_first=not taken):
            break
        taken.append(taken_over(group.pel, pending, entry.fields, request.consumer, steady_ms))
    return taken, gone


def _candidates(group: GroupInRead, request: ReadGroup, steady_ms: int) -> Iterator[PendingEntry]:
    """Yield the pending entries that a read may claim, whether the stream has them or not."""
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


def taken_over(
    pel: Pel, pending: PendingEntry, fields: Fields | None, consumer: bytes, steady_ms: int
) -> Delivery:
    """Return the delivery of a pending entry to the consumer that takes it over."""
    owner = pending.owner
    return Delivery(
        pending.id,
        fields,
        idle_ms=0 if owner is None else pending.idle_ms(steady_ms),
        delivered_before=pending.delivery_count,
        claimed_from=None if owner is None or owner.name == consumer else owner.name,
        last_error=pel.errors.get(pending.id),
    )


def _room(limit: int | None, max_pending: int | None, held: int) -> int | None:
    if max_pending is None:
        return limit
    room = max(max_pending - held, 0)
    return room if limit is None else min(limit, room)


DECISIONS: Decisions = {
    ReadGroup: read_group,
}
