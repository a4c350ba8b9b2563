"""Group reads, and what the group's policy does before and after them (XREADGROUP)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from headgate.engine import commands as c
from headgate.engine.decisions import Decision, deliveries
from headgate.engine.decisions.group_reads import reads as group_reads
from headgate.engine.decisions.group_reads import settling
from headgate.engine.entry import EntryId
from headgate.engine.errors import StreamError, Unavailable
from headgate.engine.limits import LOOKUPS_AT_ONCE_MAX, SETTLED_AT_ONCE_MAX
from headgate.engine.loop.executor import Executor
from headgate.engine.loop.wait_queue import QueueKey, Waiter
from headgate.engine.replies import Claimed, GroupRead, GroupState, Outcome
from headgate.engine.requests.deliveries import Ack, Autoclaim, GiveBack, Nack, NackMode, ReadGroup
from headgate.engine.state.extent import Missing
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.threads import this_turn

T = TypeVar("T")


class GroupReads:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._waiters = executor.waiters

    async def read(self, request: ReadGroup) -> list[GroupRead]:
        """Read as a consumer of a group, and block if there is nothing to read (XREADGROUP BLOCK).

        With `claim_idle_ms` the wait also ends when the longest-idle pending entry becomes
        claimable. If the caller is cancelled, the entries that were delivered to it are given back
        at once.

        1. Wait until the blocked readers that are being served now are done, because they waited
           first.
        2. Fill in from the group's policy what the request leaves open.
        3. Acknowledge `acked`. If there are many ids, acknowledge all but the last
           `SETTLED_AT_ONCE_MAX` in parts, with other requests in between. The last ones are
           acknowledged together with the read.
        4. Read once. If there is nothing to read, block.
        5. Reply once the delivery is durable.

        Nothing is acknowledged for a read that would be refused: the checks come before step 3.
        """
        await this_turn().begin()
        await self._wait_turn(request)
        request, acked = replace(self.under_policy(request), acked=()), request.acked
        if acked:  # check now: the read must not be refused after it has acknowledged
            group_reads.groups_in_read(self._executor.current(), request)
        if len(acked) > SETTLED_AT_ONCE_MAX:  # let other requests run
            early, acked = acked[:-SETTLED_AT_ONCE_MAX], acked[-SETTLED_AT_ONCE_MAX:]
            if request.wait_ms != 0:
                self._waiters.check_room()
            for cursor in request.cursors:
                ack = Ack(cursor.stream, request.group, early, request.consumer)
                await self._executor.run(partial(self._decide_ack, ack))
        until_read = self._executor.cold.until_read
        reads = await until_read(partial(self.read_at_once, request, acked))
        while reads is None:
            await this_turn().end()
            reads = await until_read(partial(self.read_at_once, request, ()))
        if not _is_served(reads) and request.wait_ms != 0:
            reads = await self._wait_to_read(request, reads)
        try:
            return await self._executor.durable(reads)
        except asyncio.CancelledError:
            self.undo(request, reads)
            raise

    def begin(self, request: ReadGroup) -> list[GroupRead] | None:
        """Read without waiting, or None; what was delivered stays pending if nobody takes it."""
        if request.wait_ms != 0 or request.acked or self._waiters.is_serving:
            return None
        with suppress(Missing):
            return self.read_at_once(self.under_policy(request), ())
        return None

    def _decide_ack(self, ack: Ack) -> Decision[list[Outcome]]:
        return deliveries.ack(self._executor.current(), ack, self._executor.now_ms())

    def read_at_once(self, request: ReadGroup, acked: Sequence[EntryId]) -> list[GroupRead] | None:
        """Acknowledge and read; None: entries were passed by, and there may be others behind."""
        may_wait = request.wait_ms != 0
        if acked and may_wait:  # check now: no refusal after the acknowledgement
            self._waiters.check_room()
        acks: list[c.Command] = []
        for cursor in request.cursors if acked else ():
            ack = Ack(cursor.stream, request.group, acked, request.consumer)
            acks += deliveries.ack(self._executor.current(), ack, 0).commands
        self._executor.commit(acks)
        self._settle_before(request)
        decision = self._decide(request)
        if may_wait and not _is_served(decision.reply):
            self._waiters.check_room()
        self._executor.carry_out(decision)
        return None if _only_passes(decision) else decision.reply

    async def _wait_to_read(self, request: ReadGroup, reads: list[GroupRead]) -> list[GroupRead]:
        def attempt() -> list[GroupRead] | None:
            self._settle_before(request)
            decision = self._decide(request)
            waiter.full = _full(decision.reply)
            if _only_passes(decision):
                self._executor.carry_out(decision)
                for cursor in request.cursors:  # there may be others behind
                    self._waiters.looks_older(cursor.stream, request.group)
                return None
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
            by_policy=request.by_policy,
        )
        waiter.full = _full(reads)
        try:
            served = await self._executor.block(waiter, request.wait_ms)
        except asyncio.CancelledError:
            self.undo(request, served_reply(waiter) or [])
            raise
        except Missing:  # the wait is over: there is something to read
            served = await self._executor.cold.until_read(attempt)
        if served is not None:
            return served
        # The wait time is over. Entries that arrived at the same moment are still delivered, but
        # readers that are still waiting come first.
        await self._wait_turn(request)
        until_read = self._executor.cold.until_read
        return await until_read(lambda: attempt() or self._decide(request).reply)

    async def _wait_turn(self, request: ReadGroup) -> None:
        if self._waiters.is_serving:
            await self._waiters.wait_turn(_queues_of(request))

    def under_policy(self, request: ReadGroup) -> ReadGroup:
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

    # What nobody gets any more

    def settle(self, stream: bytes, group: bytes, claim_idle_ms: int | None) -> None:
        executor = self._executor
        if stream in executor.keyspace.governed:
            now_ms = executor.now_ms()
            decision = settling.settle(executor.current(), stream, group, claim_idle_ms, now_ms)
            with suppress(Unavailable):  # no room for it: the entry stays pending
                executor.carry_out(decision)

    def _settle_before(self, request: ReadGroup) -> None:
        if not request.by_policy or not self._executor.keyspace.governed:
            return
        for cursor in request.cursors:  # check first: a refused read moves nothing
            self._executor.current().group(cursor.stream, request.group)
        for cursor in request.cursors:
            if cursor.after is None:
                self.settle(cursor.stream, request.group, request.claim_idle_ms)

    async def autoclaim(self, request: Autoclaim) -> Claimed:
        """Take over idle entries, a page at a time (XAUTOCLAIM), after settling as a read does."""
        executor = self._executor

        def settle() -> None:
            self.settle(request.stream, request.group, request.min_idle_ms)

        if request.by_policy:
            await executor.cold.until_read(settle)
        return await executor.run(
            lambda: deliveries.autoclaim(executor.current(), request, executor.now_ms())
        )

    async def nack(self, request: Nack) -> list[Outcome]:
        """Give deliveries back in parts (XNACK); spent or expired ones are settled in that step."""
        ids, outcomes = request.ids, list[Outcome]()
        for at in range(0, max(len(ids), 1), LOOKUPS_AT_ONCE_MAX):
            if at:
                await this_turn().end()
            part = replace(request, ids=ids[at : at + LOOKUPS_AT_ONCE_MAX])
            outcomes += await self._nack(part)
        return outcomes

    async def _nack(self, request: Nack) -> list[Outcome]:
        released: list[EntryId] = []
        counts: dict[EntryId, int] = {}

        def give_back(keyspace: Keyspace, now_ms: int) -> Decision[list[Outcome]]:
            decision = deliveries.nack(keyspace, request, now_ms)
            outcomes = zip(request.ids, decision.reply, strict=True)
            released[:] = [each for each, outcome in outcomes if outcome is Outcome.RELEASED]
            counts.update(settling.counts_of(keyspace, request))
            return decision

        def settle(keyspace: Keyspace, now_ms: int) -> Decision[list[Outcome]]:
            names = request.stream, request.group
            settled = settling.settle(
                keyspace, *names, None, now_ms, released=released, counts=counts
            )
            return Decision([], settled.commands)

        await self._waiters.wait_turn()
        steps = [give_back, settle] if request.by_policy else [give_back]

        def act() -> list[list[Outcome] | StreamError]:
            self.require_spent(request)  # within a record nothing can be waited for
            return self._executor.record_all(steps)

        outcomes, *_ = await self._executor.durable(await self._executor.cold.until_read(act))
        if isinstance(outcomes, StreamError):
            raise outcomes
        return outcomes

    def require_spent(self, request: Nack) -> None:
        keyspace = self._executor.current()
        if not request.by_policy or not keyspace.memory.cold_bytes:
            return
        with suppress(StreamError):
            group = keyspace.group(request.stream, request.group)
            is_fatal = request.mode is NackMode.FATAL or request.retry_count is not None
            keyspace.stream(request.stream).log.require_all(
                entry_id
                for entry_id in request.ids
                if (pending := group.pel.by_id.get(entry_id)) is not None
                and (is_fatal or group.policy.is_spent(pending.delivery_count))
            )

    def undo(
        self, request: ReadGroup, reads: list[GroupRead], *, is_temporary: bool = False
    ) -> None:
        """Give back what was delivered to a reader that has gone."""
        executor = self._executor
        for cursor, read in zip(request.cursors, reads, strict=False):
            if cursor.after is not None:
                continue  # the reader held its history before the read
            counts = {delivery.id: delivery.delivery_count for delivery in read.deliveries}
            names = read.stream, request.group, request.consumer
            giving_back = GiveBack(*names, counts, is_temporary)
            with suppress(Unavailable):  # then the delivery is not durable either
                decision = deliveries.give_back(executor.current(), giving_back, 0)
                executor.commit(decision.commands)
                while decision.next_part is not None:
                    decision = decision.next_part(executor.current(), executor.now_ms())
                    executor.commit(decision.commands)


def _queues_of(request: ReadGroup) -> list[QueueKey]:
    return [QueueKey(cursor.stream, request.group) for cursor in request.cursors]


def _is_served(reads: list[GroupRead]) -> bool:
    return any(read.served for read in reads)


def _only_passes(decision: Decision[list[GroupRead]]) -> bool:
    return not _is_served(decision.reply) and any(
        isinstance(command, c.EntriesDelivered | c.EntriesIndexed) for command in decision.commands
    )


def _full(reads: list[GroupRead]) -> frozenset[bytes]:
    return frozenset(read.stream for read in reads if read.state is GroupState.MAX_PENDING)


def served_reply(waiter: Waiter[T]) -> T | None:
    """Return the reply of a waiter that was served just before it was cancelled, or None."""
    served = waiter.served
    if not served.done() or served.cancelled() or served.exception() is not None:
        return None
    return served.result()
