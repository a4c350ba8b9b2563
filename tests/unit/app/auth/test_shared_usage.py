"""What principals use at all processes of a gateway counts as one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from headgate.app.auth.grants import UsageLimits
from headgate.app.auth.usage import RateLimited, SharedUsage, Usages
from headgate.app.runtime.siblings import SharedCounts
from headgate.app.wire.problems import GatewayError
from tests.siblings import Sibling
from tests.virtual_time import in_virtual_time

LIMITS = UsageLimits(entries_per_s_max=10, connections_max=2)


class Process(Sibling):
    """A process that shares its usage."""

    def __init__(self, number: int, others: list[Sibling]) -> None:
        super().__init__(number, others)
        self.usages = Usages(UsageLimits(), lambda: 0.0)
        self.shared = SharedUsage(self.usages, self)


@asynccontextmanager
async def running(*shared: SharedUsage | SharedCounts) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(each.run()) for each in shared]
    yield
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


@in_virtual_time
async def test_what_is_spent_at_one_process_is_owed_at_the_other() -> None:
    others: list[Sibling] = []
    here, there = Process(1, others), Process(2, others)
    async with running(here.shared, there.shared):
        here.usages.of("who", LIMITS).charge(entries=100)
        await asyncio.sleep(1)
        with pytest.raises(RateLimited) as refused:
            there.usages.of("who", LIMITS).charge(entries=1)
    assert refused.value.retry_after_ms == 9_100


@in_virtual_time
async def test_what_is_in_use_counts_everywhere_until_its_process_is_gone() -> None:
    others: list[Sibling] = []
    here = Process(1, others)
    connections = here.usages.of("who", LIMITS).connections
    async with running(here.shared):
        connections.take()
        connections.take()
        await asyncio.sleep(1)  # nobody hears of it
        there = Process(2, others)
        for arrive in here.arrivals:
            arrive()
        await asyncio.sleep(1)
        elsewhere = there.usages.of("who", LIMITS).connections
        with pytest.raises(GatewayError):
            elsewhere.take()
        connections.give_back()
        await asyncio.sleep(1)
        elsewhere.take()
        for depart in there.departures:
            depart(here.number)
        elsewhere.take()


@in_virtual_time
async def test_counts_of_processes_are_added_and_go_with_them() -> None:
    others: list[Sibling] = []
    here, own = Process(1, others), {"connections": 3}

    async def announce_slowly(topic: str, body: bytes) -> None:
        await Sibling.announce(here, topic, body)
        await asyncio.sleep(10)

    here.announce = announce_slowly  # type: ignore[method-assign]
    async with running(SharedCounts(here, "counts", lambda: dict(own))):
        await asyncio.sleep(5)
        there = Process(2, others)  # it arrives while they are announced, and hears them
        seen = SharedCounts(there, "counts", lambda: {"connections": 0})
        for arrive in here.arrivals:
            arrive()
        for count in (3, 1):
            own["connections"] = count
            await asyncio.sleep(30)
            assert seen.elsewhere("connections") == count
        for depart in there.departures:
            depart(here.number)
        assert seen.elsewhere("connections") == 0
