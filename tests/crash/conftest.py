"""No process outlives the test that started it."""

from collections.abc import Iterator

import pytest

from tests.processes.credentials import ALWAYS, CREDENTIALS
from tests.processes.gateway import no_gateway_left

__all__ = ["credentials", "no_gateway_left"]


@pytest.fixture
def credentials(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Let gateway and clients have a key, if the test is to be run with one."""
    if ALWAYS or request.node.get_closest_marker("with_key") is not None:
        with CREDENTIALS.used(tmp_path_factory.mktemp("keys")):
            yield
    else:
        yield
