"""Webhooks: signed POSTs to URLs that users give, which must reach nothing that users may not."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import math
import ssl
from collections.abc import Callable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import cache, lru_cache
from socket import AF_INET, AF_INET6, IPPROTO_TCP, SOCK_STREAM
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import httptools
import msgspec
from aiohappyeyeballs import AddrInfoType, start_connection
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from headgate.app.addresses import Address
from headgate.app.automation.targets import (
    SCHEME_PORTS,
    Addresses,
    LookUp,
    Places,
    TargetRefused,
    Targets,
)
from headgate.app.runtime.telemetry import versions
from headgate.app.runtime.threads import WEBHOOKS
from headgate.engine.clock import SystemClock

# Connection: to a target, for one request at a time (HTTP/1.1, RFC 9112).
#
# The receiver may be anybody: what it sends is bounded, and whatever it sends is an answer, or an
# error in words of ours. The URL is never among them, as it is secret.

ANSWER_BYTES_MAX = 16_384
"""More of the body of an answer is not read."""

RECEIVED_BYTES_MAX = 65_536
"""Bytes of an answer as they come: with its head, heads before it (1xx), and sizes of chunks."""

_PIECE_BYTES = 65_536
"""A larger body is sent in pieces, as the receiver takes them."""

_RETRY_AFTER_S_MAX = 3_600
_DATE_BYTES_MAX = 64
_CONTINUE, _SWITCHING, _OK = 100, 101, 200


class TargetAnswer(NamedTuple):
    status: int
    body: bytes
    retry_after_s: int | None = None  # for how long it wants nothing, an hour at most


class TargetConnection(asyncio.Protocol):
    def __init__(self, on_end: Callable[[TargetConnection], None]) -> None:
        self.is_reusable = False
        """Whether another request may be sent."""
        self._on_end, self._loop = on_end, asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[TargetAnswer] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._received_bytes, self._body = 0, bytearray()
        self._status, self._has_length = 0, False
        self._retry_after, self._date = b"", b""

    async def request(self, head: bytes, body: bytes) -> TargetAnswer:
        """Send a request; return the beginning of its answer. Raises OSError without one."""
        assert self._transport is not None
        self.is_reusable = False
        self._answer = self._loop.create_future()
        self._received_bytes, self._body = 0, bytearray()
        self._begin_head()
        try:
            if len(body) <= _PIECE_BYTES:
                self._transport.write(head + body)
            else:
                self._transport.write(head)
                await self._send(body, self._transport)
            answer = await self._answer
            # An early answer: the next request would wait behind what the receiver does not take.
            if not self.is_reusable or self._transport.get_write_buffer_size():
                self.abort()
        except BaseException:  # also when the answer has just come
            self.abort()
            raise
        else:
            return answer
        finally:
            self._answer, self._body = None, bytearray()

    def abort(self) -> None:
        self.is_reusable = False
        if self._transport is not None:
            self._transport.abort()

    async def _send(self, body: bytes, transport: asyncio.Transport) -> None:
        assert self._answer is not None
        for begin in range(0, len(body), _PIECE_BYTES):
            if self._writable is not None:
                first: list[asyncio.Future[Any]] = [self._writable, self._answer]
                await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            if self._answer.done():
                self.is_reusable = False  # the receiver still waits for the others
                return
            transport.write(body[begin : begin + _PIECE_BYTES])

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_input("reset" if exc else "closed")
        self.resume_writing()
        self._on_end(self)

    def eof_received(self) -> None:
        self._end_input("closed")

    def _end_input(self, how: str) -> None:
        self.is_reusable = False
        if self._status and not self._has_length and how == "closed":
            self._end()
        elif self._received_bytes:
            self._fail("the answer ended too early")
        else:
            self._fail(f"the host {how} the connection")

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._writable is not None:
            self._writable.set_result(None)
            self._writable = None

    def data_received(self, data: bytes) -> None:
        if not self._is_open:  # nobody has asked for it
            self.abort()
            return
        is_too_much = self._received_bytes + len(data) > RECEIVED_BYTES_MAX
        try:
            self._parser.feed_data(data[: RECEIVED_BYTES_MAX - self._received_bytes])
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.is_reusable = False
            self._fail("the answer is not HTTP")
        self._received_bytes += len(data)
        if is_too_much:
            self.is_reusable = False
            if self._status:
                self._end()
            self._fail(f"the answer has more than {RECEIVED_BYTES_MAX} bytes")

    # What the parser tells.

    def on_message_begin(self) -> None:
        """Begin an answer, or an unsolicited one."""
        if not self._is_open:
            self.is_reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"retry-after":
            self._retry_after = value.strip()
        elif name == b"date":
            self._date = value.strip()
        elif name == b"content-length":
            self._has_length = True
        elif name == b"transfer-encoding":
            self._has_length = b"chunked" in value.lower()

    def on_headers_complete(self) -> None:
        """Note the status; the answer has begun, unless it is an interim one (1xx)."""
        status = self._parser.get_status_code()
        if status < _CONTINUE:
            self.is_reusable = False
            self._fail("the answer is not HTTP")
        elif status >= _OK or status == _SWITCHING:
            self._status = status

    def on_body(self, body: bytes) -> None:
        if self._is_open and self._status:
            self._body += body
            if len(self._body) > ANSWER_BYTES_MAX:
                self._end()

    def on_message_complete(self) -> None:
        """End the answer, or an interim one."""
        if not self._status:
            self._begin_head()
        elif self._is_open:
            self.is_reusable = self._parser.should_keep_alive()
            self._end()

    @property
    def _is_open(self) -> bool:
        return self._answer is not None and not self._answer.done()

    def _begin_head(self) -> None:
        self._status, self._has_length = 0, False
        self._retry_after, self._date = b"", b""

    def _end(self) -> None:
        if self._is_open and self._answer is not None:
            body = bytes(self._body[:ANSWER_BYTES_MAX])
            rest_s = _seconds(self._retry_after, self._date)
            self._answer.set_result(TargetAnswer(self._status, body, rest_s))

    def _fail(self, text: str) -> None:
        if self._is_open and self._answer is not None:
            self._answer.set_exception(OSError(text))


def _seconds(value: bytes, date: bytes) -> int | None:
    """Return the seconds of `Retry-After` (RFC 9110, 10.2.3).

    A date is relative to the clock of its sender, the header `Date`; without that, to ours.
    """
    if value.isdigit():
        return min(int(value[:9]), _RETRY_AFTER_S_MAX)
    until_s = _unix_s(value)
    if until_s is None:
        return None
    now_s = _unix_s(date)
    left_s = until_s - (SystemClock().wall_ms() / 1000 if now_s is None else now_s)
    return min(max(math.ceil(left_s), 0), _RETRY_AFTER_S_MAX)


def _unix_s(date: bytes) -> float | None:
    try:
        at = parsedate_to_datetime(date[:_DATE_BYTES_MAX].decode("ascii"))
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


_KEPT_S = 15.0
"""Time for which a connection waits for another request."""

_KEPT_MAX = 1_024
"""Connections that wait for one."""

_NEXT_ADDRESS_S = 0.25
"""The next address of a name is tried when one has not answered for so long (RFC 8305)."""

_URLS_KNOWN = 1_024


class _Origin(NamedTuple):
    """The host of a connection, by name: others may have its address, too."""

    is_tls: bool
    host: str
    port: int


class TargetConnections:
    def __init__(self, targets: Targets, look_up: LookUp | None) -> None:
        """Without `look_up` names are resolved by the machine."""
        self._targets, self._addresses = targets, Addresses(look_up)
        self._origins: dict[TargetConnection, _Origin] = {}  # of all
        self._kept: dict[_Origin, dict[TargetConnection, None]] = {}  # the last used at the end
        self._kept_until_s: dict[TargetConnection, float] = {}  # by the clock of the loop, in order
        self._timer: asyncio.TimerHandle | None = None
        self._none_left = asyncio.Event()
        self._is_closed = False

    @classmethod
    def prepare(cls) -> None:
        """Load certificates and libraries, which takes a while."""
        Addresses.prepare()
        _tls()

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> TargetAnswer:
        """Send a request, and return the beginning of its answer.

        Raises TargetRefused if no address is allowed, NameUnknown, OSError if nobody answers, and
        ValueError if a header has a line break.
        """
        origin, start = _read(url)
        head = _head(start, headers, len(body))
        connection = self._take(origin) or await self._connect(origin)
        answer = await connection.request(head, body)
        if connection.is_reusable:
            self._keep(connection)
        return answer

    async def close(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for connection in self._origins:
            connection.abort()
        if self._origins:
            await self._none_left.wait()
        await self._addresses.close()

    def _take(self, origin: _Origin) -> TargetConnection | None:
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
        """Return the allowed addresses for sockets. Raises TargetRefused if there is none."""
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
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").removesuffix("."), parts.port
        host.encode("idna")  # not every loop takes another one for TLS
    except ValueError:
        raise TargetRefused("should be a URL") from None
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
            return "the TLS connection failed"
        case _:
            return "the connection to the host failed"


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


# Sending: within limits, by a key that receivers know.

SEED_BYTES = 32

NO_KEYS = b'{"keys":[]}'


class WebhookKey:
    def __init__(self, seed: bytes, prefix: str) -> None:
        """`seed` is 32 random bytes; the key's id begins with `prefix`."""
        self._private = Ed25519PrivateKey.from_private_bytes(seed)
        self.public = self._private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        thumbprint = {"crv": "Ed25519", "kty": "OKP", "x": text_of_bytes(self.public)}
        digest = hashlib.sha256(msgspec.json.encode(thumbprint)).digest()
        self.kid = f"{prefix}_{text_of_bytes(digest)[:22]}"

    def jwks(self) -> bytes:
        key = {"kty": "OKP", "crv": "Ed25519", "kid": self.kid, "use": "sig", "alg": "EdDSA"}
        return msgspec.json.encode({"keys": [{**key, "x": text_of_bytes(self.public)}]})

    def sign(self, content: bytes) -> bytes:
        return self._private.sign(content)


