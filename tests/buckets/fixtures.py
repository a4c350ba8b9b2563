"""Stores for tests, one of each for a process of pytest; started when a test first needs it."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from deploy.local_cluster.keeper import Keeper
from tests.buckets import stores
from tests.buckets.faulty_way import FaultyWay
from tests.buckets.stores import Store


@pytest.fixture(scope="session")
def moto(keeper: Keeper) -> Iterator[Store]:
    """Run `moto`."""
    with stores.moto(keeper) as store:
        yield store


@pytest.fixture(scope="session")
def ministack(keeper: Keeper) -> Iterator[Store]:
    """Run `ministack`."""
    with stores.ministack(keeper) as store:
        yield store


@pytest.fixture
def bucket_name() -> str:
    """The name of a bucket that no other test has."""
    return f"bucket-{uuid4().hex}"


@pytest.fixture
def way(moto: Store) -> Iterator[FaultyWay]:
    """A way to `moto` that fails as it is told to."""
    with FaultyWay(moto.endpoint) as way:
        yield way
