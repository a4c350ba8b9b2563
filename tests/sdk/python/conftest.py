"""A gateway in the loop of the test, and a client of it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

import headgate
from headgate.app.settings import MEMORY, Settings
from tests.api.conftest import Live, running


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    del tmp_path
    return Settings(data_dir=MEMORY)


@pytest_asyncio.fixture
async def live(settings: Settings) -> AsyncIterator[Live]:
    async with running(settings) as gateway:
        yield gateway


@pytest_asyncio.fixture
async def hg(live: Live) -> AsyncIterator[headgate.AsyncClient]:
    async with headgate.AsyncClient(live.url) as client:
        yield client


@pytest.fixture(autouse=True)
def no_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the variables of the developer's shell."""
    for name in ("HEADGATE_TOKEN", "HEADGATE_URL", "HEADGATE_INSECURE"):
        monkeypatch.delenv(name, raising=False)
