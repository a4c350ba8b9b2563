"""Decisions about group reads: what a consumer of a group receives (XREADGROUP)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

from msgspec.structs import replace

from headgate.engine.commands import (
    Command,
    ConsumerSeen,
    EntriesDelayed,
    EntriesDelivered,
    EntriesHeld,
    EntriesPassed,
    EntriesRedelivered,
)
from headgate.engine.decisions import Decision, Decisions, Unclaimable
from headgate.engine.decisions.group_reads.ahead_entries import entries_ahead, indexed, room_of
from headgate.engine.decisions.group_reads.claims import (
    candidates,
    claimed_by,
    taken_over,
    with_times,
)
from headgate.engine.decisions.group_reads.group_in_read import GroupInRead
from headgate.engine.decisions.group_reads.new_entries import NewEntries, new_entries
from headgate.engine.entry import MAX_ID, MIN_ID, EntryId
from headgate.engine.errors import Invalid
from headgate.engine.limits import GROUP_READ_MAX, PASSED_AT_ONCE_MAX, PASSED_BYTES_MAX
from headgate.engine.replies import Delivery, GroupRead, GroupState
from headgate.engine.requests.deliveries import GroupCursor, ReadGroup
from headgate.engine.room import ReadRoom, ReplyRoom
from headgate.engine.state.extent import Missing, require_each
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.stream import Stream


def read_group(keyspace: Keyspace, request: ReadGroup, now_ms: int) -> Decision[list[GroupRead]]:
    """Decide a group read without waiting; Invalid if acks need a decision of their own first."""
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
        read, decided, gone = read_stream(stream, group, request, cursor, now_ms)
        if left is not None:
            with_idle = request.claim_idle_ms is not None and cursor.after is None
            taken = left.take(read.deliveries, with_idle=with_idle)
            if taken < len(read.deliveries):  # decide again, to deliver only what is in the reply
                less = replace(request, limit=taken)
                read, decided, _ = read_stream(stream, group, less, cursor, now_ms)
        reads.append(read)
        commands += decided
        unclaimable += gone
        if len(groups) < len(request.cursors):  # a stream is named twice
            for command in decided:
                group.note(command)
        if cursor.after is not None:
            # Redis: after a stream that is read as history, the streams that follow claim nothing.
            request = replace(request, claim_idle_ms=None, claim_released=False)
    return Decision(reads, commands, None, unclaimable)


def groups_in_read(keyspace: Keyspace, request: ReadGroup) -> dict[bytes, GroupInRead]:
    groups: dict[bytes, GroupInRead] = {}
    for stream, _ in request.cursors:
        group = keyspace.group(stream, request.group)
        keyspace.bounds.check_consumer(group, request.consumer)
        groups[stream] = GroupInRead(keyspace.stream(stream), group, request, keyspace.clock_set_ms)
    return groups


class StreamDecision(NamedTuple):
    read: GroupRead
    commands: Sequence[Command]
    unclaimable: Sequence[Unclaimable] = ()  # as of a `Decision`


def _needs(
    keyspace: Keyspace, groups: Mapping[bytes, GroupInRead], request: ReadGroup, now_ms: int
) -> Iterator[Callable[[], None]]:
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
        if group.ahead_count:
            yield partial(log.require_all, _ids_ahead(group, room, now_ms), size_bytes_max)
        claimable = candidates(group, request, now_ms - group.clock_set_ms)
        claimed = (pending.id for pending in islice(claimable, room))
        yield partial(log.require_all, claimed, size_bytes_max)
        left = ReadRoom(size_bytes_max)
        if group.walks:
            room, left = PASSED_AT_ONCE_MAX, ReadRoom(PASSED_BYTES_MAX)
        yield partial(log.require_range, group.last_id.next(), MAX_ID, room, left)


def _ids_ahead(group: GroupInRead, limit: int, now_ms: int) -> list[EntryId]:
    if group.rotation is None:
        return list(islice(group.ids_ahead(), limit))
    rotation = group.rotation.rotation(room_of(group.pel.turns), now_ms)
    return [entry_id for entry_id, _ in islice(rotation, limit) if entry_id is not None]


def read_stream(
    stream: Stream, group: GroupInRead, request: ReadGroup, cursor: GroupCursor, now_ms: int
) -> StreamDecision:
    """Decide one cursor of a group read; the cursors in `request` are ignored."""
    if request.limit is None or request.limit > GROUP_READ_MAX:
        request = replace(request, limit=GROUP_READ_MAX)
    if cursor.after is None:
        return _read_new(stream, group, request, now_ms)
    return _read_history(stream, group, request, cursor.after, now_ms)


def _read_new(
    stream: Stream, group: GroupInRead, request: ReadGroup, now_ms: int
) -> StreamDecision:
    """Decide a consumer's read of one stream (XREADGROUP with `>`).

    1. Compute the room: the limit, and `max_pending` less the number of entries the consumer holds.
    2. Claim pending entries that are idle for long enough, the longest idle first (`claimed_by`).
    3. Read entries above the group's position, into the room that is left.
    4. Put both into one command, `EntriesDelivered`. If there is neither, only note that the
       consumer was seen (`ConsumerSeen`).
    5. Reply with the entries, and with the state of the group and the consumer after the read.

    Invariants: no entry is delivered twice in one read. The group's position never decreases. The
    first entry is delivered whatever its size; the others keep within `size_bytes_max`.
    """
    allowance = group.allowance(now_ms)
    room = _room(request.limit, request.max_pending, group.held_count)
    if allowance is not None:
        room = allowance if room is None else min(room, allowance)
    # Entries that are due come before those that are new, however many they are.
    turns, steady_ms = group.pel.turns, now_ms - group.clock_set_ms
    is_behind = request.by_policy and turns is not None and not turns.join(steady_ms)
    taken, gone = claimed_by(stream, group, request, group.claim_room(room), steady_ms)
    room = None if room is None else room - len(taken)
    left = ReadRoom(request.size_bytes_max)
    for claimed in taken:
        left.take(claimed.fields or (), is_first=True)
    is_full = room == 0 or (bool(taken) and left.is_spent)
    new, commands = NewEntries.none(group), list[Command]()
    if not is_full and not is_behind:
        new, commands = _new(
            stream, group, taken, room, left, now_ms, takes_turns=not request.no_ack
        )
    names = stream.name, request.group, request.consumer
    command: Command = ConsumerSeen(*names, now_ms)
    if taken or new.last_id != group.last_id or new.ahead_count:
        count = len(taken) + len(new.entries)
        command = EntriesDelivered(
            *names,
            now_ms,
            claimed=[delivery.id for delivery in taken],
            delivered=[] if request.no_ack else [entry.id for entry in new.entries],
            last_id=new.last_id,
            entries_read=new.entries_read,
            passed_count=new.passed_count,
            rated_count=0 if group.rules.rate_per_s is None else count,
            keys=[] if request.no_ack else list(new.keys),
            expired_count=new.expired_count,
        )
    commands.insert(0, command)
    if new.passed or new.through > MIN_ID or (new.ahead_count and request.no_ack):
        commands.append(_passing(stream, group, request, new))
    if new.held:
        due_ms = list(new.held_until_ms) if any(new.held_until_ms) else []
        commands.append(EntriesHeld(stream.name, request.group, list(new.held), due_ms))
    if new.delayed:
        commands.append(EntriesDelayed(stream.name, request.group, list(new.delayed)))
    read = _reply(stream, group, request, taken, new, now_ms)
    unclaimable = [Unclaimable(stream.name, request.group, gone)] if gone else ()
    return StreamDecision(read, commands, unclaimable)


def _new(
    stream: Stream,
    group: GroupInRead,
    taken: list[Delivery],
    room: int | None,
    left: ReadRoom,
    now_ms: int,
    *,
    takes_turns: bool,
) -> tuple[NewEntries, list[Command]]:
    """Return what is new to the group, of what is ahead or behind its position.

    A fair group does not read the log: more of it is indexed, for the reads that follow.
    """
    new, commands = NewEntries.none(group), list[Command]()
    if group.ahead_count:
        new = entries_ahead(stream, group, room, left, now_ms, takes_turns=takes_turns)
    elif stream.log.last_id > group.last_id and group.rotation is None:
        begun = [each for each in taken if group.pel.by_id[each.id].is_held]
        new = new_entries(stream, group, len(begun), room, left, now_ms, takes_turns=takes_turns)
    if group.rotation is not None and not group.has_indexed:
        try:
            more = indexed(stream, group.state)
        except Missing:
            if not new.entries:
                raise
        else:
            commands += [] if more is None else [more]
    return new, commands


def _passing(
    stream: Stream, group: GroupInRead, request: ReadGroup, new: NewEntries
) -> EntriesPassed:
    ids, keys = [each for each, _ in new.passed], [key for _, key in new.passed]
    if request.no_ack and group.rotation is not None:
        ids += [entry.id for entry in new.entries]
        keys += new.keys
    delivered_count = len(new.entries) if request.no_ack else 0
    return EntriesPassed(stream.name, request.group, ids, keys, new.through, delivered_count)


def _reply(
    stream: Stream,
    group: GroupInRead,
    request: ReadGroup,
    taken: list[Delivery],
    new: NewEntries,
    now_ms: int,
) -> GroupRead:
    deliveries = taken + [Delivery(entry.id, entry.fields, 0, 0, None) for entry in new.entries]
    if stream.deadlines:
        deliveries = [with_times(stream, each, group.clock_set_ms) for each in deliveries]
    pending = {delivery.id for delivery in (taken if request.no_ack else deliveries)}
    pending.difference_update(group.gained)
    held = group.held_count + len(pending) - len(group.held_before(pending))
    ahead_count = group.ahead_count - new.ahead_count
    is_at_end = new.last_id >= stream.log.last_id and not ahead_count
    state = GroupState.CAUGHT_UP if is_at_end else GroupState.LIVE
    if request.max_pending is not None and held >= request.max_pending:
        state = GroupState.MAX_PENDING
    elif new.is_blocked:
        state = GroupState.KEY_BLOCKED
    if group.is_paused(now_ms):
        state = GroupState.PAUSED
    elif not is_at_end and group.allowance(now_ms) == len(deliveries):
        state = GroupState.RATE_LIMITED
    if stream.closed_at_ms is not None and is_at_end and request.by_policy:
        is_settled = not group.pel.by_id and (request.no_ack or not held)
        state = GroupState.CLOSED if is_settled and not (new.held or new.delayed) else state
    lag = stream.lag(new.last_id, new.entries_read)
    return GroupRead(
        stream.name,
        deliveries,
        served=bool(deliveries) or state is GroupState.CLOSED,
        lag=None if lag is None else lag + ahead_count,
        pending_count=held,
        state=state,
    )


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
        deliveries.append(with_times(stream, delivered, group.clock_set_ms))
    live = [delivery.id for delivery in deliveries if delivery.fields is not None]
    names = stream.name, request.group, request.consumer
    command: Command = ConsumerSeen(*names, now_ms)
    if live:
        command = EntriesRedelivered(*names, now_ms, live)
    read = GroupRead(
        stream.name,
        deliveries,
        served=room != 0,
        lag=stream.lag_of(group.state),
        pending_count=group.held_count,
        state=GroupState.MAX_PENDING if room == 0 else GroupState.LIVE,
    )
    return StreamDecision(read, [command])


def _room(limit: int | None, max_pending: int | None, held: int) -> int | None:
    if max_pending is None:
        return limit
    room = max(max_pending - held, 0)
    return room if limit is None else min(limit, room)


DECISIONS: Decisions = {ReadGroup: read_group}
