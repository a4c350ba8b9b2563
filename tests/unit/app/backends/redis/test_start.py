"""A gateway uses servers only if they keep what it promises, and loads functions that they lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from pydantic import SecretStr

from deploy.local_cluster.server import Server
from headgate.app.backends.port import Backend
from headgate.app.backends.redis.backend import RedisBackend
from headgate.app.backends.redis.durability import DurabilityLevel
from headgate.app.gateway.servers import client_options
from headgate.app.settings import Settings
from headgate.engine.entry import Draft
from headgate.engine.errors import Unavailable
from headgate.engine.requests.entries import Add
from headgate.engine.requests.streams import DescribeStream
from tests.conditions import until
from tests.running import running as running_backend
from tests.servers.failures import flush

ADD = Add(b"orders", [Draft(None, (b"n", b"1"))])


@asynccontextmanager
async def running(server: Server, level: str) -> AsyncIterator[Backend]:
    """Run a backend of such settings that has looked what the server can, and has no patience."""
    durability = DurabilityLevel(level)
    settings = Settings(redis_prefix=f"start-{level}:", redis_durability=durability)
    options = client_options(settings, SecretStr(server.url))
    backend = RedisBackend(options._replace(patience_ms=0))
    at_first = backend.refusal
    async with running_backend(backend):
        await until(lambda: backend.refusal != at_first)
        yield backend


@pytest.mark.parametrize(
    ("level", "reason"),
    [
        ("fsync", "refused: the server has neither WAITAOF nor `appendfsync always`"),
        ("replica", "refused: no replica is connected"),
    ],
)
async def test_an_impossible_promise_is_not_made(redis_7: Server, level: str, reason: str) -> None:
    async with running(redis_7, level) as backend:
        with pytest.raises(Unavailable):
            await backend.perform(ADD)
        assert reason in (backend.refusal or "")


async def test_a_promise_that_a_server_keeps_is_made(redis_7: Server, valkey_9: Server) -> None:
    for server, level in ((redis_7, "none"), (valkey_9, "none"), (valkey_9, "fsync")):
        async with running(server, level) as backend:
            assert (await backend.perform(ADD)).ids
            assert backend.refusal is None


TOGETHER = 50


def loads(server: Server) -> int:
    """Return how many times functions were loaded into a server."""
    calls = server.info("commandstats").get("cmdstat_function|load", {})
    assert isinstance(calls, dict)
    return int(calls.get("calls", 0))


async def test_missing_functions_are_loaded_once(backend: RedisBackend, server: Server) -> None:
    append = Add(b"orders", [Draft(None, (b"n", b"1"))])
    await backend.perform(append)
    flush(server)
    before = loads(server)
    await asyncio.gather(*(backend.perform(append) for _ in range(TOGETHER)))
    assert loads(server) == before + 1
    assert (await backend.perform(DescribeStream(b"orders"))).length == TOGETHER
