"""A client of the port for Redis clients."""

from collections.abc import AsyncIterator

import pytest

from tests.api.conftest import Live
from tests.api.resp.talk import Talk


@pytest.fixture
async def talk(live: Live) -> AsyncIterator[Talk]:
    client = await Talk.open(live.redis_port)
    yield client
    await client.close()
