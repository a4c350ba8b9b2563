"""Streams come into a gateway that runs, and leave it, through its port for Redis clients."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from deploy.local_cluster.server import Server
from headgate.app.backends.copying.moving import Move, Summary
from headgate.app.backends.plain.server import PlainServer
from headgate.app.backends.redis.address import read_url
from headgate.app.backends.redis.client import ClientOptions
from headgate.app.settings import Settings
from headgate.engine.clock import SystemClock
from tests.api.conftest import Live
from tests.contract.test_moving import Notes
from tests.plain_streams import (
    FULL,
    NAMES,
    ORDERS,
    Raw,
    assert_same,
    encoded,
    make,
    remove,
    replies,
)


@pytest.fixture
def settings() -> Settings:
    return Settings(redis_port=0)


@pytest.fixture
async def server(redis_7: Server) -> AsyncIterator[Server]:
    await asyncio.to_thread(make, redis_7)
    yield redis_7
    await asyncio.to_thread(remove, redis_7)


@pytest.fixture
async def other(valkey_9: Server) -> AsyncIterator[Server]:
    await asyncio.to_thread(remove, valkey_9)
    yield valkey_9
    await asyncio.to_thread(remove, valkey_9)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[PlainServer]:
    options = ClientOptions(read_url(url))
    store = await asyncio.to_thread(PlainServer, options, SystemClock())  # it reads files
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(store.run())
        yield store
        await store.close()


async def copied(source: str, target: str) -> Summary:
    async with opened(source) as begin, opened(target) as end:
        return await Move(begin, end, Notes(), is_chosen=NAMES.__contains__).run()


async def run(live: Live, *words: str | bytes | int) -> Raw:
    commands = live.gateway.commands
    assert commands is not None
    return await commands.run([*map(encoded, words)])


async def test_streams_come_in_and_go_out(live: Live, server: Server, other: Server) -> None:
    port = f"redis://127.0.0.1:{live.redis_port}"
    summary = await copied(server.url, port)
    assert (summary.is_complete, summary.entries) == (True, 55)
    for words, theirs in zip(FULL, await asyncio.to_thread(replies, server, FULL), strict=True):
        assert_same(theirs, await run(live, *words))
    assert (await copied(port, other.url)).is_complete
    for words, theirs in zip(FULL, await asyncio.to_thread(replies, other, FULL), strict=True):
        assert_same(theirs, await run(live, *words))


async def test_what_nobody_owns_stays_nobody_s(live: Live, server: Server, other: Server) -> None:
    port = f"redis://127.0.0.1:{live.redis_port}"
    await copied(server.url, port)
    await run(live, "XNACK", ORDERS, "billing", "FAIL", "IDS", 1, "1008-2")
    assert (await copied(port, other.url)).is_complete
    words = ("XPENDING", ORDERS, "billing", "1008-2", "1008-2", 1)
    [[[_, consumer, _, count]]] = await asyncio.to_thread(replies, other, [words])
    assert (consumer, count) == (b"", 1)
    # What comes back is the same as what left.
    summary = await copied(other.url, port)
    assert (summary.is_complete, summary.entries) == (True, 0)
