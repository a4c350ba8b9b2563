import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from headgate.app.auth.grants import UsageLimits
from headgate.app.auth.limits.shared_usage import SharedUsage
from headgate.app.auth.limits.usage import RateLimited, Usages
from headgate.app.runtime.siblings import SharedCounts
from headgate.app.wire.problems import GatewayError
from tests.conditions import until
from tests.siblings import Sibling

LIMITS = UsageLimits(entries_per_s_max=10, connections_max=2)


class Process(Sibling):
    """A process that shares its usage."""

    def __init__(self, number: int, others: list[Sibling]) -> None:
        super().__init__(number, others)
        self.usages = Usages(UsageLimits(), lambda: 0.0)
        self.shared = SharedUsage(self.usages, self)


@asynccontextmanager
async def running(*processes: Process) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        sharing = [tasks.create_task(process.shared.run()) for process in processes]
        yield
        for task in sharing:
            task.cancel()


async def test_what_is_spent_at_one_process_is_owed_at_the_other() -> None:
    others: list[Sibling] = []
    here, there = Process(1, others), Process(2, others)
    async with running(here, there):
        here.usages.of("who", LIMITS).charge(entries=100)
        usage = there.usages.of("who", LIMITS)

        def is_owed() -> bool:
            try:
                usage.charge(entries=0)
            except RateLimited:
                return True
            return False

        await until(is_owed, 10)
        with pytest.raises(RateLimited) as refused:
            usage.charge(entries=1)
    assert refused.value.retry_after_ms == 9_100


async def test_what_is_in_use_counts_everywhere_until_its_process_is_gone() -> None:
    others: list[Sibling] = []
    here, there = Process(1, others), Process(2, others)
    async with running(here, there):
        connections = here.usages.of("who", LIMITS).connections
        connections.take()
        connections.take()
        elsewhere = there.usages.of("who", LIMITS).connections
        await until(lambda: elsewhere.elsewhere == 2, 10)
        with pytest.raises(GatewayError):
            elsewhere.take()
        connections.give_back()
        await until(lambda: elsewhere.elsewhere == 1, 10)
        elsewhere.take()
        for take in there.departures:
            take(here.number)
        assert elsewhere.elsewhere == 0
        elsewhere.take()


async def test_who_comes_later_hears_what_is_in_use() -> None:
    others: list[Sibling] = []
    here = Process(1, others)
    async with running(here):
        here.usages.of("who", LIMITS).connections.take()
        await until(lambda: here.announced_count)  # to nobody
        there = Process(2, others)
        for take in here.arrivals:
            take()
        connections = there.usages.of("who", LIMITS).connections
        await until(lambda: connections.elsewhere == 1, 10)


async def test_counts_of_processes_are_added_and_go_with_them() -> None:
    others: list[Sibling] = []
    here, there = Process(1, others), Process(2, others)
    own = {"connections": 3}
    counts = SharedCounts(here, "counts", lambda: dict(own))
    seen = SharedCounts(there, "counts", lambda: {"connections": 0})
    task = asyncio.create_task(counts.run())
    await until(lambda: seen.elsewhere("connections") == 3, 10)
    own["connections"] = 1
    await until(lambda: seen.elsewhere("connections") == 1, 10)
    for take in there.departures:
        take(here.number)
    assert seen.elsewhere("connections") == 0
    task.cancel()


async def test_a_sibling_hears_counts_that_arrives_while_they_are_announced() -> None:
    others: list[Sibling] = []
    here = Process(1, others)
    on_its_way = asyncio.Event()
    may_arrive = asyncio.Event()

    async def announce_slowly(topic: str, body: bytes) -> None:
        await Sibling.announce(here, topic, body)
        on_its_way.set()
        await may_arrive.wait()

    here.announce = announce_slowly  # type: ignore[method-assign]
    counts = SharedCounts(here, "counts", lambda: {"connections": 3})
    task = asyncio.create_task(counts.run())
    await on_its_way.wait()
    seen = SharedCounts(Process(2, others), "counts", lambda: {"connections": 0})
    for take in here.arrivals:
        take()
    may_arrive.set()
    await until(lambda: seen.elsewhere("connections") == 3, 10)
    task.cancel()
