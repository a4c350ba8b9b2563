"""Reads of a group, and what its policy does before and after them: XREADGROUP."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TypeVar

from msgspec.structs import replace

from headgate.engine import commands as c
from headgate.engine.decisions import Decision, deliveries, group_reads, policies
from headgate.engine.entry import EntryId
from headgate.engine.errors import StreamError, Unavailable
from headgate.engine.limits import LOOKUPS_AT_ONCE_MAX, SETTLED_AT_ONCE_MAX
from headgate.engine.loop.executor import Executor
from headgate.engine.loop.wait_queue import QueueKey, Waiter
from headgate.engine.replies import Claimed, GroupRead, GroupState, Outcome
from headgate.engine.requests.deliveries import Ack, Autoclaim, GiveBack, Nack, ReadGroup
from headgate.engine.state.keyspace import Keyspace

T = TypeVar("T")


class GroupReads:
    """Reads as a consumer of a group, and waits where there is nothing."""

    def __init__(self, executor: Executor) -> None:
        """Read what an executor changes."""
        self._executor = executor
        self._waiters = executor.waiters

    async def read(self, request: ReadGroup) -> list[GroupRead]:
        """Read as a consumer of a group, waiting if there is nothing (XREADGROUP BLOCK).

        With `claim_idle_ms` the wait also ends when the longest-idle pending entry becomes
        claimable. If the caller is cancelled, what was delivered to it goes back at once.

        1. Wait for the readers of the group that are being served: they waited before.
        2. Ask the policy for what the request leaves open.
        3. Acknowledge; if that takes long, all but the end of it with requests in between.
        4. Read once; if there is nothing, wait for it.
        5. Reply once the delivery is durable.
        """
        await self._wait_turn(request)
        request, acked = replace(self._under_policy(request), acked=()), request.acked
        if acked:  # once it has acknowledged, the read must not be refused
            group_reads.groups_in_read(self._executor.current(), request)
        if len(acked) > SETTLED_AT_ONCE_MAX:  # but for the last of them, requests come between
            early, acked = acked[:-SETTLED_AT_ONCE_MAX], acked[-SETTLED_AT_ONCE_MAX:]
            if request.wait_ms != 0:
                self._waiters.check_room()
            for cursor in request.cursors:
                ack = Ack(cursor.stream, request.group, early, request.consumer)
                await self._executor.run(
                    deliveries.ack(self._executor.current(), ack, self._executor.now_ms())
                )
        reads = self._read_at_once(request, acked)
        if not _is_served(reads) and request.wait_ms != 0:
            reads = await self._wait_to_read(request, reads)
        try:
            return await self._executor.durable(reads)
        except asyncio.CancelledError:
            self._undo(request, reads)
            raise

    def _read_at_once(self, request: ReadGroup, acked: Sequence[EntryId]) -> list[GroupRead]:
        may_wait = request.wait_ms != 0
        if acked and may_wait:  # once it has acknowledged, the read must not be refused
            self._waiters.check_room()
        acks: list[c.Command] = []
        for cursor in request.cursors if acked else ():
            ack = Ack(cursor.stream, request.group, acked, request.consumer)
            acks += deliveries.ack(self._executor.current(), ack, 0).commands
        self._executor.commit(acks)
        self._dead_letter_before(request)
        decision = self._decide(request)
        if may_wait and not _is_served(decision.reply):
            self._waiters.check_room()
        self._executor.carry_out(decision)
        return decision.reply

    async def _wait_to_read(self, request: ReadGroup, reads: list[GroupRead]) -> list[GroupRead]:
        """Wait for what was not there when `reads` were made."""

        def attempt() -> list[GroupRead] | None:
            self._dead_letter_before(request)
            decision = self._decide(request)
            waiter.full = _full(decision.reply)
            if not _is_served(decision.reply):
                self._executor.hide(decision)
                return None
            self._executor.carry_out(decision)
            return decision.reply

        waiter = Waiter(
            _queues_of(request),
            attempt,
            claim_idle_ms=request.idle_ms_min,
            consumer=request.consumer,
            spares_own=not request.claim_own,
        )
        waiter.full = _full(reads)
        try:
            served = await self._executor.block(waiter, request.wait_ms)
        except asyncio.CancelledError:
            self._undo(request, _served_reply(waiter) or [])
            raise
        if served is not None:
            return served
        # Its time is over; what came in the very same moment is still delivered, if nobody who
        # waits longer is to have it.
        await self._wait_turn(request)
        return attempt() or self._decide(request).reply

    async def _wait_turn(self, request: ReadGroup) -> None:
        if self._waiters.is_serving:
            await self._waiters.wait_turn(_queues_of(request))

    def _under_policy(self, request: ReadGroup) -> ReadGroup:
        """Return the request with what the group's policy says where it says nothing itself."""
        if not request.by_policy:
            return request
        name = request.cursors[0].stream
        policy = self._executor.current().group(name, request.group).policy
        idle_ms, max_pending = request.claim_idle_ms, request.max_pending
        if idle_ms is None:
            idle_ms = policy.claim_idle_ms
        if policy.max_pending is not None:
            limits = [policy.max_pending, *([] if max_pending is None else [max_pending])]
            max_pending = min(limits)
        return replace(request, claim_idle_ms=idle_ms, max_pending=max_pending)

    def _decide(self, request: ReadGroup) -> Decision[list[GroupRead]]:
        return group_reads.read_group(self._executor.current(), request, self._executor.now_ms())

    # Dead letters

    def _dead_letter(self, stream: bytes, group: bytes, claim_idle_ms: int | None) -> None:
        """Move what was delivered too often to the dead letter stream."""
        executor = self._executor
        if stream in executor.keyspace.governed:
            now_ms = executor.now_ms()
            decision = policies.dead_letter(
                executor.current(), stream, group, claim_idle_ms, now_ms
            )
            with suppress(Unavailable):  # there may be no room for it: it waits where it is
                executor.carry_out(decision)

    def _dead_letter_before(self, request: ReadGroup) -> None:
        """Move what a read would claim, and what was delivered too often, out of its way."""
        if not request.by_policy or not self._executor.keyspace.governed:
            return
        for cursor in request.cursors:  # a read that is refused moves nothing
            self._executor.current().group(cursor.stream, request.group)
        for cursor in request.cursors:
            if cursor.after is None:
                self._dead_letter(cursor.stream, request.group, request.claim_idle_ms)

    async def autoclaim(self, request: Autoclaim) -> Claimed:
        """Take over idle entries, a page at a time (XAUTOCLAIM).

        What was delivered too often for the policy becomes a dead letter first, as in a read.
        """
        if request.by_policy:
            self._dead_letter(request.stream, request.group, request.min_idle_ms)
        executor = self._executor
        decision = deliveries.autoclaim(executor.current(), request, executor.now_ms())
        return await executor.run(decision)

    async def nack(self, request: Nack) -> list[Outcome]:
        """Give deliveries back, some at a time with requests in between (XNACK).

        What has been delivered too often becomes a dead letter at once: nobody is served what has
        failed for good.
        """
        ids, outcomes = request.ids, list[Outcome]()
        for at in range(0, max(len(ids), 1), LOOKUPS_AT_ONCE_MAX):
            if at:
                await asyncio.sleep(0)  # requests come between
            part = replace(request, ids=ids[at : at + LOOKUPS_AT_ONCE_MAX])
            outcomes += await self._nack(part)
        return outcomes

    async def _nack(self, request: Nack) -> list[Outcome]:
        def give_back(keyspace: Keyspace, now_ms: int) -> Decision[list[Outcome]]:
            return deliveries.nack(keyspace, request, now_ms)

        def dead_letter(keyspace: Keyspace, now_ms: int) -> Decision[list[Outcome]]:
            dead = policies.dead_letter(
                keyspace, request.stream, request.group, None, now_ms, nacked=request.ids
            )
            return Decision([], dead.commands)

        await self._waiters.wait_turn()
        steps = [give_back, dead_letter] if request.by_policy else [give_back]
        outcomes, *_ = await self._executor.run_all(steps)  # one record
        if isinstance(outcomes, StreamError):
            raise outcomes
        return outcomes

    def _undo(self, request: ReadGroup, reads: list[GroupRead]) -> None:
        """Give back what was delivered to a reader that is no longer there."""
        executor = self._executor
        for cursor, read in zip(request.cursors, reads, strict=False):
            if cursor.after is not None:
                continue  # its history was the reader's before, and stays so
            counts = {delivery.id: delivery.delivery_count for delivery in read.deliveries}
            giving_back = GiveBack(read.stream, request.group, request.consumer, counts)
            with suppress(Unavailable):  # then the delivery itself is not durable either
                decision = deliveries.give_back(executor.current(), giving_back, 0)
                executor.commit(decision.commands)
                while decision.next_part is not None:
                    decision = decision.next_part(executor.current(), executor.now_ms())
                    executor.commit(decision.commands)


def _queues_of(request: ReadGroup) -> list[QueueKey]:
    return [QueueKey(cursor.stream, request.group) for cursor in request.cursors]


def _is_served(reads: list[GroupRead]) -> bool:
    return any(read.served for read in reads)


def _full(reads: list[GroupRead]) -> frozenset[bytes]:
    """Return in which streams the consumer holds all it may."""
    return frozenset(read.stream for read in reads if read.state is GroupState.MAX_PENDING)


def _served_reply(waiter: Waiter[T]) -> T | None:
    """Return what a cancelled waiter was served at the very last moment, if it was."""
    served = waiter.served
    if not served.done() or served.cancelled() or served.exception() is not None:
        return None
    return served.result()
