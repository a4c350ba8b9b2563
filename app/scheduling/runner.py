"""Appends the entries of schedules when they are due.

The backend says what is due and remembers what was run, so this keeps no state. An append that is
refused for now is retried, and in the end the due time is missed as after an outage; if it is
refused for good, the due time is skipped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from secrets import token_hex
from typing import Protocol, TypeVar

from msgspec.structs import replace
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headgate.app.backends.port import Perform
from headgate.app.runtime import periodic
from headgate.app.runtime.threads import SCHEDULES
from headgate.app.scheduling.due_times import DuePlan, plan
from headgate.app.wire.problems import code_of
from headgate.engine.entry import MIN_ID
from headgate.engine.errors import (
    Disconnected,
    IdsExhausted,
    Invalid,
    LimitReached,
    StreamError,
    Unavailable,
)
from headgate.engine.requests.entries import Add, Trim, TrimTo
from headgate.engine.requests.keyspace import SetCounters
from headgate.engine.requests.schedules import AwaitSchedules, PassSchedule, RunSchedule
from headgate.engine.schedules import Refusal, ScheduleInfo

T = TypeVar("T")

RUN_AT_ONCE_MAX = 50
"""Schedules that are run together. An engine takes about 3 ms for so many."""

WAIT_MS = 30_000
"""Longest wait for something to be due. Then the clock is read again: somebody may have set it."""

RETRY_MS = 30_000
"""Before a due time that was refused for now is tried again."""

UNPLANNED_MS = 3_600_000
"""Before a schedule is tried again whose time zone is not known any more."""

_PAUSE_S = 1.0
"""Pause while nothing can be noted."""


class Elsewhere(Protocol):
    def __call__(self, act: Callable[[], T], /) -> Awaitable[T]: ...


class ScheduleRunner:
    """Runs the schedules of a backend, in only one process."""

    def __init__(self, perform: Perform, elsewhere: Elsewhere = SCHEDULES.call_if_awaited) -> None:
        self._perform = perform
        self._elsewhere = elsewhere
        self._name = token_hex(8).encode()
        self._schedule_count = 0
        self._run_count = self._missed_count = self._refused_count = 0

    async def run(self) -> None:
        await periodic.repeat("schedules", self.round)

    async def round(self) -> None:
        try:
            await self._run_next()
        except Unavailable:  # nothing can be changed now
            await asyncio.sleep(_PAUSE_S)

    async def _run_next(self) -> None:
        asked = AwaitSchedules(self._name, RUN_AT_ONCE_MAX, WAIT_MS)
        now_ms, due, _, self._schedule_count = await self._perform(asked)
        if not due:
            return
        plans = await self._elsewhere(partial(_plans, due, now_ms))
        outcomes = await asyncio.gather(
            *(self._carry_out(info, each, now_ms) for info, each in zip(due, plans, strict=True)),
            return_exceptions=True,
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _carry_out(self, info: ScheduleInfo, planned: DuePlan | Invalid, now_ms: int) -> None:
        due_ms = info.progress.next_due_ms
        assert due_ms is not None
        passing = PassSchedule(info.name, info.revision, due_ms, due_ms)
        if isinstance(planned, Invalid):
            await self._refuse(replace(passing, retry_at_ms=now_ms + UNPLANNED_MS), planned, now_ms)
            return
        passed = replace(passing, next_due_ms=planned.next_due_ms)
        if planned.due_ms is None:
            if await self._perform(replace(passed, missed_count=planned.missed_count)):
                self._missed_count += planned.missed_count
            return
        running = RunSchedule(
            info.name,
            info.definition.stream,
            info.revision,
            was_due_ms=due_ms,
            due_ms=planned.due_ms,
            next_due_ms=planned.next_due_ms,
            missed_count=planned.missed_count,
        )
        try:
            entry_id = await self._perform(running)
        except Disconnected:  # it may have been appended: then the stream remembers that
            raise
        except Unavailable as error:
            await self._refuse(replace(passing, retry_at_ms=now_ms + RETRY_MS), error, now_ms)
        except StreamError as error:
            await self._refuse(passed, error, now_ms)
        else:
            if entry_id is not None:
                self._run_count += 1
                self._missed_count += planned.missed_count

    async def _refuse(self, passing: PassSchedule, error: StreamError, now_ms: int) -> None:
        self._refused_count += 1
        refusal = Refusal(code_of(error), str(error), now_ms)
        await self._perform(replace(passing, refusal=refusal))

    def families(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("headgate_schedules", "Schedules.", self._schedule_count)
        counts = {
            "runs": ("Entries that schedules have appended.", self._run_count),
            "missed": ("Due times without an entry, as nobody could run them.", self._missed_count),
            "refused": ("Appends of schedules that were refused.", self._refused_count),
        }
        for name, (text, count) in counts.items():
            yield CounterMetricFamily(f"headgate_schedule_{name}", text, count)


def _plans(due: Sequence[ScheduleInfo], now_ms: int) -> list[DuePlan | Invalid]:
    return [_plan(info, now_ms) for info in due]


def _plan(info: ScheduleInfo, now_ms: int) -> DuePlan | Invalid:
    try:
        return plan(info, now_ms)
    except Invalid as error:
        return error


async def append_newest(perform: Perform, append: Add) -> None:
    """Append entries, even if the greatest possible id is taken.

    Ids come from the clock, so such an id was set by hand, or by a client of a Redis server or of
    an earlier version. Whether or not others have read these entries, the ids start over.

    Raises StreamNotFound if the stream does not exist and is not to be created, and StreamsChanged
    if an attribute differs from what the append expects.
    """
    try:
        await perform(append)
    except IdsExhausted:
        await perform(Trim(append.stream, TrimTo(max_length=0)))
        await perform(SetCounters(append.stream, MIN_ID))
        await perform(append)


async def check_share(
    what: str, limit: int, count: int, maker: str | None, makers: Callable[[], AsyncIterator[str]]
) -> None:
    """Raise LimitReached if a principal may not create another one.

    Principals leave a tenth of the room to operators, and each takes at most half of it. `maker`
    None is an operator; `makers` yields the creator of each existing one.
    """
    if count >= (limit if maker is None else limit - limit // 10):
        raise LimitReached(what, limit)
    share = limit // 2
    if maker is None or count < share:
        return
    own_count = 0
    async for other in makers():
        own_count += other == maker
    if own_count >= share:
        raise LimitReached(f"{what} of one principal", share)
