"""Backends over a server of Redis 7.0, over a Valkey 9, and over a cluster."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import redis

from deploy.local_cluster.server import HOST, Server
from headgate.app.backends.redis.address import read_url
from headgate.app.backends.redis.backend import RedisBackend
from headgate.app.backends.redis.client import ClientOptions
from tests.running import running as running_backend
from tests.servers.failures import FailingCluster

SERVERS = ["valkey_9"]
if os.environ.get("HEADGATE_TEST_SERVERS") == "all":
    SERVERS.append("redis_7")
"""What is asked of both in the contract and in the models is asked of one here."""


def made(url: str, prefix: bytes, *, lease_ms: int = 10_000) -> RedisBackend:
    """Return a gateway's backend over some servers. Those of one prefix have the same keys."""
    return RedisBackend(ClientOptions(read_url(url), prefix, lease_ms=lease_ms))


@asynccontextmanager
async def running(
    url: str, prefix: bytes, *, lease_ms: int = 10_000
) -> AsyncIterator[RedisBackend]:
    """Run a gateway's backend over some servers."""
    async with running_backend(made(url, prefix, lease_ms=lease_ms)) as backend:
        yield backend


@pytest.fixture
def prefix(tmp_path: Path) -> bytes:
    """Return a prefix of keys that no other test has."""
    return f"{tmp_path}:".encode()


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> Server:
    """Return a single server."""
    server: Server = request.getfixturevalue(request.param)
    return server


@pytest.fixture
async def backend(server: Server, prefix: bytes) -> AsyncIterator[RedisBackend]:
    """Run a backend over a single server."""
    async with running(server.url, prefix) as backend:
        yield backend


@pytest.fixture
async def over_cluster(
    valkey_cluster: FailingCluster, prefix: bytes
) -> AsyncIterator[RedisBackend]:
    """Run a backend over a cluster."""
    async with running(valkey_cluster.url, prefix) as backend:
        yield backend


@pytest.fixture
def keys(server: Server, prefix: bytes) -> Iterator[Keys]:
    """Look at the server past the backend."""
    with redis.Redis(HOST, server.port) as client:
        yield Keys(client, prefix)


class Keys:
    """The keys of a test at the server, as another client sees them."""

    def __init__(self, client: redis.Redis, prefix: bytes) -> None:
        self._execute: Callable[..., object] = client.execute_command  # it has no types
        self._prefix = prefix

    def run(self, *words: object) -> object:
        """Send a command, with `b"$name"` for the key of a stream."""
        return self._execute(*(self._word(word) for word in words))

    def _word(self, word: object) -> object:
        is_key = isinstance(word, bytes) and word.startswith(b"$")
        return self._prefix + word[1:] if isinstance(word, bytes) and is_key else word

    def all(self) -> set[bytes]:
        """Return all keys of the test, with `P:` for the prefix."""
        names = self._execute("KEYS", "*")
        assert isinstance(names, list)
        return {name.replace(self._prefix, b"P:") for name in names if self._prefix in name}

    def ttl_ms(self, key: bytes) -> int:
        """Return in how many milliseconds a key expires, -1 if it does not."""
        return int(str(self._execute("PTTL", key.replace(b"P:", self._prefix))))
