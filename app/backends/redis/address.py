"""Address: where the servers are, read from a URL, and how connections to them are made."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from redis.asyncio import Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

_PORT = 6379
_SENTINEL_PORT = 26379


class Kind(StrEnum):
    """How several servers belong together."""

    SINGLE = "single"
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


_SCHEMES = {
    "redis": (Kind.SINGLE, False),
    "rediss": (Kind.SINGLE, True),
    "redis+sentinel": (Kind.SENTINEL, False),
    "rediss+sentinel": (Kind.SENTINEL, True),
    "redis+cluster": (Kind.CLUSTER, False),
    "rediss+cluster": (Kind.CLUSTER, True),
}


class Address(NamedTuple):
    """Where a server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return `host:port`; an IPv6 address is in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class Tls(NamedTuple):
    """Files for TLS to the servers; None leaves the choice to the system."""

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None


class Credential(NamedTuple):
    """A user of the servers and the password. The password never stands in a text that we make."""

    username: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        """Return the name of the user only."""
        return f"Credential({self.username!r})"


class Servers(NamedTuple):
    """The servers of a backend, as a URL names them."""

    kind: Kind
    addresses: tuple[Address, ...]  # of some of them; of the sentinels, if there are any
    credential: Credential = Credential()
    service: str = ""  # the name that the sentinels have for the servers
    database: int = 0
    uses_tls: bool = False
    tls: Tls = Tls()

    def __str__(self) -> str:
        """Return what a log or a problem may say."""
        addresses = ", ".join(map(str, self.addresses))
        return f"{self.kind} {addresses}{f' ({self.service})' if self.service else ''}"

    def connection(self, address: Address, *, protocol: int = 2, timeout_s: float) -> Connection:
        """Return a connection to a server, which is not connected yet.

        Args:
            address: the server.
            protocol: the version of RESP.
            timeout_s: how long it may take to connect, in seconds.
        """
        options: dict[str, Any] = {
            "host": address.host,
            "port": address.port,
            "db": self.database,
            "username": self.credential.username,
            "password": self.credential.password,
            "protocol": protocol,
            "socket_connect_timeout": timeout_s,
            "socket_timeout": None,
            "socket_keepalive": True,
            "retry": Retry(NoBackoff(), 0),
        }
        if not self.uses_tls:
            return Connection(**options)
        return SSLConnection(
            **options,
            ssl_ca_certs=_text(self.tls.ca_file),
            ssl_certfile=_text(self.tls.cert_file),
            ssl_keyfile=_text(self.tls.key_file),
        )


def read_url(url: str, credential: Credential = Credential(), tls: Tls = Tls()) -> Servers:  # noqa: B008 they are values
    """Return the servers that a URL names.

        redis://[user[:password]@]host[:port][/database]
        redis+cluster://[user[:password]@]host[:port][,host[:port]...]
        redis+sentinel://[user[:password]@]host[:port][,host[:port]...]/service[/database]

    With `rediss` in place of `redis` the servers are reached over TLS.

    Args:
        url: the URL.
        credential: what the URL does not say of user and password.
        tls: the files for TLS.

    Raises:
        ValueError: the URL is wrong. The text does not repeat it, as it may have a password.
    """
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES:
        raise ValueError(f"should begin with one of {', '.join(f'{name}://' for name in _SCHEMES)}")
    kind, uses_tls = _SCHEMES[parts.scheme]
    if parse_qsl(parts.query) or parts.fragment:
        raise ValueError("should have no options behind `?` or `#`: there are settings for them")
    user, _, hosts = parts.netloc.rpartition("@")
    port = _SENTINEL_PORT if kind is Kind.SENTINEL else _PORT
    addresses = tuple(_address(host, port) for host in hosts.split(","))
    if kind is Kind.SINGLE and len(addresses) > 1:
        raise ValueError("should name one server; `redis+cluster://` names several")
    service, database = _path(parts, kind)
    return Servers(kind, addresses, _credential(user, credential), service, database, uses_tls, tls)


def _address(host: str, port: int) -> Address:
    parts = urlsplit(f"//{host}")
    try:
        given = parts.port
    except ValueError:
        given, parts = None, urlsplit("")
    if not parts.hostname:
        raise ValueError("should name hosts as `host` or `host:port`, with commas between")
    return Address(parts.hostname, given or port)


def _credential(user: str, given: Credential) -> Credential:
    name, _, password = user.partition(":")
    return Credential(unquote(name) or given.username, unquote(password) or given.password)


def _path(parts: SplitResult, kind: Kind) -> tuple[str, int]:
    """Return the service of the sentinels and the number of the database."""
    words = [unquote(word) for word in parts.path.split("/") if word]
    service = ""
    if kind is Kind.SENTINEL:
        if not words:
            raise ValueError("should name the service behind the hosts, such as `/mymaster`")
        service = words.pop(0)
    if kind is Kind.CLUSTER and words:
        raise ValueError("should have no path: a cluster has no databases")
    if len(words) > 1 or not all(word.isascii() and word.isdigit() for word in words):
        raise ValueError("should end with the number of a database, such as `/0`")
    return service, int(words[0]) if words else 0


def _text(file: Path | None) -> str | None:
    return None if file is None else str(file)
