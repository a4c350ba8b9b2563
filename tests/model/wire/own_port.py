"""Own port: the port for Redis clients in this process and this loop, over any engine.

So a test can set the clock of the engine, and knows when the port has read what was sent.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.gateway.gateway import Gateway
from headgate.app.main import create_app
from headgate.app.resp.clients import Clients
from headgate.app.resp.listener import RespListener
from headgate.app.settings import MEMORY, Settings
from headgate.engine.engine import Engine


class OwnPort(NamedTuple):
    """The port of Redis clients, and the connected ones."""

    number: int
    clients: Clients


@asynccontextmanager
async def own_port(engine: Engine) -> AsyncIterator[OwnPort]:
    """Let Redis clients in while the context lasts."""
    backend, parts = EmbeddedBackend(engine), _parts()
    gateway = replace(parts, backend=backend, auth=parts.credentials.authenticator(backend))
    listener = RespListener(gateway, tls=None)
    listening = socket.create_server(("127.0.0.1", 0))
    await listener.open([listening])
    try:
        yield OwnPort(listening.getsockname()[1], listener.clients)
    finally:
        await listener.close(within_s=1)


@cache
def _parts() -> Gateway:
    """Return the gateway's parts beside its backend; to make them takes longer than most tests."""
    gateway: Gateway = create_app(Settings(data_dir=MEMORY)).state.gateway
    return gateway
