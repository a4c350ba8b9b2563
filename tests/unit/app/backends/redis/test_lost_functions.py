"""Functions that a server has lost are loaded again, once for all who miss them."""

from __future__ import annotations

import asyncio

from deploy.local_cluster.server import Server
from headgate.app.backends.redis.backend import RedisBackend
from headgate.engine.entry import Draft
from headgate.engine.requests.entries import Add
from headgate.engine.requests.streams import DescribeStream
from tests.servers.failures import flush

TOGETHER = 50


def loads(server: Server) -> int:
    """Return how many times functions were loaded into a server."""
    calls = server.info("commandstats").get("cmdstat_function|load", {})
    assert isinstance(calls, dict)
    return int(calls.get("calls", 0))


async def test_requests_that_miss_them_together_load_them_once(
    backend: RedisBackend, server: Server
) -> None:
    append = Add(b"orders", [Draft(None, (b"n", b"1"))])
    await backend.perform(append)
    flush(server)
    before = loads(server)
    await asyncio.gather(*(backend.perform(append) for _ in range(TOGETHER)))
    assert loads(server) == before + 1
    assert (await backend.perform(DescribeStream(b"orders"))).length == TOGETHER
