"""Reads of one group over a pattern: the streams take turns, each by an ordinary group read."""

from __future__ import annotations

import asyncio
from functools import partial

from headgate.engine.config import GroupPolicy
from headgate.engine.decisions import groups as group_decisions
from headgate.engine.decisions.group_reads.claims import allowed_at, claimable_at
from headgate.engine.decisions.policies import check_policy
from headgate.engine.entry import MAX_ID, MIN_ID, size_of
from headgate.engine.errors import Invalid, NotFound, StreamError, Unavailable
from headgate.engine.limits import COUNT_MAX, PATTERN_BYTES_MAX, WEIGHTS_MAX
from headgate.engine.loop.executor import Executor
from headgate.engine.loop.group_reads import GroupReads, served_reply
from headgate.engine.loop.pattern_groups import PatternGroup
from headgate.engine.loop.wait_queue import Waiter
from headgate.engine.replies import GroupRead, GroupsRead, GroupState
from headgate.engine.requests.deliveries import GroupCursor, ReadGroup, ReadGroups
from headgate.engine.requests.groups import CreateGroup, GroupStart
from headgate.engine.requests.keyspace import is_shown
from headgate.engine.state.extent import Missing
from headgate.engine.state.group import Group
from headgate.engine.state.stream import Stream
from headgate.engine.threads import this_turn

_LOST = "the state that was read is another one now"

_NAMES_AT_ONCE = 64
"""Names that are looked at before it is looked how long that took."""

_AGAIN_MS = 20
"""Pause before another look at a stream with many entries that could not be claimed."""

_NEVER_MS = 10 * 365 * 86_400_000
"""What is due later than in ten years is not waited for."""


