"""Appends the entries of schedules when they are due.

The backend says what is due and remembers what was run, so this keeps no state. An append that is
refused for now is retried, and in the end the due time is missed as after an outage; if it is
refused for good, the due time is skipped.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from functools import partial
from itertools import islice
from secrets import token_hex
from typing import NamedTuple, Protocol, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from msgspec.structs import replace
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headgate.app.automation.records import patiently
from headgate.app.backends.port import Perform
from headgate.app.runtime import periodic
from headgate.app.runtime.threads import SCHEDULES
from headgate.app.wire.problems import code_of
from headgate.engine.errors import Disconnected, Invalid, StreamError, Unavailable
from headgate.engine.requests.schedules import AwaitSchedules, PassSchedule, RunSchedule
from headgate.engine.schedules import ONCE, Missed, Refusal, ScheduleInfo

# Due times: those of a cron expression in a time zone.
#
# Expressions are those of Debian's cron, as cronsim implements them. When the clock changes, an
# expression with fixed minutes and hours is due once: a time that does not exist becomes the first
# moment after the gap, and of one that occurs twice the first counts. An expression whose minutes
# or hours begin with `*` follows elapsed time.

MISSED_MS = 60_000
"""A due time so long ago is missed: nobody could run it for so long."""

COUNTED_MAX = 1_000
"""Due times that are counted after an outage. Each one takes up to 20 µs."""

_CRON = re.compile(r"[0-9A-Za-z*/,#-]+( +[0-9A-Za-z*/,#-]+){4}")
_ONCE = re.compile(ONCE + r"[0-9]{1,15}")
_CRON_MAX, _ZONE_MAX = 256, 64
"""Characters. A time that never comes is searched for 50 years, which takes up to 15 ms."""


class DueTimes:
    """The due times of a cron expression, as unix times in milliseconds."""

    def __init__(self, cron: str, time_zone: str) -> None:
        """Raises Invalid for a wrong expression or time zone; the location says which."""
        self._once_ms = int(cron.removeprefix(ONCE)) if _ONCE.fullmatch(cron) else None
        self._cron = cron if self._once_ms is not None else _checked(cron)
        self._zone = _zone_of(time_zone)

    def after(self, at_ms: int) -> int | None:
        """Return the first due time after `at_ms`; None if there is none for 50 years."""
        return next(self._all_after(at_ms), None)

    def first(self, count: int, at_ms: int) -> list[int]:
        """Return the first `count` due times after `at_ms`; fewer if there are no more."""
        return list(islice(self._all_after(at_ms), count))

    def latest(self, through_ms: int, known_ms: int) -> int:
        """Return the latest due time up to `through_ms`; `known_ms` is an earlier due time."""
        if self._once_ms is not None:
            return known_ms
        moment = datetime.fromtimestamp(through_ms / 1000, self._zone)
        back = CronSim(self._cron, moment, reverse=True)
        # Two steps back and then forward: only the way forward says what is due.
        start_ms = min((_ms(next(back, moment)), _ms(next(back, moment))))
        latest_ms = known_ms
        for due_ms in self._all_after(max(start_ms - 1, known_ms)):
            if due_ms > through_ms:
                break
            latest_ms = due_ms
        return latest_ms

    def count(self, from_ms: int, through_ms: int) -> int:
        """Return the number of due times in a period, at most `COUNTED_MAX`."""
        count = 1
        for due_ms in self._all_after(from_ms):
            if due_ms > through_ms or count == COUNTED_MAX:
                break
            count += 1
        return count

    def _all_after(self, at_ms: int) -> Iterator[int]:
        if self._once_ms is not None:
            if self._once_ms > at_ms:
                yield self._once_ms
            return
        last_ms = at_ms
        for moment in CronSim(self._cron, datetime.fromtimestamp(at_ms / 1000, self._zone)):
            due_ms = _ms(moment)
            # Where the clock is set, several times become one, or what is later comes earlier.
            if due_ms > last_ms:
                last_ms = due_ms
                yield due_ms


def _ms(moment: datetime) -> int:
    return int(moment.timestamp()) * 1000


def _checked(cron: str) -> str:
    if len(cron) > _CRON_MAX or not _CRON.fullmatch(cron):
        text = (
            "should have five fields, such as `0 6 * * MON-FRI`: minute, hour, day of month, "
            "month, day of week"
        )
        raise Invalid(text, location=("cron",))
    try:
        CronSim(cron, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise Invalid(f"{str(error).lower()}", location=("cron",)) from None
    return cron


def _zone_of(name: str) -> tzinfo:
    if name == "UTC":
        return UTC  # it is there without a database of time zones
    try:
        if len(name) <= _ZONE_MAX:
            return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass
    text = "should be a known time zone, such as `Europe/Berlin` or `UTC`"
    raise Invalid(text, location=("time_zone",))


class DuePlan(NamedTuple):
    due_ms: int | None  # what is run; None: nothing, as it was missed
    next_due_ms: int | None
    missed_count: int = 0


def plan(info: ScheduleInfo, now_ms: int) -> DuePlan:
    """Return what to do about a due schedule. Raises Invalid if its time zone is now unknown."""
    due_ms, definition = info.progress.next_due_ms, info.definition
    assert due_ms is not None
    times = DueTimes(definition.cron, definition.time_zone)
    if due_ms > now_ms - MISSED_MS:
        return DuePlan(due_ms, times.after(due_ms))
    latest_ms = times.latest(now_ms - MISSED_MS, due_ms)
    missed_count = times.count(due_ms, latest_ms)
    next_due_ms = times.after(latest_ms)
    if definition.missed is Missed.SKIP:
        return DuePlan(None, next_due_ms, missed_count)
    return DuePlan(latest_ms, next_due_ms, missed_count - 1)


T = TypeVar("T")

RUN_AT_ONCE_MAX = 50
"""Schedules that are run together. An engine takes about 3 ms for so many."""

WAIT_MS = 30_000
"""Longest wait for something to be due. Then the clock is read again: somebody may have set it."""

RETRY_MS = 30_000
"""Before a due time that was refused for now is tried again."""

UNPLANNED_MS = 3_600_000
"""Before a schedule is tried again whose time zone is not known any more."""


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
        await periodic.repeat("schedules", partial(patiently, self._run_next))

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
            "missed": ("Due times that were missed, without an entry.", self._missed_count),
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
