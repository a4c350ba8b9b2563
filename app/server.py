"""uvicorn as this gateway runs it, for `headgate serve` and for tests."""

import asyncio
import logging
import socket
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from shlex import quote
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI

from headgate.app.addresses import is_loopback, is_this_machine
from headgate.app.gateway.gateway import Gateway
from headgate.app.resp.commands import DESCRIBED
from headgate.app.resp.listener import RespListener
from headgate.app.settings import MEMORY, LogLevel, Settings
from headgate.app.transport.certificate import Certificate
from headgate.app.transport.handshake import TlsChoices, over_tls
from headgate.app.transport.intake import BoundedWebSocket
from headgate.app.transport.listening import addresses_of, bind
from headgate.app.transport.requests import in_time
from headgate.app.transport.scopes import leave_out_queries

log = logging.getLogger("headgate")

GRACE_S = 5
"""Time for open connections to end when the gateway is told to stop."""

_HSTS_S = 31_536_000  # a year


class Server(uvicorn.Server):
    """A server that announces its address, and answers blocked requests before it stops."""

    def __init__(
        self,
        app: FastAPI,
        settings: Settings,
        *,
        redis_sockets: Sequence[socket.socket] | None = None,
        on_listening: Callable[[str], None] | None = None,
    ) -> None:
        """`on_listening` gets the URL; `redis_sockets` None means bound here, as configured."""
        leave_out_queries()
        self._certificate = certificate_of(settings)
        super().__init__(_config(app, settings, self._certificate))
        self._settings = settings
        self._gateway: Gateway = app.state.gateway
        certificate = self._certificate
        tls = None if certificate is None else _tls_choices(settings, certificate)
        self.redis = RespListener(self._gateway, tls)
        self._gateway.metrics.watch_redis(lambda: self.redis.connection_count)
        self._redis_sockets = redis_sockets
        connections = self.server_state.connections
        self._gateway.sockets.count = lambda: len(connections) + self.redis.connection_count
        self._on_listening = on_listening

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop; a signal is no failure, so the process exits with 0."""
        super().handle_exit(sig, frame)
        self._captured_signals.clear()  # or uvicorn would end by this signal, once it has stopped

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        settings = self._settings
        if sockets is None:
            addresses = await asyncio.to_thread(addresses_of, settings.host, settings.port)
        else:
            addresses = [str(each.getsockname()[0]) for each in sockets]
        has_credentials = self._gateway.credentials.are_configured
        check_addresses(addresses, settings, has_credentials=has_credentials)
        is_open = not all(map(is_loopback, addresses))
        if is_open and has_credentials and not (settings.tls_cert or settings.trusted_proxies):
            log.warning(
                "credentials travel unencrypted: the gateway has neither TLS nor a trusted proxy"
            )
        if settings.allow_anonymous:
            log.warning("allow_anonymous is set: requests without a credential are served")
        await self._listen(sockets)
        if self.started:
            await self._open_redis_port()
        for server in self.servers:
            for listening in server.sockets:
                _end_vanished_peers(listening, self._settings)
        if self._on_listening is not None and self.started:
            port = self.servers[0].sockets[0].getsockname()[1]
            self._on_listening(url_of(self._settings, port))

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until told to stop; exit with 1 if it stops for another reason."""
        super().run(sockets)
        if self._gateway.died.is_set() or not self.started:
            sys.exit(1)

    async def main_loop(self) -> None:
        if self._certificate is None:
            await super().main_loop()
            return
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(self._certificate.watch())
            await super().main_loop()
            watching.cancel()

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or self._gateway.died.is_set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._gateway.draining.set()
        self._gateway.backend.drain()
        await self.redis.close(0 if self.force_exit else GRACE_S)
        await super().shutdown(sockets)

    async def _listen(self, sockets: list[socket.socket] | None) -> None:
        await super().startup(sockets)

    async def _open_redis_port(self) -> None:
        settings = self._settings
        if self._redis_sockets is None and settings.redis_port is not None:
            host = settings.redis_host or settings.host
            self._redis_sockets = await asyncio.to_thread(bind, host, settings.redis_port)
        for listening in self._redis_sockets or ():
            _end_vanished_peers(listening, settings)
        await self.redis.open(self._redis_sockets or ())
        commands = self._gateway.commands
        if commands is not None and self.redis.port is not None:
            commands.server.attach(None, self.redis.facts, DESCRIBED)


