"""Buckets that gateways share; no process outlives the test that started it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.buckets.faulty_way import FaultyWay
from tests.buckets.gateways.shared_bucket import SharedBucket
from tests.buckets.stores import Store
from tests.processes.gateway import no_gateway_left

__all__ = ["no_gateway_left"]


@pytest.fixture
def shared_bucket(
    request: pytest.FixtureRequest, bucket_name: str, tmp_path: Path
) -> Iterator[SharedBucket]:
    """A bucket: a directory, or one of a store behind ways that fail when they are told to."""
    if request.param == "directory":
        yield SharedBucket((tmp_path / "bucket").as_uri())
        return
    store: Store = request.getfixturevalue(request.param)
    with ExitStack() as opened:
        ways = [opened.enter_context(FaultyWay(store.endpoint)) for _ in range(2)]
        yield SharedBucket(store.make_bucket(bucket_name), ways)
