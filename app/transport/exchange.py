"""One request and its answer, as an ASGI app receives and sends them.

It replaces uvicorn's `RequestResponseCycle`, which writes head and body of an answer separately,
creates an `asyncio.Event` for each request, and searches each header twice for invalid characters.
That took longer than the engine takes for an append.
"""

import asyncio
import logging
import re
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any, Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from headgate.app.transport.scopes import note_request

log = logging.getLogger("uvicorn.error")

_JOINED_BYTES_MAX = 64 * 1024
"""A larger part of a body is not copied to go with the head."""

_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NO_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_NAMES_MAX = 256
_RESET = struct.pack("ii", 1, 0)  # waits no time until all is sent
_WITHOUT_BODY = frozenset({204, 304})
_names: set[bytes] = set()  # of headers, which are known to be in order
_FRAMING = frozenset({b"connection", b"content-length", b"transfer-encoding"})
_JSON = b"%b%bcontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
"""An answer: the lines that all have, those of further headers, length and body."""

_Headers = Sequence[tuple[bytes, bytes]]

_FAILED: list[Message] = [
    {
        "type": "http.response.start",
        "status": 500,
        "headers": [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", b"21"),
            (b"connection", b"close"),
        ],
    },
    {"type": "http.response.body", "body": b"Internal Server Error"},
]


class HttpConnection(Protocol):
    transport: asyncio.Transport
    flow: FlowControl
    logs_requests: bool
    server_state: Any

    def on_response_complete(self) -> None:
        """Go on with the next request."""

    def waits_to_write(self, size_bytes: int) -> None:
        """Count a part of an answer that waits until the client has read what came before it."""


