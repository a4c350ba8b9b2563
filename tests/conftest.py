"""Rules of all tests."""

import gc
from pathlib import Path

import pytest
from hypothesis import settings

from console import bundle
from tests.servers.chosen import URL

pytest_plugins = ["tests.buckets.fixtures", "tests.servers.fixtures"]

# A deadline asserts with a clock, and a busy machine fails it.
settings.register_profile("headgate", deadline=None)
settings.load_profile("headgate")


@pytest.fixture(scope="session")
def console_bundle() -> None:
    """Build the console, unless it is built."""
    bundle.build()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of `unit` last: they are short, so all processes end at about the same time."""
    unit = Path(__file__).parent / "unit"
    items.sort(key=lambda item: unit in item.path.parents)


def pytest_collection_finish() -> None:
    """Let `gc` look at what tests make, and not at all that was loaded: that takes a second."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests of abilities of the embedded engine: `@pytest.mark.embedded(reason)`."""
    mark = item.get_closest_marker("embedded")
    if mark is not None and URL is not None:
        pytest.skip(mark.args[0])
