"""Assembly: the parts of a gateway by its settings, alone and beside other processes."""

import asyncio
from pathlib import Path

from headgate.app.backends.embedded import EmbeddedBackend, EmbeddedOptions, open_embedded
from headgate.app.gateway.assembly import assemble, server_settings
from headgate.app.gateway.credentials import open_credentials
from headgate.app.gateway.gateway import Gateway
from headgate.app.measuring.recorder import HistoryPart, HistoryQuestion
from headgate.app.runtime.telemetry import Metrics
from headgate.app.settings import Settings
from headgate.engine.engine import Engine
from headgate.engine.errors import Unavailable
from headgate.engine.journal.storage import MemoryStorage
from tests.running import running
from tests.siblings import Sibling


def workers(*, has_engine: bool) -> Sibling:
    """Return the second of four processes that serve requests."""
    return Sibling(2, count=4, has_engine=has_engine)


class NoHistory:
    """A history that nobody has."""

    async def read(self, question: HistoryQuestion) -> HistoryPart:
        raise Unavailable("there is no history")


def assembled(
    settings: Settings, siblings: Sibling | None = None
) -> tuple[Gateway, EmbeddedBackend]:
    backend, metrics = EmbeddedBackend(Engine(MemoryStorage())), Metrics()
    credentials = open_credentials(settings)
    return assemble(settings, backend, credentials, metrics, NoHistory(), siblings), backend


def test_bounds_of_bytes_are_shared_by_the_processes() -> None:
    settings = Settings(
        arriving_bytes_max=64 * 2**20, unsent_bytes_max=400 * 2**20, body_bytes_max=2**20
    )
    alone, _ = assembled(settings)
    shared, _ = assembled(settings, workers(has_engine=True))
    assert alone.sockets._unsent_bytes_max == 400 * 2**20
    assert shared.sockets._unsent_bytes_max == 100 * 2**20
    assert alone.sockets._arriving_bytes_max == 64 * 2**20
    assert shared.sockets._arriving_bytes_max == 16 * 2**20


async def test_redis_clients_see_a_directory_only_if_there_is_a_journal(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    _, in_memory = assembled(settings)
    assert server_settings(settings, in_memory).data_dir == ""
    assert not server_settings(settings, in_memory).has_journal
    async with running(
        await asyncio.to_thread(open_embedded, EmbeddedOptions(tmp_path))
    ) as on_disk:
        assert server_settings(settings, on_disk).data_dir == str(tmp_path)
        assert server_settings(settings, on_disk).has_journal
