"""A live gateway for clients that know nothing of it."""

from collections.abc import AsyncIterator

import pytest

from headgate.app.settings import Settings
from tests.api.conftest import Live, running


@pytest.fixture
async def live() -> AsyncIterator[Live]:
    async with running(Settings()) as gateway:
        yield gateway
