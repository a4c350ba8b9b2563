"""A backend over each kind of server, with keys of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from deploy.local_cluster.server import Server
from headgate.app.backends.redis.address import read_url
from headgate.app.backends.redis.backend import RedisBackend
from headgate.app.backends.redis.client import ClientOptions
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
