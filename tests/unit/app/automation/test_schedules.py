"""The runner over an engine, in virtual time: outages, clocks that are set, refusals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from headgate.app.automation.schedules import RETRY_MS, UNPLANNED_MS, ScheduleRunner
from headgate.engine.engine import Engine
from headgate.engine.entry import MAX_ID, Draft
from headgate.engine.errors import Disconnected, MemoryFull
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.requests import Request
from headgate.engine.requests.entries import Add, Range
from headgate.engine.requests.keyspace import SetCounters
from headgate.engine.requests.schedules import GetSchedule, RunSchedule, SetSchedule
from headgate.engine.schedules import Definition, Missed, Progress
from tests.virtual_time import VirtualClock, in_virtual_time

T = TypeVar("T")

S = b"jobs"
NAME = b"hourly"
MINUTE_S, HOUR_S = 60, 3_600
HOUR_MS = 3_600_000
START_MS = 1_000 * HOUR_MS


async def here(act: Callable[[], T]) -> T:
    """Call a function at once: a thread would not wait for virtual time."""
    return act()


class Place:
    """An engine with a clock, and requests that fail as they are told to."""

    def __init__(self) -> None:
        self.clock = VirtualClock(START_MS)
        self.engine = Engine(MemoryStorage(), clock=self.clock)
        self.refuse: Callable[[Request[Any]], Exception | None] = lambda _: None
        self.runner = ScheduleRunner(self.perform, here)

    async def perform(self, request: Request[T]) -> T:
        refusal = self.refuse(request)
        if refusal is not None:
            raise refusal
        return await self.engine.perform(request)

    async def set(self, name: bytes = NAME, zone: str = "UTC", in_ms: int = HOUR_MS) -> None:
        definition = Definition(S, (b"a", b"1"), "0 * * * *", zone, Missed.RUN_ONCE)
        await self.engine.perform(SetSchedule(name, definition, self.clock.wall_ms() + in_ms, 0))

    async def hours(self) -> list[float]:
        """Return the due times of the entries, in hours since the beginning."""
        if self.engine.keyspace.find(S) is None:
            return []
        entries = await self.engine.perform(Range(S))
        return [(int(entry.fields[-1]) - START_MS) / HOUR_MS for entry in entries]

    async def progress(self, name: bytes = NAME) -> Progress:
        return (await self.engine.perform(GetSchedule(name))).progress

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.runner.run())
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    def counts(self) -> list[float]:
        return [family.samples[0].value for family in self.runner.families()]


@in_virtual_time
async def test_an_entry_is_appended_at_each_due_time() -> None:
    place = Place()
    async with place.running():
        await asyncio.sleep(1)
        await place.set(in_ms=HOUR_MS - 1_000)  # while the runner waits
        await asyncio.sleep(HOUR_S - 1.01)
        assert await place.hours() == []
        await asyncio.sleep(0.02)
        assert await place.hours() == [1]
        await asyncio.sleep(2 * HOUR_S)
        assert await place.hours() == [1, 2, 3]
    assert place.counts() == [1, 3, 0, 0]
    assert (await place.progress()).next_due_ms == START_MS + 4 * HOUR_MS


@in_virtual_time
async def test_after_an_outage_the_latest_missed_time_is_run_once() -> None:
    place = Place()
    await place.set()
    await asyncio.sleep(3.5 * HOUR_S)  # nobody runs it
    async with place.running():
        await asyncio.sleep(1)
        assert await place.hours() == [3]
        await asyncio.sleep(HOUR_S)
        assert await place.hours() == [3, 4]
    assert (await place.progress()).missed_count == 2
    assert place.counts() == [1, 2, 2, 0]


@in_virtual_time
async def test_a_clock_that_is_set_back_runs_no_due_time_twice() -> None:
    place = Place()
    await place.set()
    async with place.running():
        await asyncio.sleep(2.5 * HOUR_S)
        assert await place.hours() == [1, 2]
        place.clock.step(-2 * HOUR_MS)
        await asyncio.sleep(2 * HOUR_S)
        assert await place.hours() == [1, 2]
        await asyncio.sleep(HOUR_S)
        assert await place.hours() == [1, 2, 3]


@in_virtual_time
async def test_an_append_that_is_refused_for_now_is_tried_again() -> None:
    place = Place()
    await place.set()
    place.refuse = lambda request: MemoryFull() if isinstance(request, RunSchedule) else None
    async with place.running():
        await asyncio.sleep(HOUR_S + 1)
        progress = await place.progress()
        assert progress.refusal is not None
        assert (progress.refusal.code, progress.refused_count) == ("memory_full", 1)
        assert progress.next_due_ms == START_MS + HOUR_MS
        assert progress.retry_at_ms == START_MS + HOUR_MS + RETRY_MS
        place.refuse = lambda _: None
        await asyncio.sleep(30)
        assert await place.hours() == [1]
    assert (await place.progress()).refusal is None
    assert place.counts() == [1, 1, 0, 1]


@in_virtual_time
async def test_an_append_that_is_refused_for_good_is_passed() -> None:
    place = Place()
    await place.set()
    await place.engine.perform(Add(S, [Draft(None, (b"a", b"1"))]))
    await place.engine.perform(SetCounters(S, last_id=MAX_ID))
    async with place.running():
        await asyncio.sleep(HOUR_S + 1)
    progress = await place.progress()
    assert progress.refusal is not None
    assert (progress.refusal.code, progress.refusal.at_ms) == ("id_not_greater", START_MS + HOUR_MS)
    assert progress.next_due_ms == START_MS + 2 * HOUR_MS


@in_virtual_time
async def test_servers_that_are_away_are_asked_again() -> None:
    place = Place()
    await place.set()
    place.refuse = lambda _: Disconnected("they are gone")
    async with place.running():
        await asyncio.sleep(HOUR_S + 10)
        assert await place.hours() == []
        place.refuse = lambda _: None
        await asyncio.sleep(2)
        assert await place.hours() == [1]
    assert (await place.progress()).refused_count == 0


@in_virtual_time
async def test_a_schedule_whose_time_zone_has_gone_holds_up_no_other() -> None:
    place = Place()
    await place.set(b"gone", zone="Gone/Zone")
    await place.set()
    async with place.running():
        await asyncio.sleep(HOUR_S + 1)
        assert await place.hours() == [1]
        progress = await place.progress(b"gone")
    assert progress.refusal is not None
    assert progress.refusal.code == "invalid_request"
    assert progress.retry_at_ms == START_MS + HOUR_MS + UNPLANNED_MS
