"""Leases: what the connections of a dead gateway held goes to the next reader."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from deploy.local_cluster.server import Server
from headgate.app.backends.port import Holding
from headgate.app.backends.redis.leases import GatewayLeases
from headgate.engine.entry import MIN_ID
from headgate.engine.requests.deliveries import GroupCursor, ReadGroup
from headgate.engine.requests.groups import DescribeConsumer
from tests.conditions import eventually, moment
from tests.contract.calls import ANA, BEN, G, S, filled, held, take, taken
from tests.unit.app.backends.redis.performing.conftest import made, running

LEASE_MS = 300
TEMPORARY = b"temporary-0123456789abcdef"


async def dies(task: asyncio.Task[None]) -> None:
    """End a backend that runs as a killed process would: it releases nothing."""
    task.cancel()
    await asyncio.wait({task})


@pytest.mark.parametrize("consumer", [ANA, TEMPORARY])
async def test_what_a_dead_gateway_held_is_read_by_who_waits_at_another_one(
    server: Server, tmp_path: Path, consumer: bytes
) -> None:
    dying = made(server, tmp_path, lease_ms=LEASE_MS)
    task = asyncio.create_task(dying.run())
    await filled(dying, 1, 2)
    assert dying.leases is not None
    is_temporary = consumer == TEMPORARY
    await dying.leases.register(Holding(S, G, consumer, is_temporary))
    await taken(dying, take(consumer))
    async with running(server, tmp_path, lease_ms=LEASE_MS) as other, asyncio.timeout(20):
        waiting = take(BEN, claim_idle_ms=3_600_000)
        first = asyncio.create_task(taken(other, waiting, None))
        await dies(task)
        deliveries = await first
        while len(deliveries) < 2:
            deliveries += await taken(other, waiting, None)
        # The deliveries that nobody has seen do not count.
        assert [(each.id.ms, each.delivered_before) for each in deliveries] == [(1, 0), (2, 0)]
        mine = await other.perform(DescribeConsumer(S, G, consumer))
        assert (mine is None) == is_temporary


async def test_a_gateway_that_dies_before_its_first_renewal_leaves_no_consumer_behind(
    server: Server, tmp_path: Path
) -> None:
    async with running(server, tmp_path, lease_ms=LEASE_MS) as other, asyncio.timeout(20):
        await filled(other, 1)
        dying = GatewayLeases(other.client, other.perform)  # it never runs
        await dying.register(Holding(S, G, TEMPORARY, is_temporary=True))
        await taken(other, take(TEMPORARY))
        [delivery] = await taken(other, take(BEN, claim_idle_ms=3_600_000), None)
        assert delivery.delivered_before == 0
        described = DescribeConsumer(S, G, TEMPORARY)
        await eventually(lambda: other.perform(described), lambda info: info is None)


async def until_known(server: Server, place: Path, *gateway_counts: int) -> None:
    """Return once so many gateways were known, one count after the other."""
    key = f"hg:{place}:gateways"
    async with asyncio.timeout(20):
        for count in gateway_counts:
            while server.client.scard(key) != count:
                await moment()


async def test_a_consumer_that_reads_elsewhere_by_now_keeps_what_it_holds(
    server: Server, tmp_path: Path
) -> None:
    dying = made(server, tmp_path, lease_ms=LEASE_MS)
    task = asyncio.create_task(dying.run())
    await filled(dying, 1)
    holding = Holding(S, G, ANA, is_temporary=False)
    assert dying.leases is not None
    await dying.leases.register(holding)
    await taken(dying, take(ANA))
    async with running(server, tmp_path, lease_ms=LEASE_MS) as other:
        await until_known(server, tmp_path, 2)
        await dies(task)
        assert other.leases is not None
        await other.leases.register(holding)
        [again] = await taken(other, ReadGroup(G, ANA, [GroupCursor(S, MIN_ID)]))
        assert again.delivered_before == 1
        await until_known(server, tmp_path, 1)
        assert await held(other) == {1: ANA}


async def test_a_gateway_keeps_what_it_holds_while_the_server_has_no_memory_left(
    server: Server, tmp_path: Path
) -> None:
    async with (
        running(server, tmp_path, lease_ms=LEASE_MS) as first,
        running(server, tmp_path, lease_ms=LEASE_MS) as other,
    ):
        await filled(first, 1)
        assert first.leases is not None
        await first.leases.register(Holding(S, G, ANA, is_temporary=False))
        await taken(first, take(ANA))
        server.run("CONFIG", "SET", "maxmemory", 1)
        try:
            await first.leases.register(Holding(S, G, BEN, is_temporary=False))
            claim = take(BEN, claim_idle_ms=3_600_000)
            assert await taken(other, claim, 5 * LEASE_MS) == []
        finally:
            server.run("CONFIG", "SET", "maxmemory", 0)
        assert await held(other) == {1: ANA}


async def test_what_could_not_be_released_at_the_end_is_released_later(
    server: Server, tmp_path: Path
) -> None:
    async with running(server, tmp_path, lease_ms=LEASE_MS) as backend, asyncio.timeout(20):
        await filled(backend, 1)
        assert backend.leases is not None
        holding = Holding(S, G, ANA, is_temporary=False)
        await backend.leases.register(holding)
        [delivery] = await taken(backend, take(ANA))
        backend.leases.release_later(holding, {delivery.id: delivery.delivery_count})
        [again] = await taken(backend, take(BEN, claim_idle_ms=3_600_000), None)
        assert (again.id, again.delivered_before) == (delivery.id, 0)
