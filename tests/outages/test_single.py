"""A backend over one server, or over a primary that sentinels watch, when these fail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Sized
from functools import partial
from pathlib import Path

import httpx
import pytest

from deploy.local_cluster.keeper import Keeper
from deploy.local_cluster.server import DURABLE, Server
from deploy.local_cluster.waiting import until
from headgate.app.backends.port import Backend
from headgate.app.backends.redis.durability import DurabilityLevel
from headgate.engine.entry import Draft
from headgate.engine.errors import Unavailable
from headgate.engine.requests.entries import Add
from headgate.engine.requests.streams import ListStreams
from tests.conditions import WITHIN_S, eventually
from tests.contract.calls import ANA, blocked, entry_id, filled, got, read_after, take
from tests.outages.appending import Appender, until_served
from tests.outages.conftest import Running
from tests.processes.gateway import Gateway
from tests.servers.failures import cut_connections, flush
from tests.servers.programs import valkey_server
from tests.servers.sentinels import SentinelSet

S = b"orders"
ENTRIES = "/v1/streams/orders/entries"


@pytest.fixture
def server(keeper: Keeper, tmp_path: Path) -> Iterator[Server]:
    """Return a Valkey that does not run yet, and that takes 50 ms to load each key."""
    slowly = {"key-load-delay": 50_000, "loading-process-events-interval-bytes": 1024}
    options = {**DURABLE, "appendfsync": "always", "rdbcompression": "no", **slowly}
    server = Server(valkey_server(), tmp_path / "server", keeper, options=options)
    yield server
    server.kill()


async def test_a_server_that_loads_its_data_is_waited_for(server: Server, running: Running) -> None:
    server.start()
    # What is sent behind changes is refused as well, and that must not end the gateway.
    async with running(server.url, DurabilityLevel.FSYNC) as backend:
        appender = Appender(backend, S)
        assert await appender.append()
        await make_slow_to_load(server, backend, 20)
        server.kill()
        server.start()
        assert server.info("persistence")["loading"]
        assert not await appender.append()
        await until_served(backend, S)
        assert (await appender.kept())[:-1] == appender.answered


async def test_reads_that_block_go_on_when_the_server_has_loaded_its_data(
    server: Server, running: Running
) -> None:
    server.start()
    async with running(server.url) as backend:
        await filled(backend, 1)
        assert await got(backend, take(ANA)) == [1]
        await make_slow_to_load(server, backend, 40)
        tasks = await blocked(
            backend, read_after(backend, entry_id(1), None), got(backend, take(ANA), None)
        )
        server.kill()
        server.start()
        assert server.info("persistence")["loading"]
        with pytest.raises(Unavailable):
            await backend.perform(ListStreams())
        async with asyncio.timeout(WITHIN_S):
            await until_served(backend, S)
            assert await asyncio.gather(*map(size, tasks)) == [1, 1]


async def size(reading: Awaitable[Sized]) -> int:
    return len(await reading)


async def make_slow_to_load(server: Server, backend: Backend, key_count: int) -> None:
    """Let a server have so many keys, in a file of which it loads them one by one."""
    for number in range(key_count):
        large = Draft(None, (b"v", bytes(2000)))
        await backend.perform(Add(b"stream-%d" % number, [large]))
    server.run("BGREWRITEAOF")
    await asyncio.to_thread(until, partial(is_rewritten, server), 20, "the file is rewritten")


def is_rewritten(server: Server) -> bool:
    info = server.info("persistence")
    return not info["aof_rewrite_in_progress"] and not info["aof_rewrite_scheduled"]


async def test_a_primary_that_is_a_replica_now_is_not_written_to(
    valkey_9: Server, running: Running
) -> None:
    async with running(valkey_9.url) as backend:
        await until_served(backend, S)
        appender = Appender(backend, S)
        valkey_9.run("REPLICAOF", "127.0.0.1", valkey_9.port)
        try:
            assert not await appender.append()
        finally:
            valkey_9.run("REPLICAOF", "NO", "ONE")
        await until_served(backend, S)
        assert 0 not in (await appender.kept())[1:-1]


async def test_functions_and_connections_that_are_lost_are_made_anew(
    valkey_9: Server, running: Running
) -> None:
    async with running(valkey_9.url) as backend:
        await until_served(backend, S)
        flush(valkey_9)
        assert await Appender(backend, S).append()
        for _ in range(3):
            cut_connections(valkey_9)
            await until_served(backend, S)


async def test_the_primary_that_sentinels_choose_is_used(
    sentinels: SentinelSet, running: Running
) -> None:
    async with running(sentinels.url) as backend:
        await until_served(backend, S)
        appender = Appender(backend, S)
        async with appender.going_on():
            await asyncio.to_thread(sentinels.fail_over)
        await asyncio.to_thread(sentinels.mend)
        await until_served(backend, S)  # not by the primary of before, which takes no changes now
        primary = await asyncio.to_thread(sentinels.primary)
        assert primary.run("XLEN", await _key(primary)) == len(await appender.kept())
        primary.kill()
        try:
            await until_served(backend, S)
        finally:
            await asyncio.to_thread(sentinels.mend)


async def test_a_gateway_waits_in_peace_for_servers_that_are_not_there(
    server: Server, tmp_path: Path
) -> None:
    gateway = await Gateway.start(tmp_path / "data", {"backend": server.url})
    async with httpx.AsyncClient(base_url=gateway.url, timeout=10) as http:
        ready = await http.get("/readyz")
        assert ready.status_code == 503
        assert server.address in ready.json()["detail"]
        append = await http.post(ENTRIES, json={"fields": {"n": "1"}})
        assert append.status_code == 503
        assert append.headers["retry-after"]

        await asyncio.to_thread(server.start)

        async def is_ready() -> bool:
            return (await http.get("/readyz")).status_code == 200

        await eventually(is_ready, bool)
        lines = [line for line in gateway.log_lines if "WARNING" in line]
        assert len(lines) <= 3, "\n".join(lines)  # not one for each attempt
        append = await http.post(ENTRIES, json={"fields": {"n": "1"}})
        assert append.status_code == 201
    await gateway.stop()


async def _key(server: Server) -> str:
    [key] = [str(key) for key in server.client.keys("*:orders") if not str(key).startswith("hg:")]
    return key
