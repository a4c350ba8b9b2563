"""What trusted proxies report about a client.

A proxy appends the address of its peer to the right of `X-Forwarded-For`. Everything to the left
was sent by that peer and may be forged. So the header is read from right to left past trusted
proxies, up to the first address that is not one.

`Forwarded` (RFC 7239) is not read. A proxy that writes one of the two headers passes the other on
as its client has sent it, and we do not know which one it writes.
"""

import re
from collections.abc import Iterable, Sequence
from ipaddress import ip_network

from starlette.types import Scope

from headgate.app.addresses import Address, address_of, is_within

_HOPS_MAX = 32
"""Proxies in a row. What is left of them is not looked at."""

_HOST = re.compile(r"[A-Za-z0-9._-]+(:\d{1,5})?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?")
_SCHEMES = {"http": "http", "https": "https", "ws": "http", "wss": "https"}
_PORT = re.compile(r"\[(.*)\](:\d*)?|([^:]*):\d*")


class Proxies:
    def __init__(self, networks: Iterable[str]) -> None:
        self._networks = [ip_network(text) for text in networks]

    def trusts(self, address: Address | None) -> bool:
        return address is not None and is_within(address, self._networks)

    def client_of(self, peer: str, forwarded_for: Sequence[bytes]) -> str:
        """Return the client's address; `forwarded_for` are values of `X-Forwarded-For`."""
        known = _address_in(peer)
        hops = b",".join(forwarded_for).rsplit(b",", _HOPS_MAX)[-_HOPS_MAX:]
        while hops and self.trusts(known):
            named = _address_in(hops.pop().decode("latin-1"))
            if named is None:  # nobody knows what comes before it
                break
            known = named
        return peer if known is None else str(known)

    def __bool__(self) -> bool:
        return bool(self._networks)


_NOBODY = Proxies(())


def client_address(scope: Scope) -> str:
    peer, proxies = _peer_of(scope), _proxies_of(scope)
    if not proxies:
        return peer
    return proxies.client_of(peer, _values(scope, b"x-forwarded-for"))


def is_remote(scope: Scope) -> bool:
    """Tell whether a client is of another machine: also if a trusted proxy's word is unreadable."""
    peer = _address_in(_peer_of(scope))
    if peer is None:  # a Unix socket
        return False
    told = _values(scope, b"x-forwarded-for") if _proxies_of(scope).trusts(peer) else []
    hops = [_address_in(hop.decode("latin-1")) for value in told for hop in value.split(b",")]
    return not all(hop is not None and hop.is_loopback for hop in [peer, *hops])


def scheme_of(scope: Scope) -> str:
    """Return the scheme that the client uses, `http` or `https`."""
    scheme = _SCHEMES.get(scope.get("scheme", ""), "http")
    if _proxies_of(scope).trusts(_address_in(_peer_of(scope))):
        return _SCHEMES.get(_last(scope, b"x-forwarded-proto").lower(), scheme)
    return scheme


def base_url(scope: Scope) -> str:
    """Return the URL of the gateway as the client sees it, without a trailing slash."""
    host = _last(scope, b"host")
    if _proxies_of(scope).trusts(_address_in(_peer_of(scope))):
        host = _last(scope, b"x-forwarded-host") or host
    if _HOST.fullmatch(host) is None:
        host, port = scope.get("server") or ("localhost", None)
        host = f"[{host}]" if ":" in host else host
        host = host if port is None else f"{host}:{port}"
    return f"{scheme_of(scope)}://{host}{scope.get('root_path', '')}"


def _proxies_of(scope: Scope) -> Proxies:
    proxies: Proxies = scope.get("state", {}).get("proxies", _NOBODY)
    return proxies


def _peer_of(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else "unknown"


def _values(scope: Scope, name: bytes) -> list[bytes]:
    return [value for each, value in scope["headers"] if each == name]


def _last(scope: Scope, name: bytes) -> str:
    values = _values(scope, name)
    return values[-1].rpartition(b",")[2].decode("latin-1").strip() if values else ""


def _address_in(text: str) -> Address | None:
    """Return an address without its port; None if it is invalid."""
    text = text.strip()
    with_port = _PORT.fullmatch(text)
    if with_port is not None:
        text = with_port[1] if with_port[3] is None else with_port[3]
    return address_of(text)
