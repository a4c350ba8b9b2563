"""A connection until TLS is established; HTTP or RESP follows on it.

asyncio can do the handshake of a server by itself, but then nobody knows the connection before it
is over. So a peer that never finishes it would hold an open file that no limit counts, and a
thousand such peers would leave no file for the journal. Here it is a connection like any other.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from headgate.app.transport.certificate import Certificate
from headgate.app.transport.sockets import Sockets

log = logging.getLogger("headgate")


class TlsChoices(NamedTuple):
    certificate: Certificate  # looked at when a connection begins
    handshake_ms_max: int  # how long a handshake may take
    closing_ms_max: int  # how long a peer may take for the last bytes


def over_tls(http: type[HttpToolsProtocol], choices: TlsChoices) -> Callable[..., asyncio.Protocol]:
    def protocol(
        config: Any,
        server_state: Any,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> Handshake:
        make = partial(http, config, server_state, app_state, _loop)
        sockets = app_state["gateway"].sockets
        return Handshake(make, choices, sockets, server_state.connections, server_state.tasks)

    return protocol


class Handshake(asyncio.Protocol):
    def __init__(
        self,
        make: Callable[[], asyncio.Protocol],
        choices: TlsChoices,
        sockets: Sockets,
        connections: set[Any],
        tasks: set[asyncio.Task[None]],
    ) -> None:
        """`make` creates the protocol that follows; the gateway awaits `tasks` at its end."""
        self._make = make
        self._choices = choices
        self._sockets = sockets
        self._connections = connections
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin the handshake.

        Nothing must be read before that, and a transport reads as soon as this has returned. So the
        transport is dropped, and its socket gets another one.
        """
        self._connections.add(self)
        try:
            if self._sockets.has_room():
                self._begin(transport.get_extra_info("socket").fileno())
        except OSError as error:  # there may be no descriptor for it
            log.debug("no TLS handshake", extra={"reason": str(error)})
        finally:
            transport.abort()

    def _begin(self, descriptor: int) -> None:
        connected = socket.socket(fileno=os.dup(descriptor))
        self._task = self._loop.create_task(self._complete(connected))
        self._tasks.add(self._task)
        self._task.add_done_callback(self._tasks.discard)

    def connection_lost(self, exc: Exception | None) -> None:
        """End, unless the socket is used on."""
        del exc
        if self._task is None:
            self._connections.discard(self)

    def shutdown(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _complete(self, connected: socket.socket) -> None:
        leave = partial(self._connections.discard, self)
        try:
            await self._loop.connect_accepted_socket(
                lambda: _Secured(connected, leave, self._make),
                connected,
                ssl=self._choices.certificate.context,
                ssl_handshake_timeout=self._choices.handshake_ms_max / 1000,
                ssl_shutdown_timeout=self._choices.closing_ms_max / 1000,
            )
        except OSError as error:  # those of TLS are errors of this kind
            log.debug("no TLS handshake", extra={"reason": str(error)})
        finally:
            leave()


class _Secured(asyncio.Protocol):
    """A connection at the end of its handshake: the next protocol replaces it at once."""

    def __init__(
        self, connected: socket.socket, leave: Callable[[], None], make: Callable[[], Any]
    ) -> None:
        self._connected = connected
        self._leave = leave
        self._make = make

    def connection_made(self, transport: Any) -> None:
        self._leave()
        protocol = self._make()
        transport.set_protocol(protocol)
        encrypted: Any = _Encrypted(transport, self._connected)
        protocol.connection_made(encrypted)


_RECORDS_BYTES = 256 * 1024
"""Encrypted and passed on at once."""


class _Encrypted:
    """The transport of a connection with TLS.

    Its close does not wait for the peer. That of asyncio waits until the peer has ended TLS as
    well, and many clients only do that when they need the connection again. Nobody has to wait for
    that (RFC 8446, 6.1).

    It writes in portions. That of asyncio passes everything on to the socket at once, and then says
    that nothing is left, however little the peer has read.
    """

    def __init__(self, transport: asyncio.Transport, connected: socket.socket) -> None:
        self._transport = transport
        self._connected = connected

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._transport, name)
        setattr(self, name, attribute)  # looked up once: it is for each write
        return attribute

    def write(self, data: bytes) -> None:
        if len(data) <= _RECORDS_BYTES:
            self._transport.write(data)
            return
        whole = memoryview(data)
        for at in range(0, len(whole), _RECORDS_BYTES):
            self._transport.write(whole[at : at + _RECORDS_BYTES])

    def close(self) -> None:
        self._transport.close()
        with suppress(OSError):  # it is closed already
            self._connected.shutdown(socket.SHUT_RD)  # as if the peer had ended it
