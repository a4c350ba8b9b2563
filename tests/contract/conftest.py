"""Every test runs over every backend that has the abilities it asks for."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headgate.app.backends.port import Backend
from tests.contract.backends import KINDS, Kind


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test over the backends that can do what it is about: `@pytest.mark.needs(...)`."""
    if "kind" in metafunc.fixturenames:
        marks = metafunc.definition.iter_markers("needs")
        needed: set[str] = {ability for mark in marks for ability in mark.args}
        kinds = [kind for kind in KINDS if needed <= kind.can]
        metafunc.parametrize("kind", kinds, ids=[kind.name for kind in kinds])


@pytest.fixture
async def backend(kind: Kind, tmp_path: Path) -> AsyncIterator[Backend]:
    """Run a backend with nothing in it that a test could meet."""
    async with kind.running(tmp_path) as running:
        yield running
