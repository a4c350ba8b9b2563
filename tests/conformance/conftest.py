"""A gateway for each place, which all cases share: their streams have names of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from pydantic import SecretStr

from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.backends.remote.backend import RemoteBackend
from headgate.app.gateway.backends import open_backend
from tests.api.conftest import Live, running
from tests.behind_socket import served
from tests.conformance.choice import seed
from tests.conformance.faces.port import Port
from tests.conformance.faces.typescript import TypeScript, node_in
from tests.contract.backends import Kind, running_behind_socket
from tests.running import running as keeping_running

Opening = Callable[[Kind, str | None], Awaitable[Live]]


def pytest_report_header() -> str:
    """Return the seed of the choice of cases."""
    return f"conformance: HEADGATE_TEST_SEED={seed()}"


@asynccontextmanager
async def gateway_at(kind: Kind, folder: Path, url: str | None) -> AsyncIterator[Live]:
    """Run a gateway over a backend while the context lasts."""
    settings = kind.settings(folder).model_copy(update={"redis_port": 0, "heartbeat_ms": 100})
    if url is not None:
        update = {"backend": SecretStr(url), "redis_prefix": f"{folder}:"}
        settings = settings.model_copy(update=update)
    if kind.run is not running_behind_socket:
        async with running(settings) as live:
            yield live
        return
    engine = await asyncio.to_thread(open_backend, settings)
    assert isinstance(engine, EmbeddedBackend)
    async with keeping_running(engine), served(engine) as options:
        remote = await asyncio.to_thread(RemoteBackend, options)
        async with running(settings, remote) as live:
            yield live


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def gateways(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Opening]:
    """Yield an opener of gateways, one for each place."""
    opened: dict[str, asyncio.Future[Live]] = {}
    keepers: list[asyncio.Task[None]] = []
    is_over = asyncio.Event()

    async def keep(kind: Kind, url: str | None) -> None:
        folder = tmp_path_factory.mktemp(kind.name)
        try:
            async with gateway_at(kind, folder, url) as live:
                opened[kind.name].set_result(live)
                await is_over.wait()
        except Exception as error:
            if opened[kind.name].done():
                raise
            opened[kind.name].set_exception(error)

    async def gateway(kind: Kind, url: str | None) -> Live:
        if kind.name not in opened:
            opened[kind.name] = asyncio.get_running_loop().create_future()
            keepers.append(asyncio.create_task(keep(kind, url)))
        return await opened[kind.name]

    yield gateway
    is_over.set()
    await asyncio.gather(*keepers)


@pytest.fixture
def url(kind: Kind, request: pytest.FixtureRequest) -> str | None:
    """Return the URL of the servers that a place needs; None: it needs none."""
    return None if kind.servers is None else str(request.getfixturevalue(kind.servers).url)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[None]:
    """Run the TypeScript client."""
    async with node_in(tmp_path_factory.mktemp("node")) as running_node:
        TypeScript.node = running_node
        yield


@pytest.fixture(autouse=True)
def programs(face: type[Port], request: pytest.FixtureRequest) -> None:
    """Run the programs of a face."""
    if face is TypeScript:
        request.getfixturevalue("node")


@pytest_asyncio.fixture(loop_scope="session")
async def live(kind: Kind, url: str | None, gateways: Opening) -> Live:
    """Return the gateway of a place."""
    return await gateways(kind, url)
