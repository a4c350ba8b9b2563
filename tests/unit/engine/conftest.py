"""The engine's tests run in virtual time: how fast the code runs changes nothing."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from tests.virtual_time import VirtualLoop

WITH_THREADS = {"test_disk.py", "test_follower.py", "test_shipper.py"}
"""Files with tests that wait for threads: real time passes."""


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Let each coroutine run on a loop of its own."""
    if item.path.name in WITH_THREADS:
        return {"system": asyncio.new_event_loop}
    return {"virtual": VirtualLoop}
