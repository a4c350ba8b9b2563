"""Targets: the URLs that may be asked, and the addresses behind them.

An address of this machine, of a private network or of a link is refused, unless the operator allows
its network: a user must not reach through the gateway what stands behind it. A URL is checked when
it is given. What counts is the check of the address of each connection, after its name was looked
up: there no spelling of an address and no change of a name is left.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Sequence
from urllib.parse import SplitResult, urlsplit

_URL_MAX = 2048
_HOST_MAX = 253
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:\s]+)(:[0-9]*)?", re.IGNORECASE)
SCHEME_PORTS = {"https": 443, "http": 80}

PUBLIC_PORTS = (443, 8443)
"""Ports of public addresses that may be asked, unless the operator names others."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


_UNICAST = ipaddress.ip_network("2000::/3")
"""The only addresses of IPv6 that are public. Others are local, or carry those of IPv4."""

_SPECIAL = tuple(
    map(
        ipaddress.ip_network,
        (
            "192.0.0.0/24",  # assignments of the IETF; the metadata of a cloud is there
            "192.88.99.0/24",  # relays of 6to4
            "2001::/23",  # assignments of the IETF, and Teredo, which carries addresses of IPv4
            "2002::/16",  # 6to4, likewise
            "3fff::/20",  # documentation
        ),
    )
)
"""Networks of IANA's registries that not every Python takes for what they are."""


class TargetRefused(OSError):
    """The gateway does not send a request there."""


class NameUnknown(OSError):
    """The name of a target has no address, or nobody tells it in time."""


class Targets:
    """The URLs that may be asked."""

    def __init__(
        self,
        allowed: Sequence[Network] = (),
        denied: Sequence[Network] = (),
        ports: Sequence[int] = PUBLIC_PORTS,
    ) -> None:
        """Allow public addresses, and those of some networks, also by plain HTTP.

        Args:
            allowed: the networks that are not public. There every port may be asked.
            denied: networks that are not asked, whatever else is said of them.
            ports: those of public addresses.
        """
        self._allowed, self._denied, self._ports = allowed, denied, frozenset(ports)

    def check(self, url: str) -> SplitResult:
        """Check a URL as far as it goes without looking up its name, and return its parts.

        Raises:
            TargetRefused: it is none, or it is not allowed.
        """
        if len(url) > _URL_MAX or not url.isascii() or not url.isprintable() or " " in url:
            raise TargetRefused(f"a URL has at most {_URL_MAX} characters of ASCII, and no spaces")
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise TargetRefused("this is no URL") from None
        if parts.scheme not in SCHEME_PORTS or not host or parts.username is not None:
            raise TargetRefused("a URL is https://host/path, without a user")
        if _AUTHORITY.fullmatch(parts.netloc) is None:
            raise TargetRefused("this is no host")
        is_tls, port = parts.scheme == "https", port or SCHEME_PORTS[parts.scheme]
        literal = _address_of(host)
        if literal is not None:
            self.check_address(literal, port, is_tls=is_tls)
        elif not _is_name(host):
            raise TargetRefused("this is no name of a host")
        elif not self._allowed:
            self._check_public(port, is_tls=is_tls)
        return parts

    def check_address(self, address: Address, port: int, *, is_tls: bool) -> None:
        """Check the address of a connection.

        Raises:
            TargetRefused: it is not allowed.
        """
        address = getattr(address, "ipv4_mapped", None) or address
        if any(address in network for network in self._denied):
            raise TargetRefused("this network is not allowed")
        if any(address in network for network in self._allowed):
            return
        if not _is_public(address):
            raise TargetRefused("this network is not allowed")
        self._check_public(port, is_tls=is_tls)

    def _check_public(self, port: int, *, is_tls: bool) -> None:
        if not is_tls:
            raise TargetRefused("only https is allowed")
        if port not in self._ports:
            allowed = ", ".join(map(str, sorted(self._ports)))
            raise TargetRefused(f"this port is not allowed: {allowed} are")


def _is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address) and address not in _UNICAST:
        return False
    if any(address in network for network in _SPECIAL):
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
