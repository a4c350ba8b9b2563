"""Binds the addresses of a host before anything is loaded, and listens there later."""

import asyncio
import errno
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""`localhost` has an IPv6 address also on machines that speak no IPv6."""


BACKLOG = 2048
"""Connections that may wait until they are accepted."""


class Listener:
    """Accepts connections on a bound socket, and may pause.

    While it is paused, connections wait in the system's queue. Processes that share the socket
    share the queue: any of them may accept what waits.
    """

    def __init__(self, bound: socket.socket, make: Callable[[], asyncio.BaseProtocol]) -> None:
        """The socket is closed with this listener; `make` creates the protocol of a connection."""
        self._bound = bound
        self._make = make
        self._server: asyncio.Server | None = None
        self._is_closed = False

    @property
    def sockets(self) -> Sequence[socket.socket]:
        return () if self._is_closed else (self._bound,)

    async def open(self) -> None:
        """Accept connections, unless it does already or is closed. Raises OSError."""
        if self._server is not None or self._is_closed:
            return
        # No event loop lets a server pause, and one that is closed closes its socket: so a copy.
        server = await asyncio.get_running_loop().create_server(
            self._make, sock=self._bound.dup(), backlog=BACKLOG
        )
        if self._is_closed:
            server.close()
        else:
            self._server = server

    def pause(self) -> None:
        """Accept nothing until it is opened again; open connections go on."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def close(self) -> None:
        self.pause()
        self._is_closed = True
        self._bound.close()

    async def wait_closed(self) -> None:
        """Return at once; servers of asyncio have this method."""


def bind(host: str, port: int) -> list[socket.socket]:
    """Return a bound socket for each address of a host, not yet listening.

    Until they listen, the system refuses connections. Port 0 takes a free one, the same for all
    addresses. Raises OSError if the host has no address, or the port is in use.
    """
    kinds = {(family, address[0]): address for family, address in _addresses(host, port)}
    bound: list[socket.socket] = []
    missing: OSError | None = None
    with ExitStack() as opened:
        for (family, _), address in kinds.items():
            try:
                each = opened.enter_context(_bound(family, (address[0], port, *address[2:])))
            except OSError as error:
                if error.errno not in _NOT_HERE:
                    raise
                missing = error
            else:
                port = each.getsockname()[1]
                bound.append(each)
        if not bound and missing is not None:
            raise missing
        opened.pop_all()
    return bound


def addresses_of(host: str, port: int) -> list[str]:
    return [str(address[0]) for _, address in _addresses(host, port)]


def _addresses(host: str, port: int) -> list[tuple[socket.AddressFamily, tuple[Any, ...]]]:
    kinds = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return [(family, address) for family, _, _, _, address in kinds]


def _bound(family: int, address: tuple[object, ...]) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(address)
    except BaseException:
        bound.close()
        raise
    return bound
