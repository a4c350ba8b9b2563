"""Executor: decide, record, apply, serve; then wait until everything that was seen is durable.

Only the executor changes the state. A step runs from its decision to its reply without an `await`,
so each command is atomic without a lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from headgate.engine import commands as c
from headgate.engine.clock import Clock, StepWatch
from headgate.engine.decisions import Decision, Step, trims
from headgate.engine.decisions import keyspace as keyspace_decisions
from headgate.engine.decisions.group_reads.claims import allowed_at, claimable_at
from headgate.engine.eager import own_task
from headgate.engine.errors import Invalid, MemoryFull, StreamError, StreamsChanged, Unavailable
from headgate.engine.journal.room import holds_more, takes_room
from headgate.engine.journal.storage import Storage
from headgate.engine.limits import (
    CACHED_BYTES,
    CACHED_SHARE,
    FREEZING_MS_MAX,
    HELD_BYTES_MAX,
    MAKING_ROOM_MAX,
)
from headgate.engine.loop import signals
from headgate.engine.loop.activity import TotalActivity, changes_by
from headgate.engine.loop.extent_reads import ColdReads
from headgate.engine.loop.housekeeping import Disposal
from headgate.engine.loop.pattern_followers import Followers
from headgate.engine.loop.pattern_groups import PatternGroups
from headgate.engine.loop.takeovers import Takeovers
from headgate.engine.loop.wait_queue import QueueKey, Waiter
from headgate.engine.loop.waiters import Claimable, Waiters
from headgate.engine.state.bounds import KeyspaceBounds
from headgate.engine.state.extent import Damaged, Missing
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.memory import MemoryBounds, WhenFull
from headgate.engine.state.schemas import Schemas
from headgate.engine.threads import this_turn

T = TypeVar("T")
U = TypeVar("U")

_TOO_MUCH = "this changes too much for a transaction: run it separately"

_BROKEN = "the state is not what the records lead to, so the process ends"


class Executor:
    def __init__(
        self,
        storage: Storage,
        keyspace: Keyspace,
        clock: Clock,
        *,
        waiters_max: int,
        memory: MemoryBounds,
        bounds: KeyspaceBounds,
        has_bucket: bool,
        schemas: Schemas,
    ) -> None:
        self.storage = storage
        self.clock = clock
        self.disposal = Disposal()
        self.takeovers = Takeovers()
        self.activity = TotalActivity()
        self._bounds, self._has_bucket = bounds, has_bucket
        self.schemas = schemas
        self._lives = 0  # how many states were adopted
        self._memory_bounds = memory
        self._may_be_tight = False  # memory, at the last change
        self._trims_oldest = memory.when_full is WhenFull.TRIM_OLDEST
        self._trimmed_name: bytes | None = None  # the last stream that `trim_oldest` looked at
        self._trimming: asyncio.Future[None] | None = None  # of what is cold
        self._watch = StepWatch(clock)
        self._broken: BaseException | None = None  # why the state does not match the records
        self._is_broken = asyncio.Event()
        self._staged_at_ms = 0  # the time of the record that is staged
        self.cold = ColdReads(
            storage.read_extents, storage.read_extent_now, _cached_bytes_max(memory)
        )
        self.cold.on_damaged = self._lose
        self.on_held: Callable[[], None] = _nothing  # open ranges hold too much that has gone
        self.schedules_changed = asyncio.Event()  # something may be due earlier
        self.keyspace = keyspace  # for inspection; expired streams may still be in it
        self.waiters = Waiters(self.steady_ms, self._claimable, waiters_max)
        self.followers = Followers(self.waiters, clock)
        self.pattern_groups = PatternGroups(self.waiters)
        self.adopt(keyspace)

    def adopt(self, keyspace: Keyspace) -> None:
        keyspace.dispose = self.disposal.take
        keyspace.memory.extents = self.cold
        keyspace.bounds, keyspace.has_bucket = self._bounds, self._has_bucket
        keyspace.schemas = self.schemas
        keyspace.schedules.on_change = self.schedules_changed.set
        self._lives += 1
        life = f"{self._lives}.{self.storage.position}"
        keyspace.revisions.begin(lambda: f"{self.clock.monotonic_ms()}.{life}")
        self.keyspace = keyspace
        self.followers.adopt(keyspace)
        self.pattern_groups.adopt(keyspace)
        self.schedules_changed.set()

    def _lose(self, damaged: Damaged) -> None:
        self.storage.note_damage(damaged)
        if self.keyspace.find(damaged.stream) is not None:
            lost = [c.EntriesLost(damaged.stream, *each[:2]) for each in damaged.lost]
            self.commit([*lost])

    async def until_broken(self) -> None:
        """Wait until the state no longer matches the records, then raise RuntimeError."""
        await self._is_broken.wait()
        raise RuntimeError(_BROKEN) from self._broken

    def current(self) -> Keyspace:
        """Return the state to decide on, after removing what must no longer be visible.

        The removals are recorded as any change is. Every request calls this first, and calls it
        again after each `await`, because the state may have been replaced in the meantime.

        1. Delete the streams whose expiry time has passed, so that nobody sees them again.
        2. If memory is full and the configuration says so (`WhenFull.TRIM_OLDEST`), trim the oldest
           entries.

        If the storage refuses these changes, they are made later.
        """
        if self.keyspace.expiring:
            with suppress(Unavailable):  # they are deleted later
                self.commit(keyspace_decisions.expire(self.keyspace, self.now_ms()).commands)
        if self._trims_oldest:
            with suppress(Unavailable):
                self._make_room()
        return self.keyspace

    def now_ms(self) -> int:
        """Return unix time; if the clock was set, record that first."""
        now_ms, keyspace = self.clock.wall_ms(), self.keyspace
        set_by_ms = self._watch.look(keyspace.steady_ms(now_ms), keyspace.latest_ms)
        if set_by_ms:
            with suppress(Unavailable):  # the next call tries again
                self._record_and_apply([c.ClockSet(set_by_ms)])
        return now_ms

    def steady_ms(self) -> int:
        self.now_ms()
        return self._watch.steady_ms()

    def run(self, decide: Callable[[], Decision[T]]) -> Coroutine[Any, Any, T]:
        """Decide and carry out, with other requests between the parts; return the durable reply.

        The first part is carried out before this returns, unless it needs what is not in memory.
        Most decisions have no other part. `decide` may be called again.
        """
        try:
            decision = decide()
            self.carry_out(decision)
        except Missing:
            return self._run_cold(decide)
        if decision.next_part is None and decision.look is None:
            return self.durable(decision.reply)
        return self._run_on(decision)

    async def _run_cold(self, decide: Callable[[], Decision[T]]) -> T:
        decision = await self.until_carried_out(decide)
        del decide  # it may hold many entries
        return await self._run_on(decision)

    async def until_carried_out(self, decide: Callable[[], Decision[T]]) -> Decision[T]:
        def act() -> Decision[T]:
            decision = decide()
            self.carry_out(decision)
            return decision

        return await self.cold.until_read(act)

    async def _run_on(self, decision: Decision[T]) -> T:
        while (next_part := decision.next_part) is not None:
            await this_turn().end()
            decide = partial(self._decide_part, next_part)
            decision = await self.until_carried_out(decide)
        reply = decision.reply
        if decision.look is not None:
            reply = decision.look(self.keyspace, self.now_ms())
        del decision  # free it: it may hold many entries
        return await self.durable(reply)

    def _decide_part(self, part: Step[T]) -> Decision[T]:
        return part(self.current(), self.now_ms())

    async def run_all(self, steps: Sequence[Step[T]]) -> list[T | StreamError]:
        return await self.durable(self.record_all(steps))

    def record_all(self, steps: Sequence[Step[T]]) -> list[T | StreamError]:
        """Carry out steps as one record; an error takes the place of a failed step's reply."""
        with self.one_record():
            return [*map(self.stage, steps)]

    @contextmanager
    def one_record(self) -> Iterator[None]:
        """Let the staged commands be one record; the waiters are served at the end (MULTI, EXEC).

        A crash leaves either the whole record or nothing. If a step raises an error other than
        `StreamError`, the steps before it stay in effect.
        """
        self.current()
        self._staged_at_ms = self.now_ms()
        try:
            with self.cold.at_once(), self.schemas.at_once():
                yield
        finally:
            if self._broken is None:
                self._append_staged()
            self.waiters.serve()

    def _append_staged(self) -> None:
        try:
            self.storage.append_staged()
        except BaseException as error:
            self._break(error)
            raise

    def stage(self, step: Step[U]) -> U | StreamError:
        """Carry out a step of one record; return its reply, or the error with which it failed.

        A step that fails changes nothing. One so long that it would be done in parts fails. A
        condition that does not hold raises StreamsChanged.
        """
        keyspace, now_ms = self.keyspace, self._staged_at_ms
        try:
            decision = step(keyspace, now_ms)
            self.hide(decision)
            if decision.next_part is not None:
                raise Invalid(_TOO_MUCH)
            keyspace.require(decision.commands)
            self._check_room(decision.commands)
            self.storage.stage(decision.commands)
        except StreamsChanged:  # the condition of all
            raise
        except StreamError as error:
            return error.with_traceback(None)  # or its frames lead back to it
        self._apply(decision.commands)
        look = decision.look
        return decision.reply if look is None else look(keyspace, now_ms)

    def settle(self, decision: Decision[T]) -> T:
        """Carry out a decision that has no further part; return the reply, durable or not."""
        self.carry_out(decision)
        look = decision.look
        return decision.reply if look is None else look(self.keyspace, self.now_ms())

    def carry_out(self, decision: Decision[Any]) -> None:
        self.hide(decision)
        self.commit(decision.commands)

    def commit(self, commands: list[c.Command]) -> None:
        if commands:
            self._record_and_apply(commands)
            self.waiters.serve()

    async def durable(self, reply: T) -> T:
        storage = self.storage
        position = storage.position
        if self._broken is not None:
            raise Unavailable(_BROKEN)
        if position > storage.durable_position:
            await storage.wait_durable(position)
        return reply

    async def until_durable(self, position: int) -> None:
        if self._broken is not None:
            raise Unavailable(_BROKEN)
        if position > self.storage.durable_position:
            await self.storage.wait_durable(position)

    async def block(self, waiter: Waiter[T], wait_ms: int | None) -> T | None:
        """Block a read until served, None: too late; TooManyWaiters, Draining or Unavailable."""
        if self.storage.failure is not None:  # no entry can arrive any more
            raise Unavailable(self.storage.failure)
        self.waiters.add(waiter)
        loop = asyncio.get_running_loop()
        timer = None if wait_ms is None else loop.call_later(wait_ms / 1000, waiter.expire)
        try:
            return await waiter.served
        except Exception:
            waiter.forget_error()
            raise
        finally:
            if timer is not None:
                timer.cancel()
            self.waiters.remove(waiter)
            waiter.leave()

    def hide(self, decision: Decision[Any]) -> None:
        for unclaimable in decision.unclaimable:
            self.keyspace.hide(*unclaimable)

    def replay(self, record: Sequence[c.Command]) -> None:
        commands = [*record]
        self.keyspace.require(commands)
        self._apply(commands)
        self.waiters.serve()

    def _record_and_apply(self, commands: list[c.Command]) -> None:
        if commands:
            self.keyspace.require(commands)
            self._check_room(commands)
            self.storage.append(commands)
            self._apply(commands)

    @property
    def must_freeze(self) -> bool:
        return self._may_be_tight and self._memory_bounds.is_tight(
            self.keyspace.memory.size_bytes, self.storage.freezable_bytes
        )

    async def until_frozen(self) -> None:
        """Return when there is room in memory, or a rewrite does not make any in time."""
        await own_task()  # timeouts need one
        over_ms = self.clock.monotonic_ms() + FREEZING_MS_MAX
        while self.must_freeze and self.clock.monotonic_ms() < over_ms:
            if not await self.storage.until_frozen():
                return

    def require_room(self) -> None:
        """Raise MemoryFull or Unavailable (disk) if there is no room for additions."""
        if self._memory_bounds.is_full(self.keyspace.memory.size_bytes):
            raise MemoryFull
        if self.storage.refusal is not None:
            raise self.storage.unavailable

    def _check_room(self, commands: list[c.Command]) -> None:
        """Refuse commands without memory for them, or if the memory left is for acks.

        A command that adds to the streams is refused when memory is full. One that adds what is
        pending, a consumer or an error is refused only when memory is beyond its bound, or when the
        disk is nearly full. The storage itself refuses what adds to the streams when it is short.
        """
        bounds, size_bytes = self._memory_bounds, self.keyspace.memory.size_bytes
        is_full, is_scarce = bounds.is_full(size_bytes), self.storage.is_scarce
        self._may_be_tight = bounds.may_be_tight(size_bytes)
        if not is_full and not is_scarce:
            return
        if is_full and takes_room(commands):
            raise MemoryFull
        is_beyond = is_full and bounds.is_beyond(size_bytes)
        if (is_beyond or is_scarce) and holds_more(self.keyspace, commands):
            raise MemoryFull if is_beyond else self.storage.unavailable

    def _make_room(self) -> None:
        """Trim the oldest entries while there is too much, at most `MAKING_ROOM_MAX` times."""
        for _ in range(MAKING_ROOM_MAX):
            if not self._has_too_much():
                return
            try:
                self._trim_oldest()
            except Missing:
                if self._trimming is None or self._trimming.done():
                    self._trimming = asyncio.ensure_future(self._trim_cold())
                return

    def _trim_oldest(self) -> None:
        trimming = trims.trim_oldest(self.keyspace, self._trimmed_name)
        self._trimmed_name = trimming.reply
        self._record_and_apply(trimming.commands)

    async def _trim_cold(self) -> None:
        """Trim the oldest entries once the extent is in memory in which the trim ends."""
        with suppress(Unavailable):
            await self.cold.until_read(self._trim_oldest)

    def _has_too_much(self) -> bool:
        """Tell whether memory is full, or the disk: what is trimmed leaves that with a rewrite."""
        memory, data_bytes_max = self.keyspace.memory, self.storage.data_bytes_max
        if data_bytes_max is not None and memory.data_bytes > data_bytes_max:
            return True
        return self._memory_bounds.is_full(memory.size_bytes) and not self.storage.freezable_bytes

    def _apply(self, commands: list[c.Command]) -> None:
        keyspace, waiters, groups = self.keyspace, self.waiters, self.pattern_groups
        try:
            self.storage.change_count += changes_by(keyspace, commands)
            for command in commands:
                if self.takeovers:
                    self.takeovers.note(keyspace, command)
                self.activity.note(keyspace, command)
                freed = signals.holders_before(keyspace, waiters, command)
                lost = groups.holders_before(keyspace, command) if groups else ()
                keyspace.apply(command)
                signals.notify(keyspace, waiters, command)
                if self.followers:
                    self.followers.note(command)
                if keyspace.memory.has_turns:
                    signals.notify_of_turns(keyspace, waiters, command)
                for names in freed:
                    waiters.freed(*names)
                if groups:
                    groups.note(keyspace, command, lost)
                if keyspace.memory.has_turns:
                    signals.forget_news(keyspace, command)
            self.storage.replay_us = keyspace.replay_us
            if keyspace.memory.held_bytes > HELD_BYTES_MAX:
                self.on_held()
        except BaseException as error:
            self._break(error)
            raise

    def _break(self, error: BaseException) -> None:
        self._broken = error
        self._is_broken.set()
        self.storage.abandon(_BROKEN)
        self.waiters.fail(Unavailable(_BROKEN))

    def _claimable(self, key: QueueKey, waiter: Waiter[Any]) -> Claimable:
        stream = self.current().find(key.stream)
        group = None if stream is None or key.group is None else stream.groups.get(key.group)
        if stream is None or group is None or waiter.claim_idle_ms is None:
            return Claimable(None, is_for_all=True)
        own, steady_ms = waiter.consumer if waiter.spares_own else None, self.steady_ms()
        at_ms, is_for_all = claimable_at(key.stream, group, waiter.claim_idle_ms, own, steady_ms)
        if waiter.by_policy and (group.policy.has_rules or group.pel.turns is not None):
            at_ms = allowed_at(stream, group, at_ms, steady_ms, self.keyspace.clock_set_ms)
            is_for_all = False
        return Claimable(at_ms, is_for_all)


def _cached_bytes_max(memory: MemoryBounds) -> int:
    if memory.size_bytes_max is None:
        return CACHED_BYTES
    return memory.size_bytes_max // CACHED_SHARE


def _nothing() -> None:
    """Do nothing about open ranges that hold too much."""
