"""No process outlives the test that started it."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.crash.credentials import ALWAYS, CREDENTIALS
from tests.crash.gateway import Gateway


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


@pytest.fixture(autouse=True)
async def no_gateway_left() -> AsyncIterator[None]:
    """Kill the gateways of a test that failed."""
    yield
    for gateway in list(Gateway.running):
        await gateway.kill()
        print("\n".join(line for line in gateway.log_lines if "exc_info" in line))
