"""Leases: what the connections of a dead gateway held goes to the next reader."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from deploy.local_cluster.server import Server
from headgate.app.backends.port import Holding, Leases
from headgate.app.backends.redis.backend import RedisBackend
from headgate.app.backends.redis.leases import GatewayLeases
from headgate.engine.entry import MIN_ID
from headgate.engine.requests.deliveries import GroupCursor, ReadGroup
from headgate.engine.requests.groups import DescribeConsumer
from tests.conditions import WITHIN_S, eventually, until
from tests.contract.calls import ANA, BEN, G, S, filled, held, take, taken
from tests.unit.app.backends.redis.conftest import made, running

LEASE_MS = 300
TEMPORARY = b"temporary-0123456789abcdef"


@asynccontextmanager
async def dying(server: Server, place: bytes, *holdings: Holding) -> AsyncIterator[RedisBackend]:
    """Run a backend with holdings that ends as a killed process does: it releases nothing."""
    backend = made(server.url, place, lease_ms=LEASE_MS)
    task = asyncio.create_task(backend.run())
    for holding in holdings:
        await leases_of(backend).register(holding)
    yield backend
    task.cancel()
    await asyncio.wait({task})


def leases_of(backend: RedisBackend) -> Leases:
    assert backend.leases is not None
    return backend.leases


def other(server: Server, place: bytes) -> AbstractAsyncContextManager[RedisBackend]:
    return running(server.url, place, lease_ms=LEASE_MS)


HELD = Holding(S, G, ANA, is_temporary=False)
CLAIM = take(BEN, claim_idle_ms=3_600_000)


@pytest.mark.parametrize("consumer", [ANA, TEMPORARY])
async def test_what_a_dead_gateway_held_is_read_by_who_waits_at_another_one(
    server: Server, prefix: bytes, consumer: bytes
) -> None:
    is_temporary = consumer == TEMPORARY
    async with other(server, prefix) as lives, asyncio.timeout(WITHIN_S):
        async with dying(server, prefix, Holding(S, G, consumer, is_temporary)) as dies:
            await filled(dies, 1, 2)
            await taken(dies, take(consumer))
            first = asyncio.create_task(taken(lives, CLAIM, None))
        deliveries = await first
        while len(deliveries) < 2:
            deliveries += await taken(lives, CLAIM, None)
        # The deliveries that nobody has seen do not count.
        assert [(each.id.ms, each.delivered_before) for each in deliveries] == [(1, 0), (2, 0)]
        mine = await lives.perform(DescribeConsumer(S, G, consumer))
        assert (mine is None) == is_temporary


async def test_a_gateway_that_never_renews_leaves_no_consumer(
    server: Server, prefix: bytes
) -> None:
    async with other(server, prefix) as lives, asyncio.timeout(WITHIN_S):
        await filled(lives, 1)
        never_runs = GatewayLeases(lives.client, lives.perform)
        await never_runs.register(Holding(S, G, TEMPORARY, is_temporary=True))
        await taken(lives, take(TEMPORARY))
        [delivery] = await taken(lives, CLAIM, None)
        assert delivery.delivered_before == 0
        described = DescribeConsumer(S, G, TEMPORARY)
        await eventually(lambda: lives.perform(described), lambda info: info is None)


async def until_known(server: Server, place: bytes, count: int) -> None:
    """Return once so many gateways are known."""
    await until(lambda: server.client.scard(b"hg:%bgateways" % place) == count, 20)


async def test_a_consumer_that_reads_elsewhere_keeps_its_own(server: Server, prefix: bytes) -> None:
    async with other(server, prefix) as lives:
        async with dying(server, prefix, HELD) as dies:
            await filled(dies, 1)
            await taken(dies, take(ANA))
            await until_known(server, prefix, 2)
        await leases_of(lives).register(HELD)
        [again] = await taken(lives, ReadGroup(G, ANA, [GroupCursor(S, MIN_ID)]))
        assert again.delivered_before == 1
        await until_known(server, prefix, 1)
        assert await held(lives) == {1: ANA}


async def test_a_gateway_keeps_its_own_while_memory_is_full(server: Server, prefix: bytes) -> None:
    async with other(server, prefix) as first, other(server, prefix) as second:
        await filled(first, 1)
        await leases_of(first).register(HELD)
        await taken(first, take(ANA))
        server.run("CONFIG", "SET", "maxmemory", 1)
        try:
            await leases_of(first).register(HELD._replace(consumer=BEN))
            assert await taken(second, CLAIM, 5 * LEASE_MS) == []
        finally:
            server.run("CONFIG", "SET", "maxmemory", 0)
        assert await held(second) == {1: ANA}


async def test_what_was_not_released_is_released_later(server: Server, prefix: bytes) -> None:
    async with other(server, prefix) as backend, asyncio.timeout(WITHIN_S):
        await filled(backend, 1)
        await leases_of(backend).register(HELD)
        [delivery] = await taken(backend, take(ANA))
        leases_of(backend).release_later(HELD, {delivery.id: delivery.delivery_count})
        [again] = await taken(backend, CLAIM, None)
        assert (again.id, again.delivered_before) == (delivery.id, 0)
