"""An engine behind a Unix socket, in the loop of the test."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.backends.port import Ability
from headgate.app.backends.remote.backend import RemoteOptions
from headgate.app.backends.remote.server import EngineServer


@contextmanager
def listening() -> Iterator[socket.socket]:
    """Listen at a Unix socket: its path must be short, so it is in a folder of its own."""
    with (
        TemporaryDirectory(prefix="headgate-") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock,
    ):
        sock.bind(str(Path(folder) / "engine.sock"))
        sock.listen(128)
        yield sock


def options_of(engine: EmbeddedBackend, sock: socket.socket) -> RemoteOptions:
    """Return the options of a worker for an engine."""
    return RemoteOptions(
        Path(sock.getsockname()),
        engine.durable,
        Ability.JOURNAL in engine.abilities,
        Ability.ARCHIVES in engine.abilities,
    )


@asynccontextmanager
async def served(engine: EmbeddedBackend) -> AsyncIterator[RemoteOptions]:
    """Serve an engine that runs while the context lasts."""
    with listening() as sock:
        serving = asyncio.create_task(EngineServer(engine).run(sock))
        try:
            yield options_of(engine, sock)
        finally:
            serving.cancel()
            await asyncio.wait({serving})
