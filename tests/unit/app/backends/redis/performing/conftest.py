"""A backend over each kind of server, and commands of others, which know nothing of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from deploy.local_cluster.server import Server
from headgate.app.backends.redis.address import read_url
from headgate.app.backends.redis.backend import RedisBackend
from headgate.app.backends.redis.client import ClientOptions
from tests.contract.calls import G, S
from tests.running import running as running_backend


@pytest.fixture
async def redis(server: Server, tmp_path: Path) -> AsyncIterator[RedisBackend]:
    async with running(server, tmp_path) as backend:
        yield backend


@pytest.fixture
async def quiet(server: Server, tmp_path: Path) -> AsyncIterator[RedisBackend]:
    """Run a backend that does no housekeeping."""
    backend = made(server, tmp_path)
    running = asyncio.create_task(backend.client.run())
    yield backend
    running.cancel()
    await asyncio.wait({running})


def made(server: Server, place: Path, lease_ms: int = 10_000) -> RedisBackend:
    """Return a backend over a server. Backends of one place have the same keys."""
    prefix = f"{place}:".encode()
    return RedisBackend(ClientOptions(read_url(server.url), prefix, lease_ms=lease_ms))


@asynccontextmanager
async def running(
    server: Server, place: Path, lease_ms: int = 10_000
) -> AsyncIterator[RedisBackend]:
    """Run a backend over a server."""
    async with running_backend(made(server, place, lease_ms)) as backend:
        yield backend


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
