"""No process outlives the test that started it."""

from collections.abc import AsyncIterator

import pytest

from tests.crash.gateway import Gateway


@pytest.fixture(autouse=True)
async def no_gateway_left() -> AsyncIterator[None]:
    """Kill the gateways of a test that failed."""
    yield
    for gateway in list(Gateway.running):
        await gateway.kill()
        print("\n".join(line for line in gateway.log_lines if "exc_info" in line))
