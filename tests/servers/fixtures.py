"""Servers for tests, one of each for a process of pytest; started when a test first needs it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local_cluster.keeper import Keeper
from deploy.local_cluster.server import Server
from tests.servers.failures import FailingCluster
from tests.servers.programs import redis_server, valkey_server
from tests.servers.sentinels import SentinelSet


@pytest.fixture(scope="session")
def keeper() -> Iterator[Keeper]:
    """End all servers when this process is gone, whatever ends it."""
    keeper = Keeper()
    yield keeper
    keeper.close()


@pytest.fixture(scope="session")
def redis_7(keeper: Keeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run the `redis-server` of the system: 7.0, without later commands."""
    yield from _running(Server(redis_server(), _folder(tmp_path_factory, "redis"), keeper))


@pytest.fixture(scope="session")
def valkey_9(keeper: Keeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run a single Valkey 9."""
    yield from _running(Server(valkey_server(), _folder(tmp_path_factory, "valkey"), keeper))


@pytest.fixture(scope="session")
def valkey_cluster(
    keeper: Keeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FailingCluster]:
    """Run three primaries and three replicas of Valkey 9."""
    cluster = FailingCluster(valkey_server(), _folder(tmp_path_factory, "cluster"), keeper)
    cluster.start()
    cluster.form()
    yield cluster
    cluster.stop()


@pytest.fixture(scope="session")
def sentinels(keeper: Keeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SentinelSet]:
    """Run a primary and a replica of Redis 7.0, and a sentinel that watches them."""
    sentinels = SentinelSet(redis_server(), _folder(tmp_path_factory, "sentinels"), keeper)
    sentinels.start()
    yield sentinels
    sentinels.stop()


def _running(server: Server) -> Iterator[Server]:
    server.start()
    yield server
    server.stop()


def _folder(paths: pytest.TempPathFactory, name: str) -> Path:
    return paths.mktemp(name)
