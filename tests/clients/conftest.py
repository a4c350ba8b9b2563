"""Gateways for programs of others that speak to Redis."""

from collections.abc import Iterator
from itertools import count

import pytest

from tests.processes.gateway import GatewayProcess

_names = count(1)


@pytest.fixture(scope="session")
def gateway() -> Iterator[GatewayProcess]:
    """Run a gateway for all tests of this process; each uses names of its own."""
    gateway = GatewayProcess.started(":memory:", {"redis_port": 0})
    yield gateway
    gateway.terminate()


@pytest.fixture
def stream() -> str:
    """Return the name of a stream that no other test uses."""
    return f"stream-{next(_names)}"