class PatternGroupReads:
    def __init__(self, executor: Executor, group_reads: GroupReads) -> None:
        self._executor = executor
        self._groups = executor.pattern_groups
        self._waiters = executor.waiters
        self._group_reads = group_reads

    async def read(self, request: ReadGroups) -> GroupsRead:
        """Read as a consumer of a group over a pattern, and block if there is nothing.

        1. Wait until it is noted whom everything concerns that has happened, and until the blocked
           readers that are being served now are done, because they waited first.
        2. Look at all names, if nobody has. Then go round the streams that may have something,
           until the read is full or nothing is left. Other requests run in between.
        3. If there was nothing, block. Whatever touches a stream runs the first reader again.
        4. Reply once the deliveries are durable.
        """
        _check(request)
        await this_turn().begin()
        self._executor.current()
        with self._groups.in_use(request) as group:
            await self._wait_turn(group)
            read = await self._until_looked(group, request)
            if not read.reads and request.wait_ms != 0 and request.own_after is None:
                if not self._groups.has(group):  # the state is another one now
                    return await self.read(request)
                read = await self._wait_to_read(group, request, read)
            try:
                return await self._executor.durable(read)
            except asyncio.CancelledError:
                self._undo(request, read.reads)
                raise

    async def _wait_turn(self, group: PatternGroup) -> None:
        await self._groups.settled()
        if self._waiters.is_serving:
            await self._waiters.wait_turn([group.key])

    async def _until_looked(self, group: PatternGroup, request: ReadGroups) -> GroupsRead:
        look = _Look(request)
        act = self._look if request.own_after is None else self._look_at_own
        try:
            while True:
                read = await self._executor.cold.until_read(partial(act, group, look))
                if read is not None:
                    self._count(group, look)
                    if group.waiting_count and len(group):  # what has come due, for example
                        self._groups.wake(group)
                        self._waiters.serve()
                    return read._replace(pending_count=look.held_count)
                await this_turn().end()
                if look.reads and not self._groups.has(group):
                    raise Unavailable(_LOST)
        except asyncio.CancelledError:
            self._undo(request, look.reads)
            raise

    async def _wait_to_read(
        self, group: PatternGroup, request: ReadGroups, read: GroupsRead
    ) -> GroupsRead:
        def attempt() -> GroupsRead | None:
            look = _Look(request)
            read = self._look(group, look)
            if read is None and not look.reads:  # it goes on in another turn
                self._groups.wake(group)
                return None
            waiter.full = _full(group, look)
            waiter.leaves_some = len(group) > 0
            if not look.reads:
                return None
            self._count(group, look)
            return look.reply(GroupState.LIVE)

        waiter = Waiter([group.key], attempt, consumer=request.consumer, by_policy=True)
        waiter.full = _full(group, _Look(request, read.pending_count))
        group.waiting_count += 1
        self._arm(group)
        try:
            served = await self._executor.block(waiter, request.wait_ms)
        except asyncio.CancelledError:
            delivered = served_reply(waiter)
            if delivered is not None:
                self._undo(request, delivered.reads)
            raise
        except Missing:  # the wait is over: there is something to read
            return await self._until_looked(group, request)
        finally:
            group.waiting_count -= 1
            self._arm(group)
        if served is not None:
            return served
        # The wait time is over. Entries that arrived at the same moment are still delivered.
        await self._wait_turn(group)
        return await self._until_looked(group, request)

    def _undo(self, request: ReadGroups, reads: list[GroupRead]) -> None:
        if request.own_after is None:
            cursors = [GroupCursor(read.stream) for read in reads]
            single = ReadGroup(request.group, request.consumer, cursors)
            self._group_reads.undo(single, reads, is_temporary=request.is_temporary)

    # Time

    def _arm(self, group: PatternGroup) -> None:
        due_ms = group.next_due_ms if group.waiting_count else None
        if group.timer is not None:
            if due_ms is not None and group.timer_at_ms <= due_ms:
                return
            group.timer.cancel()
            group.timer = None
        if due_ms is not None:
            delay_ms = max(due_ms - self._executor.steady_ms(), 1)
            loop = asyncio.get_running_loop()
            group.timer = loop.call_later(delay_ms / 1000, self._on_timer, group)
            group.timer_at_ms = due_ms

    def _on_timer(self, group: PatternGroup) -> None:
        group.timer = None
        group.come_due(self._executor.steady_ms())
        self._groups.wake(group)
        self._waiters.serve()
        self._arm(group)

    def _wait_ms(
        self, stream: Stream, group: Group, request: ReadGroups, spared: bytes | None = None
    ) -> int | None:
        """Return after what time a read gets something of a stream, if nothing happens; 0: now."""
        steady_ms, idle_ms = self._executor.steady_ms(), _idle_ms(request, group.policy)
        at_ms, _ = claimable_at(stream.name, group, idle_ms, spared, steady_ms)
        clock_set_ms = self._executor.keyspace.clock_set_ms
        at_ms = allowed_at(stream, group, at_ms, steady_ms, clock_set_ms)
        return None if at_ms is None else max(at_ms - steady_ms, 0)

    # Looks

    def _look(self, group: PatternGroup, look: _Look) -> GroupsRead | None:
        """Go round the streams for a part of a turn; None: there may be more, so go on."""
        executor, consumer = self._executor, look.request.consumer
        executor.current()
        if not self._is_walked(group, look.request):
            return None
        group.come_due(executor.steady_ms())
        if look.request.max_pending is not None:
            self._count(group, look)
        try:
            with self._groups.reading(group):
                is_over = self._go_round(group, look)
        except (StreamError, Missing):
            if not look.reads:
                raise
            is_over = True
        finally:
            self._arm(group)
        if not is_over:
            return None
        if look.is_full or group.has_nothing_for(consumer):
            return look.reply(GroupState.MAX_PENDING)
        has_more = group.next_for(consumer) is not None
        return look.reply(GroupState.LIVE if has_more else GroupState.CAUGHT_UP)

    def _go_round(self, group: PatternGroup, look: _Look) -> bool:
        """Look at streams until nothing is left of the read, or of the turn: false then."""
        turn = this_turn()
        while not look.is_spent:
            name = group.next_for(look.request.consumer)
            if name is None:
                return True
            self._look_at(group, name, look)
            if turn.is_over:
                return False
        return True

    def _is_walked(self, group: PatternGroup, request: ReadGroups) -> bool:
        """Look at a part of the names that nobody has looked at; tells whether it was the last."""
        keyspace, turn = self._executor.current(), this_turn()
        for at, name in enumerate(group.walk(keyspace), 1):
            stream = keyspace.stream(name)
            own = stream.groups.get(request.group)
            if own is None:
                if request.create is not None:
                    group.touch(name)
            elif own.pel.by_id or own.ahead_count or stream.log.last_id > own.last_id:
                group.note_holders(keyspace, name)
                wait_ms = self._wait_ms(stream, own, request)
                if wait_ms == 0 or name in keyspace.governed:
                    group.touch(name)
                else:
                    self._rest(group, name, wait_ms)
            if at % _NAMES_AT_ONCE == 0 and turn.is_over:
                return False
        return True

    def _look_at(self, group: PatternGroup, name: bytes, look: _Look) -> None:
        """Read one stream, and note when there may be more.

        1. Create the group if the request says so. A stream without it has nothing.
        2. Settle what was delivered too often, as any read does first.
        3. If there is nothing by now, do not read: a read would make the consumer known there.
        4. Read what the stream has left of its turn.
        """
        executor, request = self._executor, look.request
        self._groups.look_count += 1
        stream = executor.current().find(name)
        own = None if stream is None else self._own_group(group, stream, request)
        if stream is None or own is None:
            group.rest(name)
            return
        self._group_reads.settle(name, own.name, _idle_ms(request, own.policy))
        wait_ms = self._wait_ms(stream, own, request)
        if wait_ms != 0:
            self._rest(group, name, wait_ms)
            return
        left = group.left_of_turn(name, request.weights.get(name, 1), request.limit)
        if request.max_pending is not None:  # others may have been served meanwhile
            self._count(group, look)
            if look.is_spent:
                return
        held_before = group.held_count(executor.keyspace, request.consumer, name)
        try:
            single = self._group_reads.under_policy(look.read_of(name, left))
            reads = self._group_reads.read_at_once(single, ())
        except NotFound:  # it has expired
            group.rest(name)
            return
        if reads is None or reads[0].deliveries:
            if reads is not None:
                group.hold(request.consumer, name)
                held = group.held_count(executor.keyspace, request.consumer, name)
                left -= look.take(reads[0], held - held_before)
            wait_ms = self._wait_ms(stream, own, request)
            if wait_ms == 0:
                group.go_on(name, left)
            else:
                self._rest(group, name, wait_ms)
        else:
            self._note_vain(group, stream, own, look, reads[0].state)

    def _count(self, group: PatternGroup, look: _Look) -> None:
        """Count what the consumer holds, unless no consumer got anything but by this look."""
        if look.counted_at != self._groups.delivered_count:
            look.counted_at = self._groups.delivered_count
            look.held_count = group.count_held(self._executor.keyspace, look.request.consumer)

    def _note_vain(
        self, group: PatternGroup, stream: Stream, own: Group, look: _Look, state: GroupState
    ) -> None:
        """Note that a consumer got nothing of a stream, though somebody might."""
        request, name = look.request, stream.name
        spared = None if request.claim_own else request.consumer
        wait_ms = self._wait_ms(stream, own, request, spared)
        if state is GroupState.MAX_PENDING or wait_ms != 0:
            group.pass_by(name, request.consumer)
            self._note_due(group, name, wait_ms)
            return
        # What is new was deleted, or many entries could not be claimed.
        steady_ms = self._executor.steady_ms()
        at_ms, _ = claimable_at(name, own, _idle_ms(request, own.policy), None, steady_ms)
        self._rest(group, name, None if at_ms is None else max(at_ms - steady_ms, _AGAIN_MS))

    def _rest(self, group: PatternGroup, name: bytes, wait_ms: int | None) -> None:
        group.rest(name)
        self._note_due(group, name, wait_ms)

    def _note_due(self, group: PatternGroup, name: bytes, wait_ms: int | None) -> None:
        if wait_ms and wait_ms <= _NEVER_MS:
            group.due_at(name, self._executor.steady_ms() + wait_ms)

    def _own_group(self, group: PatternGroup, stream: Stream, request: ReadGroups) -> Group | None:
        own, create = stream.groups.get(request.group), request.create
        if own is not None or create is None or stream.name in create.targets:
            return own
        if not is_shown(stream.name, create.only):
            return None
        start = create.start
        if start.last_id is None and stream.epoch > group.epoch:  # nothing of it was there before
            start = GroupStart(MIN_ID)
        creation = CreateGroup(
            stream.name,
            request.group,
            start,
            policy=create.policy,
            targets_exist=create.targets_exist,
        )
        executor = self._executor
        executor.carry_out(
            group_decisions.create_group(executor.keyspace, creation, executor.now_ms())
        )
        return stream.groups.get(request.group)

    # What a consumer holds already

    def _look_at_own(self, group: PatternGroup, look: _Look) -> GroupsRead | None:
        executor, request = self._executor, look.request
        assert request.own_after is not None
        keyspace, turn = executor.current(), this_turn()
        if not self._is_walked(group, request):
            return None
        self._count(group, look)
        after, after_id = look.own_after or request.own_after
        for name in group.held_streams(keyspace, request.consumer):
            if name < after or look.is_spent:
                continue
            start = (after_id if name == after else None) or MIN_ID
            reads = self._group_reads.read_at_once(
                look.read_of(name, request.limit, GroupCursor(name, start)), ()
            )
            if reads is not None and reads[0].deliveries:
                look.take(reads[0], 0)
            look.own_after = GroupCursor(name, MAX_ID)
            if turn.is_over:
                return None
        return look.reply(GroupState.LIVE)


