"""Authority: the host and the port of a `Host` or an `Origin`, read strictly (RFC 3986, RFC 9110).

What a browser would read in another way is none: user information, a path, a query, a fragment, a
zone, white space, or anything that is not ASCII.
"""

import re
from ipaddress import AddressValueError, IPv6Address
from typing import NamedTuple

_LENGTH_MAX = 261
"""The longest host name, and a port."""

_PORT_MAX = 65_535
_DEFAULT_PORTS = {"http": 80, "https": 443}

_AUTHORITY = re.compile(
    r"(?:\[([0-9A-Fa-f:.]+)\]|((?:[\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+))(?::(\d*))?", re.ASCII
)
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://(.*)", re.IGNORECASE | re.ASCII)


class Authority(NamedTuple):
    """A host, in one spelling, and a port; None: that of the scheme."""

    host: str
    port: int | None


class PageOrigin(NamedTuple):
    """The origin of a page. Two origins are equal if a browser takes them for the same."""

    scheme: str
    host: str
    port: int | None


def authority_of(text: str) -> Authority | None:
    """Return the host and port in a text; None: it is not of that form."""
    match = _AUTHORITY.fullmatch(text) if len(text) <= _LENGTH_MAX else None
    if match is None:
        return None
    address, name, digits = match.groups()
    port = int(digits) if digits else None
    if port is not None and port > _PORT_MAX:
        return None
    host = host_of(name if address is None else f"[{address}]")
    return None if host is None else Authority(host, port)


def host_of(text: str) -> str | None:
    """Return a name or an address in one spelling; None: it is in brackets, and no IPv6 address."""
    if text.startswith("[") or text.count(":") > 1:
        try:
            return str(IPv6Address(text.removeprefix("[").removesuffix("]")))
        except AddressValueError:
            return None
    return text.lower().removesuffix(".")


def origin_of(text: str) -> PageOrigin | None:
    """Return the origin of a page as its browser has sent it; None: it has none, as `null`."""
    match = _ORIGIN.fullmatch(text)
    authority = None if match is None else authority_of(match[2])
    if match is None or authority is None:
        return None
    return own_origin(match[1].lower(), authority)


def own_origin(scheme: str, authority: Authority) -> PageOrigin:
    """Return the origin of pages that are served under a host with a scheme."""
    port = authority.port
    return PageOrigin(scheme, authority.host, _DEFAULT_PORTS.get(scheme) if port is None else port)
