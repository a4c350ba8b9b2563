"""A live gateway for clients that know nothing of it."""

from collections.abc import AsyncIterator

import pytest

from headgate.app.settings import Settings
from tests.api.conftest import Live, running
from tests.crash.conftest import no_gateway_left

__all__ = ["no_gateway_left"]
"""A test that fails leaves no gateway behind here, either."""


@pytest.fixture
async def live() -> AsyncIterator[Live]:
    async with running(Settings()) as gateway:
        yield gateway
