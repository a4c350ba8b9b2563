"""Listening: binds the addresses of a host before anything is loaded; the server listens later."""

import errno
import socket
from contextlib import ExitStack
from typing import Any

_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""`localhost` has an IPv6 address also on machines that speak no IPv6."""


def bind(host: str, port: int) -> list[socket.socket]:
    """Return a bound socket for each address of a host; none of them listens yet.

    Until they listen, the system refuses connections.

    Args:
        host: a name or an address.
        port: 0 takes a free one, the same for all addresses.

    Raises:
        OSError: the host has no address, or another process has the port.
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
    """Return the addresses that a host stands for.

    Raises:
        OSError: it has none.
    """
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
