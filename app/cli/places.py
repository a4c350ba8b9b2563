"""Places of streams: a gateway's data, a file, servers; each is opened in its own way."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, closing
from pathlib import Path
from typing import Any, Protocol

import click
from click.shell_completion import CompletionItem
from pydantic import ValidationError

from headgate.app.backends.copying.contents import StreamStore
from headgate.app.backends.embedded import open_snapshot
from headgate.app.backends.plain.rdb_file import RdbFile
from headgate.app.backends.plain.server import PlainServer
from headgate.app.backends.redis.durability import DurabilityLevel
from headgate.app.cli.declaration import option
from headgate.app.gateway.backends import open_backend, open_engine
from headgate.app.gateway.servers import client_options
from headgate.app.runtime.logs import show_progress
from headgate.app.settings import Settings, read_settings
from headgate.engine.clock import SystemClock
from headgate.engine.journal.recovery import Progress, no_progress
from headgate.engine.journal.writer import FsyncPolicy

_ANSWER_MS_MAX = 60_000
"""Time for an answer of a server that is not made for a gateway."""

_SCHEMES = ("redis://", "rediss://", "redis+cluster://", "redis+sentinel://")


class StreamPlace(click.ParamType[str]):
    """A data directory, the URL of servers, or a file, if one may stand there."""

    name = "place"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return it."""
        if value.startswith(("http://", "https://")):
            text = "a running gateway takes and gives streams at its Redis port"
            self.fail(f"{text}: redis://localhost:6379, if it has --redis-port 6379", param, ctx)
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return schemes of URLs, and let the shell complete paths."""
        del ctx, param
        schemes = [each for each in _SCHEMES if incomplete and each.startswith(incomplete)]
        return [*map(CompletionItem, schemes)] or [CompletionItem(incomplete, type="file")]


def place_option(command: str, flag: str, text: str, **attributes: Any) -> Any:
    """Declare the flag of a command that names a place; its help is the text."""
    return option(
        text,
        StreamPlace(),
        flag,
        metavar="PLACE",
        envvar=f"HEADGATE_{command.upper()}_{flag.removeprefix('--').upper()}",
        show_envvar=True,
        **attributes,
    )


class Running(StreamStore, Protocol):
    """A store that has work to do while it is used."""

    async def run(self) -> None:
        """Do the work until `close` is called."""
        ...

    async def close(self) -> None:
        """End `run`, when all changes are safe."""
        ...


Open = Callable[[Settings], Running]
"""Opens the servers that settings name."""


def open_plain(settings: Settings) -> PlainServer:
    """Return servers whose streams are no gateway's."""
    assert settings.backend is not None
    options = client_options(settings, settings.backend)._replace(
        answer_ms_max=_ANSWER_MS_MAX, durability=DurabilityLevel.NONE
    )
    return PlainServer(options, SystemClock())


@asynccontextmanager
async def source(
    flag: str, place: str, open_servers: Open = open_backend, *, database: int | None = None
) -> AsyncIterator[StreamStore]:
    """Open a place to read from; it stays as it is.

    Args:
        flag: by which the user named it.
        place: the place.
        open_servers: opens it, if it is a URL.
        database: of a file of RDB; None: no such file may stand there.

    Raises:
        click.ClickException: the place or a setting is wrong.
    """
    if "://" in place:
        servers = open_servers(_settings(flag, {"backend": place}))
        async with running(servers):
            yield servers
    else:
        with _opened(Path(place), database) as snapshot:
            yield snapshot


def _opened(path: Path, database: int | None) -> AbstractContextManager[StreamStore]:
    """Open a directory or a file on the disk."""
    if path.is_dir():
        return open_snapshot(path, _progress())
    if path.is_file() and database is not None:
        return closing(RdbFile(path, database, SystemClock()))
    what = "directory" if database is None else "directory or file"
    raise click.ClickException(f"there is no {what} {path}")


@asynccontextmanager
async def target(
    flag: str, place: str, open_servers: Open = open_backend
) -> AsyncIterator[StreamStore]:
    """Open a place to write to.

    The journal of a data directory is forced to disk once, at the end: a copy that is not complete
    can be made again.

    Raises:
        click.ClickException: the place or a setting is wrong.
    """
    if "://" in place:
        store = open_servers(_settings(flag, {"backend": place}))
    else:
        settings = _settings(flag, {"data_dir": Path(place), "fsync": FsyncPolicy.NO})
        store = open_engine(settings, _progress())
    async with running(store):
        yield store


def data_dir() -> str:
    """Return the data directory of the gateway that the settings describe."""
    return str(_settings("HEADGATE_DATA_DIR", {}).data_dir)


def _settings(flag: str, chosen: dict[str, Any]) -> Settings:
    """Return the settings with a place in them.

    Raises:
        click.ClickException: the place or a setting is wrong.
    """
    try:
        return read_settings(None, chosen)
    except ValidationError as error:  # its own text may repeat the URL, and so a password
        names = ", ".join(str(part) for each in error.errors() for part in each["loc"])
        texts = "; ".join(each["msg"].removeprefix("Value error, ") for each in error.errors())
        raise click.ClickException(f"{flag}: {names}: {texts}") from None


def _progress() -> Progress:
    """Return the callback that shows the progress of loading, if a person can see it."""
    return show_progress if sys.stderr.isatty() else no_progress


@asynccontextmanager
async def running(store: Running) -> AsyncIterator[None]:
    """Let a store do its work while the context lasts."""
    work = asyncio.create_task(store.run())
    try:
        yield
    finally:
        await store.close()
        await work
