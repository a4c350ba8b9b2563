"""The backends of the suite, with their openings and abilities."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.backends.port import Ability, Backend
from headgate.app.backends.remote.backend import RemoteBackend
from headgate.app.gateway.backends import open_backend
from headgate.app.settings import MEMORY, Settings
from tests.behind_socket import served
from tests.conditions import until
from tests.running import running

SURVIVES = "survives"
"""Entries are there after it is opened again. The port does not say so: who opens it knows."""

ALL = frozenset({*Ability, SURVIVES}) - {Ability.ARCHIVES}

OF_REDIS = ALL - {Ability.JOURNAL, Ability.PATTERNS, Ability.SCHEMAS}


@asynccontextmanager
async def running_by_itself(settings: Settings) -> AsyncIterator[Backend]:
    """Run the backend of these settings while the context lasts."""
    async with running(open_backend(settings)) as backend:
        await until(lambda: backend.refusal is None)  # a busy machine may let its patience pass
        yield backend


@asynccontextmanager
async def running_behind_socket(settings: Settings) -> AsyncIterator[Backend]:
    """Run the engine of these settings while the context lasts, and use it over a Unix socket."""
    engine = open_backend(settings)
    assert isinstance(engine, EmbeddedBackend)
    async with (
        running(engine),
        served(engine) as options,
        running(RemoteBackend(options)) as backend,
    ):
        await until(lambda: backend.refusal is None)
        yield backend


@dataclass(frozen=True)
class Kind:
    """A backend: how to open it, and its abilities."""

    name: str
    settings: Callable[[Path], Settings]
    can: frozenset[str] = ALL  # abilities of the port, and SURVIVES
    servers: str | None = None  # the fixture of the servers that it needs
    run: Callable[[Settings], AbstractAsyncContextManager[Backend]] = running_by_itself

    @property
    def is_away(self) -> bool:
        """Tell whether the streams are behind a socket or in servers."""
        return self.servers is not None or self.run is running_behind_socket

    @asynccontextmanager
    async def running(self, place: Path, url: str | None = None) -> AsyncIterator[Backend]:
        """Open it, and let it do its work while the context lasts.

        Args:
            place: a folder of its own. Its name also keeps the streams apart at the servers.
            url: the servers, if it needs any.
        """
        settings = self.settings(place)
        if url is not None:
            update = {"backend": SecretStr(url), "redis_prefix": f"{place}:"}
            settings = settings.model_copy(update=update)
        async with self.run(settings) as backend:
            yield backend


KINDS = [
    Kind("memory", lambda place: Settings(data_dir=MEMORY), ALL - {Ability.JOURNAL, SURVIVES}),
    Kind("disk", lambda place: Settings(data_dir=place)),
    Kind(
        "remote",
        lambda place: Settings(data_dir=MEMORY),
        ALL - {Ability.JOURNAL, SURVIVES},
        run=running_behind_socket,
    ),
    Kind("remote-disk", lambda place: Settings(data_dir=place), run=running_behind_socket),
    *(
        Kind(name, lambda place: Settings(data_dir=place), OF_REDIS, servers)
        for name, servers in (
            ("redis", "redis_7"),
            ("valkey", "valkey_9"),
            ("cluster", "valkey_cluster"),
        )
    ),
]
