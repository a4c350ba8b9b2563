"""Handshake: a connection until TLS is there; HTTP follows on it.

asyncio can do the handshake of a server by itself, but then a connection is known to nobody before
it is over. So a peer that never finishes it would hold an open file that no bound counts, and a
thousand such peers would leave no file for the journal. Here it is a connection like any other.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from headgate.app.transport.certificate import Certificate

log = logging.getLogger("headgate")


def over_tls(
    http: type[HttpToolsProtocol],
    certificate: Certificate,
    *,
    handshake_ms_max: int,
    closing_ms_max: int,
) -> type[asyncio.Protocol]:
    """Return HTTP over TLS, as uvicorn makes its protocols.

    Args:
        http: what follows the handshake.
        certificate: looked at when a connection begins.
        handshake_ms_max: how long a handshake may take.
        closing_ms_max: how long a peer may take for the last bytes.
    """
    attributes = {
        "http": http,
        "certificate": certificate,
        "handshake_s_max": handshake_ms_max / 1000,
        "closing_s_max": closing_ms_max / 1000,
    }
    return type("TlsHttp", (Handshake,), attributes)


class Handshake(asyncio.Protocol):
    """A connection whose handshake is under way."""

    http: type[HttpToolsProtocol]
    certificate: Certificate
    handshake_s_max: float
    closing_s_max: float

    def __init__(
        self,
        config: Any,
        server_state: Any,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """Take the arguments that uvicorn passes."""
        self._make_http = partial(self.http, config, server_state, app_state, _loop)
        self._sockets = app_state["gateway"].sockets
        self._connections: set[Any] = server_state.connections
        self._tasks: set[asyncio.Task[None]] = server_state.tasks
        self._loop = _loop or asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin the handshake.

        Nothing must be read before that, and a transport reads as soon as this has returned. So the
        transport goes, and its socket gets another one.
        """
        self._connections.add(self)
        if self._sockets.has_room(len(self._connections)):
            connected = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
            self._task = self._loop.create_task(self._complete(connected))
            self._tasks.add(self._task)
            self._task.add_done_callback(self._tasks.discard)
        transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End, unless the socket goes on."""
        del exc
        if self._task is None:
            self._connections.discard(self)

    def shutdown(self) -> None:
        """End it, as the gateway stops."""
        if self._task is not None:
            self._task.cancel()

    async def _complete(self, connected: socket.socket) -> None:
        leave = partial(self._connections.discard, self)
        try:
            await self._loop.connect_accepted_socket(
                lambda: _Secured(connected, leave, self._make_http),
                connected,
                ssl=self.certificate.context,
                ssl_handshake_timeout=self.handshake_s_max,
                ssl_shutdown_timeout=self.closing_s_max,
            )
        except OSError as error:  # those of TLS are errors of this kind
            log.debug("no TLS handshake", extra={"reason": str(error)})
        finally:
            leave()


class _Secured(asyncio.Protocol):
    """A connection whose handshake is over: HTTP takes its place at once."""

    def __init__(
        self,
        connected: socket.socket,
        leave: Callable[[], None],
        make_http: Callable[[], HttpToolsProtocol],
    ) -> None:
        self._connected = connected
        self._leave = leave
        self._make_http = make_http

    def connection_made(self, transport: Any) -> None:
        self._leave()
        http = self._make_http()
        transport.set_protocol(http)
        encrypted: Any = _Encrypted(transport, self._connected)
        http.connection_made(encrypted)


class _Encrypted:
    """The transport of a connection with TLS, which does not wait for its peer when it is closed.

    That of asyncio waits until the peer has ended TLS as well, and many clients do that when they
    need the connection again. Nobody has to wait for that (RFC 8446, 6.1).
    """

    def __init__(self, transport: asyncio.Transport, connected: socket.socket) -> None:
        self._transport = transport
        self._connected = connected

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._transport, name)
        setattr(self, name, attribute)  # looked up once: it is for each write
        return attribute

    def close(self) -> None:
        self._transport.close()
        with suppress(OSError):  # it is closed already
            self._connected.shutdown(socket.SHUT_RD)  # as if the peer had ended it
