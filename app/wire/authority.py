"""The host and the port of a `Host` or an `Origin`, parsed strictly (RFC 3986, RFC 9110).

Everything that a browser would read differently is refused: user information, a path, a query, a
fragment, a zone, white space, or anything that is not ASCII.
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
    """A host in normalized form, and a port; None means that of the scheme."""

    host: str
    port: int | None


class PageOrigin(NamedTuple):
    """The origin of a page. Two origins are equal if a browser considers them the same."""

    scheme: str
    host: str
    port: int | None


def authority_of(text: str) -> Authority | None:
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
    """Return a name or an address in normalized form; None for brackets without IPv6."""
    if text.startswith("[") or text.count(":") > 1:
        try:
            return str(IPv6Address(text.removeprefix("[").removesuffix("]")))
        except AddressValueError:
            return None
    return text.lower().removesuffix(".")


def origin_of(text: str) -> PageOrigin | None:
    """Parse the `Origin` of a browser; None for invalid and opaque ones, such as `null`."""
    match = _ORIGIN.fullmatch(text)
    authority = None if match is None else authority_of(match[2])
    if match is None or authority is None:
        return None
    return own_origin(match[1].lower(), authority)


def own_origin(scheme: str, authority: Authority) -> PageOrigin:
    port = authority.port
    return PageOrigin(scheme, authority.host, _DEFAULT_PORTS.get(scheme) if port is None else port)
