"""Server: how uvicorn is set up, the same for `headgate serve` and for tests."""

import uvicorn
from fastapi import FastAPI

from app.settings import LogLevel, Settings

PING_INTERVAL_S = 20.0
PONG_WAIT_S = 10.0
GRACE_S = 5
"""How long open connections may take to end when the gateway is told to stop."""


def server_config(app: FastAPI, settings: Settings) -> uvicorn.Config:
    """Return the server's configuration for an app made of the same settings."""
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        ws="websockets-sansio",
        ws_max_size=settings.frame_bytes_max,
        ws_ping_interval=PING_INTERVAL_S,
        ws_ping_timeout=PONG_WAIT_S,
        timeout_graceful_shutdown=GRACE_S,
        log_config=None,
        access_log=settings.log_level == LogLevel.DEBUG,
        server_header=False,
    )
