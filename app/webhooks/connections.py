"""Connections: to the hosts of targets, kept for the next request, each to an address allowed."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from functools import cache, lru_cache
from socket import AF_INET, AF_INET6, IPPROTO_TCP, SOCK_STREAM
from typing import NamedTuple
from urllib.parse import urlsplit

from aiohappyeyeballs import AddrInfoType, start_connection

from headgate.app.webhooks.addresses import Addresses, LookUp
from headgate.app.webhooks.connection import TargetAnswer, TargetConnection
from headgate.app.webhooks.targets import SCHEME_PORTS, Address, TargetRefused, Targets

_KEPT_S = 15.0
"""Time for which a connection waits for another request."""

_KEPT_MAX = 1_024
"""Connections that wait for one."""

_NEXT_ADDRESS_S = 0.25
"""The next address of a name is tried when one has not answered for so long (RFC 8305)."""

_URLS_KNOWN = 1_024


class _Origin(NamedTuple):
    """The host that a connection leads to, by its name: others may have its address, too."""

    is_tls: bool
    host: str
    port: int


class TargetConnections:
    """The connections of one gateway."""

    def __init__(self, targets: Targets, look_up: LookUp | None) -> None:
        """Begin without any.

        Args:
            targets: says to which addresses there may be some.
            look_up: returns the addresses of a name; the resolver of the machine unless given.
        """
        self._targets, self._addresses = targets, Addresses(look_up)
        self._origins: dict[TargetConnection, _Origin] = {}  # of all
        self._kept: dict[_Origin, dict[TargetConnection, None]] = {}  # the last used at the end
        self._kept_until_s: dict[TargetConnection, float] = {}  # by the clock of the loop, in order
        self._timer: asyncio.TimerHandle | None = None
        self._none_left = asyncio.Event()
        self._is_closed = False

    @classmethod
    def prepare(cls) -> None:
        """Read the certificates of the machine, and load what is needed: it takes a while."""
        Addresses.prepare()
        _tls()

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> TargetAnswer:
        """Send a request, and return the beginning of its answer.

        Raises:
            TargetRefused: no address is allowed.
            NameUnknown: there is none.
            OSError: nobody answers there.
            ValueError: a header has a line break.
        """
        origin, start = _read(url)
        head = _head(start, headers, len(body))
        connection = self._take(origin) or await self._connect(origin)
        answer = await connection.request(head, body)
        if connection.is_reusable:
            self._keep(connection)
        return answer

    async def close(self) -> None:
        """Close them, and make no more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for connection in self._origins:
            connection.abort()
        if self._origins:
            await self._none_left.wait()
        await self._addresses.close()

    def _take(self, origin: _Origin) -> TargetConnection | None:
        """Return a connection that is kept, if there is one that may be used."""
        while origin in self._kept:
            connection = next(reversed(self._kept[origin]))
            self._forget(connection)
            if connection.is_reusable:
                return connection
        return None

    def _keep(self, connection: TargetConnection) -> None:
        loop, origin = asyncio.get_running_loop(), self._origins.get(connection)
        if origin is None or self._is_closed:  # it has ended just now
            connection.abort()
            return
        if len(self._kept_until_s) >= _KEPT_MAX:
            self._end_kept(next(iter(self._kept_until_s)))
        self._kept.setdefault(origin, {})[connection] = None
        self._kept_until_s[connection] = loop.time() + _KEPT_S
        if self._timer is None:
            self._timer = loop.call_later(_KEPT_S, self._end_old)

    def _end_old(self) -> None:
        """End those that nobody has used for long, and come again when the next one is due."""
        loop = asyncio.get_running_loop()
        self._timer = None
        for connection, until_s in list(self._kept_until_s.items()):
            if until_s > loop.time():
                self._timer = loop.call_at(until_s, self._end_old)
                break
            self._end_kept(connection)

    def _end_kept(self, connection: TargetConnection) -> None:
        self._forget(connection)
        connection.abort()

    def _forget(self, connection: TargetConnection) -> None:
        """Keep a connection no more, if it is kept."""
        if self._kept_until_s.pop(connection, None) is not None:
            origin = self._origins[connection]
            del self._kept[origin][connection]
            if not self._kept[origin]:
                del self._kept[origin]

    def _note_end(self, connection: TargetConnection) -> None:
        self._forget(connection)
        self._origins.pop(connection, None)
        if not self._origins:
            self._none_left.set()

    async def _connect(self, origin: _Origin) -> TargetConnection:
        infos = self._allowed(origin, await self._addresses.of(origin.host))
        connection = TargetConnection(self._note_end)
        try:
            connected = await start_connection(infos, happy_eyeballs_delay=_NEXT_ADDRESS_S)
            try:
                await asyncio.get_running_loop().create_connection(
                    lambda: connection,
                    sock=connected,
                    ssl=_tls() if origin.is_tls else None,
                    server_hostname=origin.host if origin.is_tls else None,
                )
            except BaseException:
                connection.abort()  # before its socket: it may have just been made
                connected.close()
                raise
        except (OSError, RuntimeError) as error:  # uvloop has some of the latter
            raise OSError(_text_of(error)) from error
        self._origins[connection] = origin
        self._none_left.clear()
        if self._is_closed:
            connection.abort()
        return connection

    def _allowed(self, origin: _Origin, addresses: list[Address]) -> list[AddrInfoType]:
        """Return the addresses that are allowed, at least one, for sockets."""
        infos, refusal = list[AddrInfoType](), TargetRefused()
        for address in addresses:
            try:
                self._targets.check_address(address, origin.port, is_tls=origin.is_tls)
            except TargetRefused as refused:
                refusal = refused
            else:
                family = AF_INET if address.version == 4 else AF_INET6
                place = (str(address), origin.port)
                infos.append((family, SOCK_STREAM, IPPROTO_TCP, "", place))
        if not infos:
            raise refusal
        return infos


@lru_cache(_URLS_KNOWN)
def _read(url: str) -> tuple[_Origin, str]:
    """Return the origin of a URL, and the start of the head of requests."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").removesuffix("."), parts.port
        host.encode("idna")  # not every loop takes another one for TLS
    except ValueError:
        raise TargetRefused("this is no URL") from None
    usual_port = SCHEME_PORTS[parts.scheme]
    authority = f"[{host}]" if ":" in host else host
    if port not in (None, usual_port):
        authority += f":{port}"
    query = f"?{parts.query}" if parts.query else ""
    origin = _Origin(parts.scheme == "https", host, usual_port if port is None else port)
    return origin, f"POST {parts.path or '/'}{query} HTTP/1.1\r\nHost: {authority}\r\n"


def _head(start: str, headers: Mapping[str, str], length: int) -> bytes:
    lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
    for line in lines:
        if "\r" in line[:-2] or "\n" in line[:-2]:
            raise ValueError("a header has a line break")
    return f"{start}{''.join(lines)}Content-Length: {length}\r\n\r\n".encode()


def _text_of(error: Exception) -> str:
    match error:
        case ssl.SSLCertVerificationError():
            return "the certificate of the host is not trusted"
        case ssl.SSLError():
            return "no connection by TLS"
        case _:
            return "no connection to the host"


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()
