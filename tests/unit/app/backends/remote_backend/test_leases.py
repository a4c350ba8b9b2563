"""What becomes of the holdings of a worker whose engine is away."""

from pathlib import Path

import pytest

from headgate.app.backends.port import Holding
from headgate.app.backends.remote.backend import RemoteBackend, RemoteOptions
from headgate.engine.entry import EntryId
from headgate.engine.errors import Disconnected
from headgate.engine.requests.streams import ListStreams
from tests.behind_socket import running


async def test_a_worker_that_ends_without_an_engine_has_not_failed(tmp_path: Path) -> None:
    backend = RemoteBackend(RemoteOptions(tmp_path / "engine.sock"))
    async with running(backend):
        assert backend.leases is not None
        backend.drain()
        holding = Holding(b"jobs", b"workers", b"me", is_temporary=False)
        backend.leases.release_later(holding, {EntryId(1, 0): 1})
        with pytest.raises(Disconnected):
            await backend.perform(ListStreams(after=None, limit=1))
