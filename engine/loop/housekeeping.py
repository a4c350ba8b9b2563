"""Housekeeping: removes what has become too old, and does the regular work of group policies.

Each stream that keeps entries or keys for a limited time stands in a heap, with the time at which
its first entry or key is too old. This time can only become later, unless a command changes it;
such streams are listed in `Keyspace.unplanned`. So a stream is looked at only when something of it
may be due. The work of group policies is not planned: all groups with a policy are visited in turn.

No single step takes long. All steps together take a limited share of each second, and the rest of
the work waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from heapq import heappop, heappush
from typing import Any, Protocol, TypeVar

from headgate.engine.decisions import Decision, compaction, keys, policies, streams, tables, trims
from headgate.engine.decisions.group_reads import settling
from headgate.engine.decisions.group_reads.ahead_entries import indexed
from headgate.engine.entry import EntryId
from headgate.engine.errors import GroupNotFound, NotATable, StreamNotFound, Unavailable
from headgate.engine.limits import (
    COMPACTED_PARTS_MAX,
    DEAD_LETTERS_AT_ONCE_MAX,
    HOUSEKEEPING_MS_MAX,
    HOUSEKEEPING_PIECES_MAX,
)
from headgate.engine.periodic import Watch, repeat
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.memory import Pieces
from headgate.engine.state.table import Compaction
from headgate.engine.threads import this_turn

T = TypeVar("T")

HOUSEKEEPING_INTERVAL_S = 1.0
"""Pause between two rounds of housekeeping, in seconds."""

_FAILED_LATER_MS = 1_000
"""When a stream is looked at again whose old entries could not be removed."""


class CarryOut(Protocol):
    async def __call__(self, decide: Callable[[], Decision[T]], /) -> Decision[T]:
        """Return the decision that was carried out; `decide` may be called again."""
        ...


class Housekeeping:
    def __init__(
        self,
        keyspace: Callable[[], Keyspace],
        carry_out: CarryOut,
        now_ms: Callable[[], int],
        watch: Watch,
    ) -> None:
        """Get ready to run; `keyspace` returns the current state without expired streams."""
        self._keyspace = keyspace
        self._carry_out = carry_out
        self._now_ms = now_ms
        self._watch = watch
        self._due: list[tuple[int, bytes]] = []  # a heap; `_due_ms` tells which items are valid
        self._due_ms: dict[bytes, int] = {}  # by stream
        self._clock_set_ms = 0  # `Keyspace.clock_set_ms` at the last planning

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._repeat("housekeeping of ages", self._keep_ages))
            tasks.create_task(self._repeat("housekeeping of policies", self._keep_policies))
            tasks.create_task(self._repeat("housekeeping of tables", self._keep_tables))

    async def _repeat(self, name: str, work: Callable[[_Pace], Coroutine[Any, Any, None]]) -> None:
        async def do_round() -> None:
            await asyncio.sleep(HOUSEKEEPING_INTERVAL_S)
            await work(_Pace())

        await repeat(do_round, self._watch(name))

    # By age

    async def _keep_ages(self, pace: _Pace) -> None:
        self._now_ms()  # follow a clock that is adjusted in small steps
        keyspace = self._keyspace()
        left = len(keyspace.expiring) + 1
        while left > len(times := keyspace.expiring.keys()) > 0 and times[0][0] <= self._now_ms():
            left = len(times)  # if no stream goes, the storage refuses changes
            await this_turn().end()  # no pause: the expired streams are still visible
            keyspace = self._keyspace()
        await self._plan_again(pace)
        keyspace = self._keyspace()
        while keyspace.unplanned:
            name = next(reversed(keyspace.unplanned))
            self._plan(keyspace, name)
            del keyspace.unplanned[name]
            await pace.go_on()
            keyspace = self._keyspace()
        while self._due and self._due[0][0] <= self._now_ms():
            due_ms, name = heappop(self._due)
            if self._due_ms.get(name) != due_ms:
                continue
            try:
                with suppress(StreamNotFound):
                    await self._let_go(name, pace)
            except Unavailable:  # the storage refuses changes now
                heappush(self._due, (due_ms, name))
                return
            except Exception:  # the others come first when this is tried again
                self._due_ms[name] = later_ms = self._now_ms() + _FAILED_LATER_MS
                heappush(self._due, (later_ms, name))
                raise
            del self._due_ms[name]
            # What could not be removed now is tried again later.
            self._plan(self._keyspace(), name, not_before_ms=self._now_ms() + 1)
            await pace.go_on()

    async def _plan_again(self, pace: _Pace) -> None:
        """Plan again when keys are due if the wall clock was set: keys age by steady time."""
        keyspace = self._keyspace()
        if keyspace.clock_set_ms == self._clock_set_ms:
            return
        self._clock_set_ms = keyspace.clock_set_ms
        for name in list(keyspace.keyed):
            self._plan(self._keyspace(), name)
            await pace.go_on()

    def _plan(self, keyspace: Keyspace, stream: bytes, *, not_before_ms: int = 0) -> None:
        due_ms = streams.due_ms(keyspace, stream)
        if due_ms is None:
            self._due_ms.pop(stream, None)
        elif self._due_ms.get(stream) != due_ms:
            due_ms = max(due_ms, not_before_ms)
            self._due_ms[stream] = due_ms
            heappush(self._due, (due_ms, stream))

    async def _let_go(self, stream: bytes, pace: _Pace) -> None:
        await self._let_expire(stream, pace)
        if stream in self._keyspace().retaining:
            await self._repeat_while_some_goes(trims.retain, stream, pace)
        if stream in self._keyspace().keyed:
            await self._repeat_while_some_goes(keys.forget_keys, stream, pace)

    async def _repeat_while_some_goes(
        self, decide: Callable[[Keyspace, bytes, int], Decision[None]], stream: bytes, pace: _Pace
    ) -> None:
        def act() -> Decision[None]:
            return decide(self._keyspace(), stream, self._now_ms())

        while (await self._carry_out(act)).commands:
            await pace.go_on()

    async def _let_expire(self, stream: bytes, pace: _Pace) -> None:
        while ids := self._expired(stream):
            await self._visit_groups(
                stream, lambda group: self._settle(stream, group, pace, ids), pace
            )
            deadlines = self._keyspace().stream(stream).deadlines
            if deadlines is not None:
                deadlines.pass_all(ids)

    def _expired(self, stream: bytes) -> Sequence[EntryId]:
        keyspace = self._keyspace()
        deadlines = keyspace.stream(stream).deadlines
        if deadlines is None:
            return ()
        return deadlines.due(keyspace.steady_ms(self._now_ms()), DEAD_LETTERS_AT_ONCE_MAX)

    # By policy

    async def _keep_policies(self, pace: _Pace) -> None:
        after, failure = b"", None
        while True:
            name = next(self._keyspace().governed.irange(after, inclusive=(not after, True)), None)
            if name is None:
                break
            try:
                with suppress(GroupNotFound, StreamNotFound, Unavailable):
                    await self._keep_groups(name, pace)
            except Exception as error:  # noqa: BLE001  raised below: the others are not to wait
                failure = error
            after = name
        if failure is not None:
            raise failure

    async def _keep_groups(self, stream: bytes, pace: _Pace) -> None:
        async def keep(group: bytes) -> None:
            await self._settle(stream, group, pace)
            await self._index(stream, group, pace)
            await self._forget_consumers(stream, group, pace)

        await self._visit_groups(stream, keep, pace)

    async def _visit_groups(
        self, stream: bytes, work: Callable[[bytes], Coroutine[Any, Any, None]], pace: _Pace
    ) -> None:
        after = b""
        while True:
            groups = self._keyspace().stream(stream).groups
            group = next(groups.irange(after, inclusive=(not after, True)), None)
            if group is None:
                return
            with suppress(GroupNotFound):  # another request may destroy the group meanwhile
                await work(group)
            await pace.go_on()
            after = group

    async def _settle(
        self, stream: bytes, group: bytes, pace: _Pace, ids: Sequence[EntryId] | None = None
    ) -> None:
        is_over = False
        while not is_over:
            decision = await self._carry_out(
                lambda: settling.settle(
                    self._keyspace(), stream, group, None, self._now_ms(), released=ids
                )
            )
            is_over = not decision.reply and (ids is not None or not decision.unclaimable)
            await pace.go_on()

    async def _index(self, stream: bytes, group: bytes, pace: _Pace) -> None:
        def act() -> Decision[None]:
            keyspace = self._keyspace()
            more = indexed(keyspace.stream(stream), keyspace.group(stream, group))
            return Decision(None, [] if more is None else [more])

        while (await self._carry_out(act)).commands:
            await pace.go_on()

    async def _forget_consumers(self, stream: bytes, group: bytes, pace: _Pace) -> None:
        after: bytes | None = b""
        while after is not None:
            decide = partial(self._forgotten, stream, group, after)
            after = (await self._carry_out(decide)).reply
            await pace.go_on()

    def _forgotten(self, stream: bytes, group: bytes, after: bytes) -> Decision[bytes | None]:
        return policies.forget_consumers(
            self._keyspace(), stream, group, self._now_ms(), after=after
        )

    # Tables

    async def _keep_tables(self, pace: _Pace) -> None:
        after = b""
        while True:
            name = next(self._keyspace().tables.irange(after, inclusive=(not after, True)), None)
            if name is None:
                return
            with suppress(StreamNotFound, NotATable, Unavailable):
                await self._keep_table(name, pace)
            await pace.go_on()
            after = name

    async def _keep_table(self, name: bytes, pace: _Pace) -> None:
        def index() -> Decision[None]:
            stream, table = tables.table_of(self._keyspace(), name)
            behind = stream.is_behind(table)
            return Decision(None, [tables.indexed(stream, table)] if behind else [])

        while (await self._carry_out(index)).commands:
            await pace.go_on()
        stream, table = tables.table_of(self._keyspace(), name)
        past = table.take_past(self._now_ms())
        if past is not None:
            self._keyspace().dispose(past.dismantle())
        start: bytes | None = b""
        while start is not None and tables.has_ghosts(stream, table):
            forget = partial(self._forgotten_rows, name, start)
            start = (await self._carry_out(forget)).reply
            await pace.go_on()
            stream, table = tables.table_of(self._keyspace(), name)
        await self._compact(name, pace)

    async def _compact(self, name: bytes, pace: _Pace) -> None:
        def act() -> Decision[Compaction]:
            return compaction.compacted(*tables.table_of(self._keyspace(), name), self._now_ms())

        for _ in range(COMPACTED_PARTS_MAX):
            stream, table = tables.table_of(self._keyspace(), name)
            if not compaction.is_due(stream, table, self._now_ms()):
                return
            table.compaction = (await self._carry_out(act)).reply
            await pace.go_on()

    def _forgotten_rows(self, name: bytes, start: bytes) -> Decision[bytes | None]:
        command, start_next = tables.forgotten(*tables.table_of(self._keyspace(), name), start)
        return Decision(start_next, [] if command is None else [command])


class _Pace:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._began_s = self._loop.time()
        self._used_s = 0.0
        self._pieces = 0

    async def go_on(self) -> None:
        self._pieces += 1
        turn = this_turn()
        if not turn.is_over and self._pieces < HOUSEKEEPING_PIECES_MAX:
            return
        self._used_s += self._loop.time() - self._began_s
        if self._used_s < HOUSEKEEPING_MS_MAX / 1000:
            await turn.end()
        else:
            await asyncio.sleep(HOUSEKEEPING_INTERVAL_S)
            self._used_s = 0.0
        self._began_s, self._pieces = self._loop.time(), 0


# Disposal: memory that no longer belongs to the state is freed in small steps (Redis: lazyfree).
#
# See `state/memory.py`. This module lets other requests run between the steps.


class Disposal:
    def __init__(self) -> None:
        self._left: deque[Pieces] = deque()
        self._has_some = asyncio.Event()

    def take(self, pieces: Pieces) -> None:
        self._left.append(pieces)
        self._has_some.set()

    async def free_next(self) -> None:
        """Free the next pieces, once there are any. Where that fails, the rest goes at once."""
        if not self._left:
            self._has_some.clear()
            await self._has_some.wait()
        for _ in self._left.popleft():
            await this_turn().end()
