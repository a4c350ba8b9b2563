"""Every test runs over every backend that has the abilities it asks for."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from deploy.local_cluster.server import Server
from headgate.app.backends.port import Backend
from tests.contract.backends import KINDS, Kind
from tests.servers.failures import FailingCluster


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test over the backends that can do what it is about: `@pytest.mark.needs(...)`."""
    if "kind" in metafunc.fixturenames:
        marks = metafunc.definition.iter_markers("needs")
        needed: set[str] = {ability for mark in marks for ability in mark.args}
        kinds = [kind for kind in KINDS if needed <= kind.can]
        away = pytest.mark.away
        metafunc.parametrize(
            "kind",
            [pytest.param(kind, id=kind.name, marks=[away] * kind.is_away) for kind in kinds],
        )


@pytest.fixture
def url(kind: Kind, request: pytest.FixtureRequest) -> str | None:
    """Return the URL of the servers that a backend needs; None: it needs none."""
    if kind.servers is None:
        return None
    servers: Server | FailingCluster = request.getfixturevalue(kind.servers)
    return servers.url


@pytest.fixture
async def backend(kind: Kind, url: str | None, tmp_path: Path) -> AsyncIterator[Backend]:
    """Run a backend with nothing in it that a test could meet."""
    async with kind.running(tmp_path, url) as running:
        yield running
