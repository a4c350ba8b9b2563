"""The servers in a URL and the prefix of our keys there, without importing redis-py."""

from __future__ import annotations

import ssl
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

SIDE = b"hg:"
"""Beginning of side keys. The prefix of the streams comes next."""

_PORT = 6379
_SENTINEL_PORT = 26379


class Arrangement(StrEnum):
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
    host: str
    port: int

    def __str__(self) -> str:
        """Return `host:port`, with brackets around an IPv6 address."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class Tls(NamedTuple):
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None


class ServerLogin(NamedTuple):
    """A user of the servers and the password, which never appears in a text of ours."""

    username: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return f"ServerLogin({self.username!r})"


class Servers(NamedTuple):
    arrangement: Arrangement
    addresses: tuple[Address, ...]  # of some of them; of the sentinels, if there are any
    login: ServerLogin = ServerLogin()
    service: str = ""  # the name that the sentinels have for the servers
    database: int = 0
    context: ssl.SSLContext | None = None  # None: without TLS

    def __str__(self) -> str:
        addresses = ", ".join(map(str, self.addresses))
        return f"{self.arrangement} {addresses}{f' ({self.service})' if self.service else ''}"


def read_url(url: str, login: ServerLogin = ServerLogin(), tls: Tls = Tls()) -> Servers:  # noqa: B008 they are values
    """Return the servers that a URL names.

        redis://[user[:password]@]host[:port][/database]
        redis+cluster://[user[:password]@]host[:port][,host[:port]...]
        redis+sentinel://[user[:password]@]host[:port][,host[:port]...]/service[/database]

    `rediss` in place of `redis` means TLS. `login` supplies what the URL lacks. Raises ValueError,
    whose text does not repeat the URL, as it may have a password.
    """
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES:
        raise ValueError(f"should begin with one of {', '.join(f'{name}://' for name in _SCHEMES)}")
    arrangement, uses_tls = _SCHEMES[parts.scheme]
    if parse_qsl(parts.query) or parts.fragment:
        raise ValueError("should have no options after `?` or `#`: use settings instead")
    user, _, hosts = parts.netloc.rpartition("@")
    port = _SENTINEL_PORT if arrangement is Arrangement.SENTINEL else _PORT
    addresses = tuple(_address(host, port) for host in hosts.split(","))
    if arrangement is Arrangement.SINGLE and len(addresses) > 1:
        raise ValueError("should name one server; `redis+cluster://` names several")
    service, database = _path(parts, arrangement)
    context = _context(tls) if uses_tls else None
    return Servers(arrangement, addresses, _login(user, login), service, database, context)


def check_prefix(prefix: bytes) -> None:
    """Raise ValueError for an unusable prefix.

    With it, keys would share slots that should not, or a stream could have the key of a side key.
    """
    if b"{" in prefix or b"}" in prefix:
        raise ValueError("should have no braces")
    if prefix.startswith(SIDE) or (prefix and SIDE.startswith(prefix)):
        raise ValueError("should not begin with `hg:` or a part of it")


def _address(host: str, port: int) -> Address:
    parts = urlsplit(f"//{host}")
    try:
        given = parts.port
    except ValueError:
        given, parts = None, urlsplit("")
    if not parts.hostname:
        raise ValueError("should name hosts as `host` or `host:port`, separated by commas")
    return Address(parts.hostname, given or port)


def _login(user: str, given: ServerLogin) -> ServerLogin:
    name, _, password = user.partition(":")
    return ServerLogin(unquote(name) or given.username, unquote(password) or given.password)


def _path(parts: SplitResult, arrangement: Arrangement) -> tuple[str, int]:
    words = [unquote(word) for word in parts.path.split("/") if word]
    service = ""
    if arrangement is Arrangement.SENTINEL:
        if not words:
            raise ValueError("should name the service after the hosts, such as `/mymaster`")
        service = words.pop(0)
    if arrangement is Arrangement.CLUSTER and words:
        raise ValueError("should have no path: a cluster has no databases")
    if len(words) > 1 or not all(word.isascii() and word.isdigit() for word in words):
        raise ValueError("should end with the number of a database, such as `/0`")
    return service, int(words[0]) if words else 0


def _refuse_passphrase() -> str:
    raise ValueError("the TLS key is encrypted, and nobody can type its passphrase")


def _context(tls: Tls) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=tls.ca_file)
        if tls.cert_file is not None:
            context.load_cert_chain(tls.cert_file, tls.key_file, _refuse_passphrase)
    except OSError as error:
        files = ", ".join(str(file) for file in tls if file is not None)
        raise ValueError(f"cannot use {files} for TLS: {error}") from None
    return context