class Exchange:
    __slots__ = (
        "_arrived",
        "_connection",
        "_content_bytes",
        "_has_news",
        "_head",
        "_is_chunked",
        "_waits_for_continue",
        "body",
        "disconnected",
        "held_bytes",
        "keep_alive",
        "more_body",
        "response_complete",
        "response_started",
        "scope",
    )

    def __init__(
        self,
        connection: HttpConnection,
        scope: Scope,
        *,
        keep_alive: bool,
        expects_continue: bool,
        body: bytes | None = None,
    ) -> None:
        """Begin an exchange.

        `expects_continue`: the client waits for a 100 response before it sends the body. `body` is
        given if it is here as a whole.
        """
        self.scope = scope
        self.keep_alive = keep_alive
        self.disconnected = False  # nobody gets what is sent from here on
        self.body: bytes | bytearray = body or b""  # what has arrived, and was not received
        self.more_body = body is None
        self.response_started = False
        self.response_complete = False
        self.held_bytes = 0  # of it, made by the app and not sent
        self._connection: HttpConnection | None = connection  # None: the app has ended
        self._waits_for_continue = expects_continue
        self._has_news = body is not None  # since the app has received something
        self._arrived: asyncio.Event | None = None  # set if there are, once somebody waits
        self._head = b""  # of an answer, until its body comes
        self._content_bytes: int | None = 0  # of the answer, to come; None: it says no length
        self._is_chunked = False

    @property
    def transport(self) -> asyncio.Transport | None:
        """Return the transport, or None if the app has ended."""
        return None if self._connection is None else self._connection.transport

    def add(self, data: bytes) -> None:
        if not self.body:
            self.body = data
        else:
            if type(self.body) is bytes:
                self.body = bytearray(self.body)
            self.body += data
        self.wake()

    def complete(self) -> None:
        self.more_body = False
        self.wake()

    def disconnect(self) -> None:
        """Note that the client is gone; an answer that is complete is not affected."""
        if not self.response_complete:
            self.disconnected = True
        self.wake()

    def wake(self) -> None:
        self._has_news = True
        if self._arrived is not None:
            self._arrived.set()

    async def run(self, app: ASGIApp) -> None:
        """Run the app. If it gives up in the middle of an answer, the connection is reset."""
        assert self._connection is not None
        logs_requests = self._connection.logs_requests
        began_s = time.perf_counter() if logs_requests else 0
        try:
            await app(self.scope, self.receive, self.send)
        except BaseException:
            log.exception("Exception in ASGI application")
            if not self.response_started:
                await self._fail()
            elif not self.response_complete:
                self._flush()
                self._cut()
                self._connection.transport.close()
        else:
            if self.response_started and not self.response_complete:
                self.disconnected = True
                self._cut()
                self._connection.transport.abort()
            elif not self.response_started and not self.disconnected:
                log.error("ASGI callable returned without starting response.")
                await self._fail()
        finally:
            self._connection = None  # it knows this exchange
            if logs_requests:
                status = self.scope["status"] if self.response_started else 0
                note_request(self.scope, status, began_s)

    async def receive(self) -> Message:
        connection = self._connection
        if connection is None:
            return {"type": "http.disconnect"}
        if self._waits_for_continue and not connection.transport.is_closing():
            connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._waits_for_continue = False
        if not self.disconnected and not self.response_complete:
            connection.flow.resume_reading()
            if not self._has_news:
                await self._wait()
            self._has_news = False
        if self.disconnected or self.response_complete:
            return {"type": "http.disconnect"}
        body, self.body = bytes(self.body), b""
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    def take_whole(self) -> bytes | None:
        """Receive the body at once; None if it is not here as a whole."""
        connection = self._connection
        if self.more_body or self.disconnected or self.response_complete or connection is None:
            return None
        if connection.flow.read_paused:
            connection.flow.resume_reading()
        self._has_news = False
        body, self.body = bytes(self.body), b""
        return body

    async def send(self, message: Message) -> None:
        connection, kind = self._connection, message["type"]
        if connection is None:
            return
        if kind == "http.response.start":
            self.scope["status"] = message["status"]
        if connection.flow.write_paused and not self.disconnected:
            size_bytes = max(len(message.get("body", b"")), self.held_bytes)
            connection.waits_to_write(size_bytes)
            await connection.flow.drain()
        if self.disconnected:
            return
        if self.response_complete:
            raise RuntimeError(f"{kind!r} is sent behind the end of an answer")
        if not self.response_started:
            if kind != "http.response.start":
                raise RuntimeError(f"{kind!r} is sent before an answer begins")
            self._begin(connection, message["status"], message.get("headers", ()))
        elif kind != "http.response.body":
            raise RuntimeError(f"{kind!r} is sent in the middle of an answer")
        else:
            is_last = not message.get("more_body", False)
            self._send_body(connection, message.get("body", b""), is_last=is_last)

    def send_whole(self, status: int, headers: _Headers, body: bytes | memoryview) -> bool:
        """Send an answer at once, head and body; return false if it must wait, as `send` does."""
        connection = self._connection
        if connection is None or connection.flow.write_paused or self.disconnected:
            return False
        self.scope["status"] = status
        self._begin(connection, status, headers)
        self._send_body(connection, bytes(body), is_last=True)
        return True

    def send_part(self, body: bytes) -> bool:
        """Send a part of the body at once, not the last; return false if it must wait."""
        connection = self._connection
        if connection is None or connection.flow.write_paused or self.disconnected:
            return False
        if not self.response_started or self.response_complete:
            return False
        self._send_body(connection, body, is_last=False)
        return True

    def send_json(self, status: int, headers: _Headers, content: bytes) -> bool:
        """Send JSON at once, with further headers; return false if anything is special."""
        connection, scope = self._connection, self.scope
        if connection is None or connection.flow.write_paused or self.disconnected:
            return False
        lines = _plain_lines(headers) if headers else b""
        if lines is None or not self.keep_alive or scope["method"] == "HEAD":
            return False
        scope["status"] = status
        self.response_started = self.response_complete = True
        first = self._first_lines(connection, status)
        connection.transport.write(_JSON % (first, lines, len(content), content))
        if connection.flow.write_paused:
            connection.waits_to_write(self.held_bytes)
        self.wake()
        connection.on_response_complete()
        return True

    async def _wait(self) -> None:
        if self._arrived is None:
            self._arrived = asyncio.Event()
        self._arrived.clear()
        await self._arrived.wait()

    async def _fail(self) -> None:
        for message in _FAILED:
            await self.send(message)

    def _cut(self) -> None:
        """Reset the connection where a plain close would end the body properly."""
        if self._connection is None or self._connection.transport.is_closing():
            return  # the client has gone
        if self._content_bytes is None and not self._is_chunked:
            taken = self._connection.transport.get_extra_info("socket")
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)

    def _first_lines(self, connection: HttpConnection, status: int) -> bytes:
        """Return the lines that all answers have."""
        return b"%b%bx-request-id: %b\r\n" % (
            STATUS_LINE[status],
            _defaults.lines_of(connection.server_state.default_headers),
            self.scope["request_id"].encode(),
        )

    def _begin(self, connection: HttpConnection, status: int, headers: _Headers) -> None:
        self.response_started = True
        self._waits_for_continue = False
        scope = self.scope
        lines = [self._first_lines(connection, status)]
        values = _add_lines(lines, headers)
        if b"connection" in values and b"close" in values[b"connection"].lower():
            self.keep_alive = False
        elif not self.keep_alive:
            lines.append(b"connection: close\r\n")
        if scope["method"] != "HEAD" and status not in _WITHOUT_BODY:
            length = values.get(b"content-length")
            self._content_bytes = None if length is None else int(length)
            # A client of HTTP/1.0 knows no chunks (RFC 9112, 6.1): the connection ends the body.
            self._is_chunked = length is None and scope["http_version"] >= "1.1"
            if self._is_chunked and b"transfer-encoding" not in values:
                lines.append(b"transfer-encoding: chunked\r\n")
        lines.append(b"\r\n")
        self._head = b"".join(lines)
        if self._content_bytes is None:  # it may take long until there is a part of the body
            self._flush()

    def _send_body(self, connection: HttpConnection, body: bytes, *, is_last: bool) -> None:
        body = self._framed(body, is_last=is_last)
        if self._head:
            if len(body) <= _JOINED_BYTES_MAX:
                body, self._head = self._head + body, b""
            else:
                self._flush()
        if body:
            connection.transport.write(body)
            if connection.flow.write_paused:
                connection.waits_to_write(self.held_bytes)
        if is_last:
            self.response_complete = True
            self.wake()
            if not self.keep_alive:
                connection.transport.close()
            connection.on_response_complete()

    def _framed(self, body: bytes, *, is_last: bool) -> bytes:
        """Return what is sent for a part of a body. Raises RuntimeError for a wrong length."""
        if self.scope["method"] == "HEAD":
            return b""
        if self._is_chunked:
            return _chunk(body, is_last=is_last)
        if self._content_bytes is not None:
            self._content_bytes -= len(body)
            if self._content_bytes < 0 or (is_last and self._content_bytes):
                raise RuntimeError("the body of an answer has another length than its header says")
        return body

    def _flush(self) -> None:
        if self._head and self._connection is not None:
            head, self._head = self._head, b""
            self._connection.transport.write(head)


