"""Address: where the servers are, read from a URL, and how connections to them are made."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from redis.asyncio import Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.driver_info import DriverInfo

_LIBRARY = DriverInfo(name="headgate", lib_version=None)
"""Who we are (CLIENT SETINFO). To learn its version, each connection would read a file."""

_PORT = 6379
_SENTINEL_PORT = 26379


class Arrangement(StrEnum):
    """How several servers belong together."""

    SINGLE = "single"
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


_SCHEMES = {
    "redis": (Arrangement.SINGLE, False),
    "rediss": (Arrangement.SINGLE, True),
    "redis+sentinel": (Arrangement.SENTINEL, False),
    "rediss+sentinel": (Arrangement.SENTINEL, True),
    "redis+cluster": (Arrangement.CLUSTER, False),
    "rediss+cluster": (Arrangement.CLUSTER, True),
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


class ServerLogin(NamedTuple):
    """A user of the servers and the password. The password never stands in a text that we make."""

    username: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        """Return the name of the user only."""
        return f"ServerLogin({self.username!r})"


class Servers(NamedTuple):
    """The servers of a backend, as a URL names them."""

    arrangement: Arrangement
    addresses: tuple[Address, ...]  # of some of them; of the sentinels, if there are any
    login: ServerLogin = ServerLogin()
    service: str = ""  # the name that the sentinels have for the servers
    database: int = 0
    uses_tls: bool = False
    tls: Tls = Tls()

    def __str__(self) -> str:
        """Return what a log or a problem may say."""
        addresses = ", ".join(map(str, self.addresses))
        return f"{self.arrangement} {addresses}{f' ({self.service})' if self.service else ''}"

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
            "username": self.login.username,
            "password": self.login.password,
            "protocol": protocol,
            "socket_connect_timeout": timeout_s,
            "socket_timeout": None,
            "socket_keepalive": True,
            "retry": Retry(NoBackoff(), 0),
            "driver_info": _LIBRARY,
        }
        if not self.uses_tls:
            return Connection(**options)
        return SSLConnection(
            **options,
            ssl_ca_certs=_text(self.tls.ca_file),
            ssl_certfile=_text(self.tls.cert_file),
            ssl_keyfile=_text(self.tls.key_file),
        )


def read_url(url: str, login: ServerLogin = ServerLogin(), tls: Tls = Tls()) -> Servers:  # noqa: B008 they are values
    """Return the servers that a URL names.

        redis://[user[:password]@]host[:port][/database]
        redis+cluster://[user[:password]@]host[:port][,host[:port]...]
        redis+sentinel://[user[:password]@]host[:port][,host[:port]...]/service[/database]

    With `rediss` in place of `redis` the servers are reached over TLS.

    Args:
        url: the URL.
        login: what the URL does not say of user and password.
        tls: the files for TLS.

    Raises:
        ValueError: the URL is wrong. The text does not repeat it, as it may have a password.
    """
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES:
        raise ValueError(f"should begin with one of {', '.join(f'{name}://' for name in _SCHEMES)}")
    arrangement, uses_tls = _SCHEMES[parts.scheme]
    if parse_qsl(parts.query) or parts.fragment:
        raise ValueError("should have no options behind `?` or `#`: there are settings for them")
    user, _, hosts = parts.netloc.rpartition("@")
    port = _SENTINEL_PORT if arrangement is Arrangement.SENTINEL else _PORT
    addresses = tuple(_address(host, port) for host in hosts.split(","))
    if arrangement is Arrangement.SINGLE and len(addresses) > 1:
        raise ValueError("should name one server; `redis+cluster://` names several")
    service, database = _path(parts, arrangement)
    return Servers(arrangement, addresses, _login(user, login), service, database, uses_tls, tls)


def _address(host: str, port: int) -> Address:
    parts = urlsplit(f"//{host}")
    try:
        given = parts.port
    except ValueError:
        given, parts = None, urlsplit("")
    if not parts.hostname:
        raise ValueError("should name hosts as `host` or `host:port`, with commas between")
    return Address(parts.hostname, given or port)


def _login(user: str, given: ServerLogin) -> ServerLogin:
    name, _, password = user.partition(":")
    return ServerLogin(unquote(name) or given.username, unquote(password) or given.password)


def _path(parts: SplitResult, arrangement: Arrangement) -> tuple[str, int]:
    """Return the service of the sentinels and the number of the database."""
    words = [unquote(word) for word in parts.path.split("/") if word]
    service = ""
    if arrangement is Arrangement.SENTINEL:
        if not words:
            raise ValueError("should name the service behind the hosts, such as `/mymaster`")
        service = words.pop(0)
    if arrangement is Arrangement.CLUSTER and words:
        raise ValueError("should have no path: a cluster has no databases")
    if len(words) > 1 or not all(word.isascii() and word.isdigit() for word in words):
        raise ValueError("should end with the number of a database, such as `/0`")
    return service, int(words[0]) if words else 0


def _text(file: Path | None) -> str | None:
    return None if file is None else str(file)
