"""The holdings of a worker whose engine is away."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from headgate.app.backends.embedded import EmbeddedOptions, open_embedded
from headgate.app.backends.port import Holding
from headgate.app.backends.remote.backend import RemoteBackend, RemoteOptions
from headgate.app.backends.remote.leases import WorkerLeases
from headgate.engine.entry import EntryId
from headgate.engine.errors import Disconnected
from headgate.engine.requests.streams import ListStreams
from tests.behind_socket import served
from tests.running import running


async def test_a_worker_that_ends_without_an_engine_has_not_failed(tmp_path: Path) -> None:
    backend = RemoteBackend(RemoteOptions(tmp_path / "engine.sock"))
    async with running(backend):
        assert backend.leases is not None
        backend.drain()
        holding = Holding(b"jobs", b"workers", b"me", is_temporary=False)
        backend.leases.release_later(holding, {EntryId(1, 0): 1})
        with pytest.raises(Disconnected):
            await backend.perform(ListStreams(after=None, limit=1))


async def test_a_connection_that_was_refused_takes_nothing_away_from_another_one() -> None:
    holding = Holding(b"jobs", b"workers", b"me", is_temporary=False)
    engine = open_embedded(EmbeddedOptions(None))
    async with running(engine), AsyncExitStack() as serving:
        options = await serving.enter_async_context(served(engine))
        async with running(RemoteBackend(options)) as backend:
            leases = backend.leases
            assert isinstance(leases, WorkerLeases)
            await leases.register(holding)
            await serving.aclose()
            with pytest.raises(Disconnected):  # once the worker has noticed that the engine is away
                await backend.perform(ListStreams(after=None, limit=1))
            with pytest.raises(Disconnected):
                await leases.register(holding)
            await leases.unregister(holding)
            assert leases.holdings == [holding]  # the next engine is told so
