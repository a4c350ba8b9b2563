"""Targets: which URLs may be asked, and the addresses behind their names.

An address of this machine, of a private network or of a link is refused, unless the operator allows
its network: a user must not reach through the gateway what stands behind it. A name is looked up
for each request, and the request goes to the address that was judged.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Sequence
from functools import partial
from urllib.parse import SplitResult, urlsplit

from headgate.app.runtime.threads import WEBHOOKS

_URL_MAX = 2048
_LOOK_UP_S_MAX = 5.0
_HOST_MAX = 253
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:\s]+)(:[0-9]*)?", re.IGNORECASE)

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


_UNICAST = ipaddress.ip_network("2000::/3")
"""The only addresses of IPv6 that are public. Others are local, or carry those of IPv4."""

_TUNNELS = ipaddress.ip_network("2002::/16"), ipaddress.ip_network("2001::/32")
"""6to4 and Teredo: they carry addresses of IPv4."""


class TargetRefused(Exception):
    """The gateway does not send a request there."""


class NameUnknown(OSError):
    """The name of a target has no address, or nobody tells it in time."""


class Targets:
    """The URLs that may be asked."""

    def __init__(self, allowed: Sequence[Network] = ()) -> None:
        """Allow public addresses, and those of some networks, also by plain HTTP.

        Args:
            allowed: the networks.
        """
        self._allowed = allowed

    def check(self, url: str) -> SplitResult:
        """Check a URL as far as it goes without looking up its name, and return its parts.

        Raises:
            TargetRefused: it is none, or it is not allowed.
        """
        if len(url) > _URL_MAX or not url.isascii() or not url.isprintable():
            raise TargetRefused(f"a URL has at most {_URL_MAX} characters of ASCII")
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError:
            raise TargetRefused("this is no URL") from None
        if parts.scheme not in ("https", "http") or not host or parts.username is not None:
            raise TargetRefused("a URL is https://host/path, without a user")
        if _AUTHORITY.fullmatch(parts.netloc) is None:
            raise TargetRefused("this is no host")
        literal = _address_of(host)
        if literal is not None:
            self._check_address(literal, parts)
        elif not _is_name(host):
            raise TargetRefused("this is no name of a host")
        elif parts.scheme == "http" and not self._allowed:
            raise TargetRefused("only https is allowed")
        return parts

    async def resolve(self, url: str) -> tuple[SplitResult, str]:
        """Return the parts of a URL, and the address that the request is to go to.

        Raises:
            TargetRefused: it is not allowed.
            NameUnknown: the name has no address.
        """
        parts = self.check(url)
        assert parts.hostname is not None
        literal = _address_of(parts.hostname)
        if literal is not None:
            return parts, str(literal)
        look_up = partial(socket.getaddrinfo, parts.hostname, None, type=socket.SOCK_STREAM)
        try:
            async with asyncio.timeout(_LOOK_UP_S_MAX):
                answers = await WEBHOOKS.call_if_awaited(look_up)
        except (TimeoutError, socket.gaierror) as error:
            raise NameUnknown(f"{parts.hostname}: {error}") from error
        addresses = [ipaddress.ip_address(str(answer[4][0])) for answer in answers]
        for address in addresses:
            self._check_address(address, parts)
        if not addresses:
            raise NameUnknown(f"{parts.hostname} has no address")
        return parts, str(addresses[0])

    def _check_address(self, address: Address, parts: SplitResult) -> None:
        mapped = getattr(address, "ipv4_mapped", None)
        address = mapped or address
        if any(address in network for network in self._allowed):
            return
        if not _is_public(address):
            raise TargetRefused(f"{parts.hostname} is in a network that is not allowed")
        if parts.scheme != "https":
            raise TargetRefused("only https is allowed")


def _is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        is_carrying = any(address in network for network in _TUNNELS)
        if is_carrying or address not in _UNICAST:
            return False
    return address.is_global and not address.is_multicast


def _is_name(host: str) -> bool:
    """Tell whether the system takes this as the name of a host."""
    host = host.removesuffix(".")
    return len(host) <= _HOST_MAX and all(map(_LABEL.fullmatch, host.split(".")))


def _address_of(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        pass
    try:  # 127.1 and 0x7f000001 are addresses to the system
        return ipaddress.ip_address(socket.inet_aton(host))
    except OSError:
        return None
