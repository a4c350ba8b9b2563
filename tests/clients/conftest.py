"""Gateways for programs of others that speak to Redis."""

import gc
import warnings
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


@pytest.fixture
def left_by_others() -> Iterator[None]:
    """Collect what a client of others has left open, before a later test is told of it."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