def text_of_bytes(value: bytes) -> str:
    """Encode as base64url without padding."""
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


SENDS_MAX = 1_024
"""Requests at a time: each has a connection."""

LARGE_BYTES_MAX = 134_217_728
"""Bytes of large bodies at a time, before they are encoded."""

LARGE_UNIT_BYTES = 131_072
"""Bytes of a place for them. A body with fewer is none of them."""


class Sender:
    """Sends requests. Redirects are not followed, and no proxy of the environment is used."""

    def __init__(
        self, targets: Targets, identity: str | None = None, look_up: LookUp | None = None
    ) -> None:
        """`identity` is added to the `User-Agent`."""
        self.places = Places(SENDS_MAX)
        self.large_places = Places(LARGE_BYTES_MAX // LARGE_UNIT_BYTES)
        self._targets, self._look_up = targets, look_up
        self._agent, self._identity = "", f" ({identity})" if identity else ""
        self._connections: TargetConnections | None = None
        self._opening = asyncio.Lock()

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], *, within_s: float
    ) -> TargetAnswer:
        """Wait for a slot, send a request, and return the answer; see `send`."""
        host = self._targets.check(url).hostname
        async with asyncio.timeout(within_s), self.places.within(host):
            return await self.send(url, body, headers, within_s=within_s)

    async def send(
        self, url: str, body: bytes, headers: Mapping[str, str], *, within_s: float
    ) -> TargetAnswer:
        """Send a request, and return the answer. The caller must hold a slot.

        The URL was checked; the address of the connection is checked in any case. Raises
        TargetRefused, and OSError if nobody answers (TimeoutError: in time).
        """
        async with asyncio.timeout(within_s):
            connections = self._connections or await self._open()
            return await connections.post(url, body, {**headers, "User-Agent": self._agent})

    async def _open(self) -> TargetConnections:
        async with self._opening:
            if self._connections is None:
                version = await WEBHOOKS.call_if_awaited(_prepare)
                self._agent = f"Headgate/{version}{self._identity}"
                self._connections = TargetConnections(self._targets, self._look_up)
            return self._connections

    async def close(self) -> None:
        if self._connections is not None:
            await self._connections.close()


def _prepare() -> str:
    """Return the version of the gateway; loads what most gateways never need."""
    TargetConnections.prepare()
    return versions()[0]
