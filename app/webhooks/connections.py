"""Connections: to the hosts of targets, kept for the next request, each to an address allowed.

httpx, which the clients use, sends 200 requests a second where there are 50 at a time; aiohttp
sends 7,000, keeps connections by host and not by address, and shows the address of each one.
"""

from __future__ import annotations

import asyncio
import io
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from headgate.app.webhooks.targets import NameUnknown, TargetRefused, Targets

LookUp = Callable[[str], Awaitable[Sequence[str]]]
"""Returns the addresses of a name."""

_LOOK_UP_S_MAX = 5.0
_KEPT_S = 15.0
"""Time for which a connection waits for another request."""

_AT_ONCE_BYTES = 65_536

_OWN = frozenset(["Accept", "Accept-Encoding", "User-Agent", "Content-Type"])
"""Headers that the library would add."""


class AnswerStart(NamedTuple):
    """The beginning of an answer."""

    status: int
    body: bytes
    retry_after: str | None


class TargetConnections:
    """TargetConnections of one gateway."""

    def __init__(self, targets: Targets, answer_bytes_max: int, look_up: LookUp | None) -> None:
        """Begin without any.

        Args:
            targets: says to which addresses there may be some.
            answer_bytes_max: more of an answer is not read.
            look_up: returns the addresses of a name; the resolver of the machine unless given.
        """
        self._answer_bytes_max = answer_bytes_max
        self._resolver = _Resolver(look_up or _MachineLookUp())
        self._sessions = {
            scheme: self._session(targets, is_tls=scheme == "https") for scheme in ("http", "https")
        }

    @classmethod
    def prepare(cls) -> None:
        """Read the certificates of the machine, which takes a while."""
        _tls()

    def _session(self, targets: Targets, *, is_tls: bool) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            resolver=self._resolver,
            use_dns_cache=False,
            limit=0,  # `Places` has the bounds
            ssl=_tls(),
            keepalive_timeout=_KEPT_S,
            socket_factory=partial(_checked_socket, targets, is_tls),
        )
        return aiohttp.ClientSession(
            connector=connector,
            auto_decompress=False,  # packed, little may become much
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=self._answer_bytes_max,
            skip_auto_headers=_OWN,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        )

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> AnswerStart:
        """Send a request, and return the beginning of its answer.

        Raises:
            TargetRefused: the address is not allowed.
            OSError: nobody answers there.
        """
        session = self._sessions[url.partition(":")[0].lower()]
        place = URL(url, encoded=True)
        data = body if len(body) <= _AT_ONCE_BYTES else io.BytesIO(body)  # sent in pieces
        try:
            async with session.post(
                place, data=data, headers=headers, allow_redirects=False
            ) as response:
                content = await self._start_of(response)
                return AnswerStart(response.status, content, response.headers.get("Retry-After"))
        except aiohttp.ClientError as error:
            cause = error.__cause__
            if isinstance(cause, TargetRefused | NameUnknown):
                raise cause from None
            raise OSError(_text_of(error)) from error

    async def _start_of(self, response: aiohttp.ClientResponse) -> bytes:
        content = b""
        if response.content.at_eof():  # as in most answers that acknowledge
            return content
        async for part in response.content.iter_any():
            content += part
            if len(content) > self._answer_bytes_max:
                response.close()  # nobody reads what else would come
                break
        return content[: self._answer_bytes_max]

    async def close(self) -> None:
        """Close them."""
        for session in self._sessions.values():
            await session.close()
        await self._resolver.close()


def _text_of(error: aiohttp.ClientError) -> str:
    """Return an error in words of ours: the library's own have the URL in them, which is secret."""
    for kind, text in _TEXTS.items():
        if isinstance(error, kind):
            return text
    return "no answer of HTTP"


_TEXTS: dict[type[aiohttp.ClientError], str] = {
    aiohttp.ClientConnectorCertificateError: "the certificate of the host is not trusted",
    aiohttp.ClientSSLError: "no connection by TLS",
    aiohttp.ClientConnectorError: "no connection to the host",
    aiohttp.ServerDisconnectedError: "the host closed the connection",
    aiohttp.ClientOSError: "the host reset the connection",
    aiohttp.ClientPayloadError: "the answer ended too early",
}


def _checked_socket(targets: Targets, is_tls: bool, place: Any) -> socket.socket:
    """Return the socket of a connection, if its address is allowed."""
    family, kind, protocol, _, address = place
    host, port = address[:2]
    targets.check_address(ipaddress.ip_address(host), port, is_tls=is_tls)
    return socket.socket(family, kind, protocol)


class _Resolver(AbstractResolver):
    """Looks names up, each time anew."""

    def __init__(self, look_up: LookUp) -> None:
        self._look_up = look_up

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002 both families
    ) -> list[ResolveResult]:
        try:
            async with asyncio.timeout(_LOOK_UP_S_MAX):
                addresses = await self._look_up(host)
        except OSError as error:  # also when it takes too long
            raise NameUnknown(f"{host}: {error}") from error
        if not addresses:
            raise NameUnknown(f"{host} has no address")
        return [_result(host, port, address) for address in addresses]

    async def close(self) -> None:
        if isinstance(self._look_up, _MachineLookUp):
            await self._look_up.close()


def _result(host: str, port: int, address: str) -> ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    numeric = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return ResolveResult(
        hostname=host, host=address, port=port, family=family, proto=0, flags=numeric
    )


class _MachineLookUp:
    """The resolver of the machine. It needs no thread, so none waits for a server of names."""

    def __init__(self) -> None:
        self._resolver = aiohttp.AsyncResolver()

    async def __call__(self, name: str) -> Sequence[str]:
        return [each["host"] for each in await self._resolver.resolve(name, 0, socket.AF_UNSPEC)]

    async def close(self) -> None:
        await self._resolver.close()


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()
