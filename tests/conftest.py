"""Rules of all tests."""

import asyncio
import gc
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from console import bundle
from tests.servers.chosen import URL
from tests.virtual_time import VirtualLoop

TESTS = Path(__file__).parent

LONG = (
    "buckets/gateways/",
    "crash/",
    "deploy/",
    "durable_streams/",
    "e2e/",
    "fuzz/",
    "ledger/processes/",
    "mcp/",
    "oracles/",
    "outages/",
    "pipeline/",
    "push/",
    "sdk/",
    "stalls/",
    "upgrade/",
    "workers/",
)
"""Folders with the proof of endurance: processes, browsers, Spark, kills. `make long` runs them."""

QUICK = (
    "crash/test_damage.py",
    "crash/test_kill.py",
    "deploy/test_timeouts.py",
    "durable_streams/test_kills.py",
    "e2e/console/test_looks.py",
    "e2e/test_welcome.py",
    "fuzz/test_resp_parser.py",
    "pipeline/test_read.py",
    "pipeline/test_tables.py",
    "pipeline/test_write.py",
    "sdk/python/test_blocking.py",
    "sdk/python/test_bulk.py",
    "sdk/python/test_groups.py",
    "sdk/python/test_losses.py",
    "sdk/python/test_pushes.py",
    "sdk/python/test_schedules.py",
    "sdk/python/test_streams.py",
    "sdk/python/test_tables.py",
    "sdk/test_contract.py",
    "stalls/test_complete.py",
    "upgrade/test_upgrade.py",
    "workers/test_deaths.py",
)
"""Files of these folders that the gate runs, too: the one path that protects a change."""

REAL_TIME = {
    "api/resp/test_conversation.py": "a long test goes by the processor",
    "buckets/faulty_way.py": "requests take their time on the way",
    "conditions.py": "waits for events, with a bound",
    "model/redis_server.py": "waits for a server that starts",
    "model/wire/servers.py": "waits for a server that starts",
    "processes/": "consumers and killers of real processes",
    "simulation/__main__.py": "a program that tells how long it took",
    "unit/app/runtime/test_loop_delay.py": "measures for how long a real loop is held",
}
"""Files of the gate that may let real time pass, and why. All others wait for events."""

_sleep = asyncio.sleep

pytest_plugins = ["tests.buckets.fixtures", "tests.servers.fixtures"]

# A deadline asserts with a clock, and a busy machine fails it.
settings.register_profile("headgate", deadline=None)
settings.load_profile("headgate")


@pytest.fixture(scope="session")
def console_bundle() -> None:
    """Build the console, unless it is built."""
    bundle.build()


def pytest_configure(config: pytest.Config) -> None:
    """Let tests of the gate wait for events, not for a time to pass, unless time is virtual."""
    if "not long" in config.option.markexpr:
        asyncio.sleep = _sleep_in_virtual_time


def _sleep_in_virtual_time(delay: float, result: Any = None) -> Coroutine[Any, Any, Any]:
    loop = asyncio._get_running_loop()  # None: it is made here, and awaited by a loop later
    if delay > 0 and loop is not None and not isinstance(loop, VirtualLoop):
        caller = Path(sys._getframe(1).f_code.co_filename)
        if TESTS in caller.parents and not may_wait(caller):
            pytest.fail(f"{caller.name} sleeps {delay} s: wait for an event, see conditions.py")
    return _sleep(delay, result)


def may_wait(path: Path) -> bool:
    """Tell whether a file of tests may let real time pass."""
    return path.relative_to(TESTS).as_posix().startswith(tuple(REAL_TIME))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import nothing that the gate does not run."""
    is_gate = "not long" in config.option.markexpr
    is_test = collection_path.match("test_*.py")
    return True if is_gate and is_test and is_long(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is long. Put `unit` last: it is short, so all processes end at about the same time.

    Within a file the order is random, by a seed that is printed.
    """
    for item in items:
        if is_long(item.path):
            item.add_marker(pytest.mark.long)
    unit = TESTS / "unit"
    items.sort(key=lambda item: (unit in item.path.parents, item.path))


def is_long(path: Path) -> bool:
    """Tell whether a file belongs to `make long` alone."""
    name = path.relative_to(TESTS).as_posix()
    return name not in QUICK and name.startswith(LONG)


def pytest_collection_finish() -> None:
    """Let `gc` look at what tests make, and not at all that was loaded: that takes a second."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests of abilities of the embedded engine: `@pytest.mark.embedded(reason)`."""
    mark = item.get_closest_marker("embedded")
    if mark is not None and URL is not None:
        pytest.skip(mark.args[0])