def check_addresses(addresses: Iterable[str], settings: Settings, *, has_credentials: bool) -> None:
    check_exposure(
        settings.host,
        addresses,
        has_credentials=has_credentials,
        allow_anonymous=settings.allow_anonymous,
        keys=keys_flags(
            None if settings.data_dir == MEMORY else settings.data_dir, settings.keys_file
        ),
    )


def url_of(settings: Settings, port: int) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    scheme = "http" if settings.tls_cert is None else "https"
    return f"{scheme}://{host}:{port}"


def certificate_of(settings: Settings) -> Certificate | None:
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    return Certificate(settings.tls_cert, settings.tls_key)


def _end_vanished_peers(listening: socket.socket, settings: Settings) -> None:
    """Let the system close connections whose peer vanished silently; accepted ones inherit it.

    Without this, what was sent to a vanished host is retransmitted for a quarter of an hour, and a
    peer that only waits for an answer is never missed. The time is twice what a slow client may
    take, so that a live peer is told by us first.
    """
    silence_s = max(settings.heartbeat_ms // 1000, 1)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        patience_ms = 2 * settings.send_ms_max
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, silence_s)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, silence_s)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, patience_ms)


def _tls_choices(settings: Settings, certificate: Certificate) -> TlsChoices:
    return TlsChoices(certificate, settings.request_ms_max, 2 * settings.send_ms_max)


def _config(app: FastAPI, settings: Settings, certificate: Certificate | None) -> uvicorn.Config:
    logs_requests = settings.log_requests or settings.log_level == LogLevel.DEBUG
    http: Any = in_time(settings.request_ms_max, logs_requests=logs_requests)
    ws: Any = type("LoggedSocket", (BoundedWebSocket,), {"logs_requests": logs_requests})
    headers = []
    if certificate is not None:
        http = over_tls(http, _tls_choices(settings, certificate))
        # A browser applies it to all ports of a host: of this machine they are others' as well.
        if not is_this_machine(settings.host):
            headers.append(("strict-transport-security", f"max-age={_HSTS_S}"))
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=http,
        ws=ws,
        ws_max_size=settings.frame_bytes_max,
        ws_ping_interval=settings.ping_interval_ms / 1000,
        ws_ping_timeout=settings.pong_wait_ms / 1000,
        timeout_keep_alive=settings.keepalive_s,
        timeout_graceful_shutdown=GRACE_S,
        log_config=None,
        access_log=False,  # see `request_log`
        server_header=False,
        headers=headers,
        proxy_headers=False,  # read only where they are needed: see `proxies`
    )


# Exposure: without credentials a gateway serves only this machine.
#
# Otherwise a gateway that somebody starts with `--host 0.0.0.0` to try it out would let the whole
# network read and delete everything.

_GRANT = '\'{"streams":["*"],"do":["read","append","consume","manage"]}\''


class Exposed(Exception):
    """Anybody who reaches the gateway could do everything; the text names the ways out."""


def check_exposure(
    host: str, addresses: Iterable[str], *, has_credentials: bool, allow_anonymous: bool, keys: str
) -> None:
    """Refuse to serve other machines without credentials; raises Exposed.

    `host` is as it was given; `addresses` are what listens, or what `host` resolves to. `keys` are
    the flags of `headgate keys add` that name this gateway's file.
    """
    if has_credentials or allow_anonymous or all(map(is_loopback, addresses)):
        return
    raise Exposed(
        f"Other machines can reach {host}, but this gateway has no credentials: anyone could read "
        "and delete everything. Without --host it serves this machine only. To serve others,\n"
        f"  create a key:     headgate keys add me --grant {_GRANT} {keys}\n"
        "  accept tokens:    HEADGATE_JWT_JWKS, HEADGATE_JWT_PUBLIC_KEY_FILE, HEADGATE_JWT_SECRET\n"
        "  let everybody in: --allow-anonymous"
    )


def keys_flags(data_dir: Path | None, keys_file: Path | None) -> str:
    """Return the flags that name the keys file; a gateway that stores nothing needs one too."""
    if keys_file is not None:
        return f"--keys-file {quote(str(keys_file))}"
    if data_dir is None:
        return "--keys-file keys.json  (and serve with the same --keys-file)"
    return f"--data-dir {quote(str(data_dir))}"