class _Look:
    """What a read has got, and what is left of it."""

    def __init__(self, request: ReadGroups, held_count: int = 0) -> None:
        self.request = request
        self.reads: list[GroupRead] = []
        self.held_count = held_count
        self.counted_at: int | None = None  # after how many deliveries
        self.own_after: GroupCursor | None = None  # of what the consumer holds, all up to here came
        self._by_stream: dict[bytes, int] = {}  # places in `reads`
        self._left = request.limit
        self._left_bytes = request.size_bytes_max

    def reply(self, state: GroupState) -> GroupsRead:
        return GroupsRead(self.reads, self.held_count, state)

    @property
    def is_full(self) -> bool:
        """Tell whether the consumer holds as much as it may."""
        limit = self.request.max_pending
        return limit is not None and self.held_count >= limit

    @property
    def is_spent(self) -> bool:
        is_own = self.request.own_after is not None
        return self._left <= 0 or self._left_bytes <= 0 or (self.is_full and not is_own)

    def read_of(self, name: bytes, limit: int, cursor: GroupCursor | None = None) -> ReadGroup:
        request, room = self.request, min(limit, self._left)
        if request.max_pending is not None and cursor is None:
            room = min(room, request.max_pending - self.held_count)
        return ReadGroup(
            request.group,
            request.consumer,
            [cursor or GroupCursor(name)],
            limit=room,
            claim_idle_ms=request.claim_idle_ms,
            no_ack=request.no_ack,
            size_bytes_max=self._left_bytes,
            claim_own=request.claim_own,
            claim_released=True,
        )

    def take(self, read: GroupRead, more_held: int) -> int:
        """Take in what a stream has given; returns how many entries. It may have given before."""
        count = len(read.deliveries)
        at = self._by_stream.setdefault(read.stream, len(self.reads))
        if at < len(self.reads):
            deliveries = self.reads[at].deliveries + read.deliveries
            self.reads[at] = read._replace(deliveries=deliveries)
        else:
            self.reads.append(read)
        self._left -= count
        self._left_bytes -= sum(size_of(each.fields or ()) for each in read.deliveries)
        self.held_count += more_held
        if self.counted_at is not None:
            self.counted_at += 1
        return count


def _idle_ms(request: ReadGroups, policy: GroupPolicy) -> int:
    """Return after what time a pending entry is claimed, if anybody holds it."""
    idle_ms = policy.claim_idle_ms if request.claim_idle_ms is None else request.claim_idle_ms
    return COUNT_MAX if idle_ms is None else idle_ms


def _full(group: PatternGroup, look: _Look) -> frozenset[bytes]:
    return frozenset({group.key.stream} if look.is_full else ())


def _check(request: ReadGroups) -> None:
    if len(request.pattern) > PATTERN_BYTES_MAX:
        text = f"a pattern has at most {PATTERN_BYTES_MAX} bytes"
        raise Invalid(text, location=("pattern",))
    if request.create is not None and request.create.policy is not None:
        try:
            check_policy(request.pattern, request.create.policy)
        except Invalid as error:
            error.location = ("create", *error.location)
            raise
    weights = request.weights
    if len(weights) > WEIGHTS_MAX:
        raise Invalid(f"at most {WEIGHTS_MAX} streams have weights", location=("weights",))
    if not all(1 <= weight <= WEIGHTS_MAX for weight in weights.values()):
        raise Invalid(f"a weight is from 1 to {WEIGHTS_MAX}", location=("weights",))
