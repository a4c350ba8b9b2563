"""A backend over servers that fail, and the servers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from uuid import uuid4

import pytest
from pydantic import SecretStr

from headgate.app.backends.port import Backend
from headgate.app.backends.redis.durability import DurabilityLevel
from headgate.app.gateway.backends import open_backend
from headgate.app.settings import Settings
from tests.running import running as running_backend
from tests.servers.failures import FailingCluster

NODE_TIMEOUT_MS = 1000

Running = Callable[..., AbstractAsyncContextManager[Backend]]


@pytest.fixture(scope="module")
def mended_cluster(valkey_cluster: FailingCluster) -> Iterator[FailingCluster]:
    """Return the cluster, which notices failures soon while these tests run."""
    valkey_cluster.set_node_timeout(NODE_TIMEOUT_MS)
    yield valkey_cluster
    valkey_cluster.mend()
    valkey_cluster.set_node_timeout(5000)


@pytest.fixture
def cluster(mended_cluster: FailingCluster) -> Iterator[FailingCluster]:
    """Return the cluster, whole before and after each test."""
    yield mended_cluster
    mended_cluster.mend()


@pytest.fixture
def prefix() -> str:
    """Return a prefix of keys that no other test uses."""
    return f"{uuid4().hex}:"


@pytest.fixture
def running(prefix: str) -> Running:
    """Return a function that runs a gateway's backend over servers."""

    @asynccontextmanager
    async def run(
        url: str, durability: DurabilityLevel = DurabilityLevel.NONE
    ) -> AsyncIterator[Backend]:
        backend = open_backend(
            Settings(backend=SecretStr(url), redis_prefix=prefix, redis_durability=durability)
        )
        async with running_backend(backend):
            yield backend

    return run
