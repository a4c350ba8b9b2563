"""A backend over each kind of server, and commands of others, which know nothing of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from deploy.local_cluster.server import Server
from headgate.app.backends.redis.backend import RedisBackend
from tests.contract.calls import G, S
from tests.unit.app.backends.redis.conftest import made


@pytest.fixture
def redis(backend: RedisBackend) -> RedisBackend:
    return backend


@pytest.fixture
async def quiet(server: Server, prefix: bytes) -> AsyncIterator[RedisBackend]:
    """Run a backend that does no housekeeping."""
    backend = made(server.url, prefix)
    running = asyncio.create_task(backend.client.run())
    yield backend
    running.cancel()
    await asyncio.wait({running})


async def run(redis: RedisBackend, command: str, *words: bytes | str | int) -> Any:
    """Run a command on the stream, and return its reply."""
    client = redis.client
    key = client.names.of(S).key
    return await client.execute(S, *command.split(" "), key, *words, changes=True)


async def side(redis: RedisBackend, kind: bytes, command: str, *words: bytes | str | int) -> Any:
    """Run a command on a side key of the group, or of the stream for some kinds."""
    group = None if kind in (b"outbox", b"claims", b"relayed", b"meta") else G
    key = redis.client.names.of(S).side(kind, group)
    return await redis.client.execute(S, command, key, *words, changes=True)
