"""Server: uvicorn as this gateway runs it, the same for `headgate serve` and for tests."""

import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
from fastapi import FastAPI

from app.arrival import in_time
from app.connection import PING_INTERVAL_MS, PONG_WAIT_MS
from app.dependencies import Gateway
from app.settings import LogLevel, Settings

GRACE_S = 5
"""How long open connections may take to end when the gateway is told to stop."""


class Server(uvicorn.Server):
    """A server that says where it listens, and answers who waits before it stops."""

    def __init__(
        self, app: FastAPI, settings: Settings, *, on_listening: Callable[[str], None] | None = None
    ) -> None:
        """Get ready to serve an app made of the same settings.

        Args:
            app: the gateway.
            settings: what the operator chose.
            on_listening: told the URL once connections are accepted.
        """
        super().__init__(_config(app, settings))
        self._gateway: Gateway = app.state.gateway
        self._on_listening = on_listening

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop; being told to is no failure, so the process ends with 0."""
        super().handle_exit(sig, frame)
        self._captured_signals.clear()  # or uvicorn would end by this signal, once it has stopped

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        await super().startup(sockets)
        if self._on_listening is not None and self.started:
            port = self.servers[0].sockets[0].getsockname()[1]
            self._on_listening(f"http://{self.config.host}:{port}")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer who waits, then stop."""
        self._gateway.draining.set()
        self._gateway.backend.drain()
        await super().shutdown(sockets)


def _config(app: FastAPI, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=in_time(settings.request_ms_max),
        ws="websockets-sansio",
        ws_max_size=settings.frame_bytes_max,
        ws_ping_interval=PING_INTERVAL_MS / 1000,
        ws_ping_timeout=PONG_WAIT_MS / 1000,
        timeout_graceful_shutdown=GRACE_S,
        log_config=None,
        access_log=settings.log_level == LogLevel.DEBUG,
        server_header=False,
    )