def exchange_of(end: Receive | Send) -> Exchange | None:
    """Return the exchange that an app receives from, or sends to; None with a layer between."""
    exchange = getattr(end, "__self__", None)
    return exchange if isinstance(exchange, Exchange) else None


def _chunk(body: bytes, *, is_last: bool) -> bytes:
    chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
    return chunk + b"0\r\n\r\n" if is_last else chunk


class _Defaults:
    """The default headers of all answers as bytes; uvicorn creates them anew each second."""

    def __init__(self) -> None:
        self._headers: object = None
        self._lines = b""

    def lines_of(self, headers: _Headers) -> bytes:
        """Return the header lines, encoded once."""
        if headers is not self._headers:
            lines: list[bytes] = []
            _add_lines(lines, headers)
            self._headers, self._lines = headers, b"".join(lines)
        return self._lines


_defaults = _Defaults()


def _add_lines(lines: list[bytes], headers: _Headers) -> dict[bytes, bytes]:
    """Add headers to the head of an answer; return them by name. Raises RuntimeError."""
    values: dict[bytes, bytes] = {}
    for name, value in headers:
        known = name if name in _names else _checked(name)
        values[known] = value
        lines.append(b"%b: %b\r\n" % (known, value))
    if _NO_VALUE.search(b"".join([value for _, value in headers])) is not None:
        raise RuntimeError("an answer has a header with a bad value")
    return values


def _plain_lines(headers: _Headers) -> bytes | None:
    """Return the lines of headers that are in order, and do not say how an answer is sent."""
    lines = b""
    for name, value in headers:
        if name not in _names or name in _FRAMING or _NO_VALUE.search(value) is not None:
            return None
        lines += b"%b: %b\r\n" % (name, value)
    return lines


def _checked(name: bytes) -> bytes:
    if _NAME.fullmatch(name) is None:
        raise RuntimeError("an answer has a header with a bad name")
    lower = name.lower()
    if len(_names) < _NAMES_MAX:
        _names.add(lower)
    return lower


def unsent_bytes(receive: Receive) -> int:
    """Return the bytes that a client has not read; `receive` identifies its connection."""
    connection = getattr(receive, "__self__", None)
    transport = getattr(connection, "transport", None)
    return 0 if transport is None else int(transport.get_write_buffer_size())


def hold(receive: Receive, size_bytes: int) -> None:
    """Count a part of an answer that is created but not sent yet as unsent."""
    exchange = exchange_of(receive)
    if exchange is not None:
        exchange.held_bytes = size_bytes
