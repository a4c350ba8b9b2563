"""Requests: parses one request of a connection after the other, each with a bound in size and time.

uvicorn parses everything that it has read at once, lets the requests wait in memory, and reads on
after each answer. This class parses nothing while a request waits for its answer, and reads nothing
while there is something to parse. So a connection holds what was read at once and the requests of
one portion, however fast its client sends.

Header and body of a request must arrive in time, or the connection is closed. Otherwise a client
that connects and sends nothing, or a byte a minute, would hold a connection for ever. So would a
client that reads a byte a minute of an answer that was given up. A request that arrives at once
needs no timer.

The app begins to answer once everything that was read with the head of a request is parsed, so a
small body is there as well. It is run without a task (`engine.eager`): one that only waits for the
journal goes on in the turn of the event loop in which the journal is safe.

All of this is one class, because each layer costs every request.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from headgate.app.transport.exchange import Exchange
from headgate.app.transport.heads import Head, Headers, Heads
from headgate.app.transport.intake import Unparsed
from headgate.app.transport.scopes import id_of, new_id
from headgate.app.transport.sockets import Peer
from headgate.app.wire.problems import Code, make_problem
from headgate.engine.eager import EagerCall
from headgate.engine.threads import this_turn

# Upgrade: declines offers of other protocols than WebSocket, and serves the request.
#
# A server may ignore an offer (RFC 9110, 7.8). The parser does not: it takes what follows the
# header for the other protocol, so a body would be lost. Java's own client offers HTTP/2 with
# every request. So the request is parsed again, as one without the offer.

_UPGRADE = b"upgrade"


def parser_for(protocol: Any) -> httptools.HttpRequestParser:
    """Return a parser like uvicorn's; one that has seen an upgrade parses nothing more."""
    parser = httptools.HttpRequestParser(protocol)
    # What follows a request that is to be the last one is not answered, and that one is.
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def has_offer(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether there is an `Upgrade` offer. A CONNECT, which no HTTP follows, has none."""
    return any(name == _UPGRADE for name, _ in headers)


def without_offer(method: bytes, url: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the head of a request again, without its upgrade offer."""
    lines = [method + b" " + url + b" HTTP/1.1"]
    lines += [name + b": " + value for name, value in headers if name != _UPGRADE]
    return b"\r\n".join([*lines, b"", b""])


log = logging.getLogger("headgate")

PORTION_BYTES = 1024
"""Parsed at a time: about fifty of the smallest requests."""

HEADER_BYTES_MAX = 64 * 1024
"""Of a request, all that is no body: its first line, its headers, and what follows the body."""

HEADERS_MAX = 128

_LAST_WORDS_S = 1.0
"""Time for a refused client to read the reason, while it still sends.

To close at once would reset the connection, and the answer would be lost.
"""

_TOO_LATE = b"connection: close\r\ncontent-length: 0\r\n\r\n"
_BAD = "This is not HTTP/1.1."
_AUTHORITY_END = re.compile(rb"[/?#]")
_TWO_HOSTS = "The request line and the header `Host` name different hosts."
_LARGE = f"at most {HEADERS_MAX} headers and {HEADER_BYTES_MAX} bytes, with the request line"


def in_time(request_ms_max: int, *, logs_requests: bool = False) -> type[HttpToolsProtocol]:
    """Return uvicorn's HTTP/1.1 protocol with a time limit for requests to arrive."""
    choices = {
        "request_s_max": request_ms_max / 1000,
        "logs_requests": logs_requests,
        "heads": Heads(),
    }
    return type("TimelyHttp", (BoundedHttp,), choices)


class BoundedHttp(Peer, HttpToolsProtocol):
    """uvicorn's HTTP/1.1 for clients that send requests too fast or too slowly."""

    request_s_max: float
    heads: Heads  # of all connections
    logs_requests = False  # a line of the log says how each was answered

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._unparsed = Unparsed()
        self._header_bytes = 0  # parsed since the last request ended, or the last part of a body
        self._fault: tuple[Code, str] = "malformed", _BAD  # of what cannot be parsed
        self._is_refused = False
        self._declines_offer = False
        self._is_arriving = False  # a request has begun and is not here as a whole
        self._timer: asyncio.TimerHandle | None = None  # set while a request is awaited
        self._next: asyncio.Handle | None = None  # set while more is to be parsed soon
        self._flow: _Flow
        self.cycle: Any  # uvicorn's name of the last request; it is an `Exchange` here
        self._arriving: Exchange | None = None  # whose body comes next
        self._begun: Exchange | None = None  # is answered once all that was read is parsed
        self._under_way: Exchange | None = None  # is being answered
        self._answered_at_s = 0.0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._sockets = self.app_state["gateway"].sockets
        # FastAPI and Starlette would each take a call of every request to find these layers.
        self._layers = getattr(self.app, "middleware_stack", None) or self.app
        if not self._sockets.has_room():
            self._is_refused = True
            transport.abort()
        self.flow = self._flow = _Flow(transport, self._unparsed, self._parse_soon)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_no_more()
        self._unparsed.clear()
        for exchange in (self._last, self._under_way):
            if exchange is not None and not exchange.response_complete:
                exchange.disconnected = True
        super().connection_lost(exc)
        self._unset_keepalive_if_required()  # uvicorn does so if there was no error

    def leave(self, exc: Exception | None) -> None:
        for exchange in (self._last, self._under_way):
            if exchange is not None:
                exchange.disconnect()
        self.cycle = None  # uvicorn would do the same with its own
        super().leave(exc)
        self._flow.forget()

    def resume_writing(self) -> None:
        """Go on once the client has read its answer: only now it gets the next one."""
        super().resume_writing()
        under_way = self._under_way
        if self.pipeline and (under_way is None or under_way.response_complete):
            self._start_asgi_task(*self.pipeline.pop())
        self._parse_soon()

    def waits_to_write(self, size_bytes: int) -> None:
        self._sockets.stuck(self.transport, size_bytes)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        if len(data) > PORTION_BYTES or self._unparsed.data or not self._takes_more():
            self._unparsed.add(data)
            self._parse()
            return
        last = self.cycle
        is_start = not self._is_arriving and (last is None or last.keep_alive)
        known = self.heads.known(data) if is_start else None
        if known is None:
            self._feed(data, is_start=is_start)
        else:
            self._repeat(*known)

    def _repeat(self, head: Head, body: bytes, varied: Headers | None) -> None:
        """Begin to answer a whole request whose head is known, without the parser."""
        self._sockets.idle.pop(self, None)
        self._expect_no_more()
        scope = head.scope.copy()
        scope["server"], scope["client"], scope["scheme"] = self.server, self.client, self.scheme
        scope["head"] = head
        if varied is None:
            scope["request_id"] = new_id()
        else:
            scope["request_id"] = id_of(varied)
            scope["headers"] = [*scope["headers"], *varied]
            scope["varied"] = varied
        self.cycle = exchange = Exchange(
            self, scope, keep_alive=True, expects_continue=False, body=body
        )
        self._answer(exchange)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._sockets.idle.pop(self, None)
        self._expect_no_more()
        self._is_arriving = True

    def on_headers_complete(self) -> None:
        """Begin to answer, unless there are too many headers, or they are parsed again."""
        if len(self.headers) > HEADERS_MAX:
            self._fault = "header_too_large", _LARGE
            raise ValueError(_LARGE)
        if not self.url.startswith(b"/") and _names_another(self.url, self.headers):
            self._fault = "malformed", _TWO_HOSTS
            raise ValueError(_TWO_HOSTS)
        parser = self.parser
        if parser.should_upgrade():
            if self._should_upgrade():
                super().on_headers_complete()
                return
            if has_offer(self.headers):
                self._declines_offer = True
                return
        scope: Any = self.scope
        scope["method"] = parser.get_method().decode("ascii")
        http_version = scope["http_version"] = parser.get_http_version()
        target = httptools.parse_url(self.url)
        scope["raw_path"] = target.path
        scope["path"] = unquote(target.path.decode("ascii"))
        scope["query_string"] = target.query or b""
        scope["request_id"] = id_of(self.headers)
        scope["app"] = self.app
        is_first = self._is_answered()
        exchange = self.cycle = self._arriving = Exchange(
            self,
            scope,
            keep_alive=http_version >= "1.1" and parser.should_keep_alive(),
            expects_continue=http_version >= "1.1" and self.expect_100_continue,
        )
        if is_first:
            self._begun = exchange
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))
        self.headers = _TRAILERS

    def on_body(self, body: bytes) -> None:
        self._header_bytes = 0
        exchange = self._arriving
        if exchange is not None and not exchange.response_complete:
            exchange.add(body)
            if len(exchange.body) > HIGH_WATER_LIMIT:
                self.flow.pause_reading()

    def on_message_complete(self) -> None:
        """Note that the request is complete, unless it is parsed again."""
        self._header_bytes = 0
        self._expect_no_more()
        exchange, self._arriving = self._arriving, None
        if exchange is not None and not exchange.response_complete:
            exchange.complete()

    def handle_websocket_upgrade(self) -> None:
        self._expect_no_more()
        self._unset_keepalive_if_required()
        super().handle_websocket_upgrade()
        self.parser = None  # type: ignore[assignment]  # as when the connection is lost
        self._flow.forget()

    def refuse(self, code: Code, detail: str) -> None:
        """Answer why nothing more is parsed, if an answer is possible, and close."""
        self._is_refused = True
        self._expect_no_more()
        self._unparsed.clear()
        exchange = self._last
        if exchange is not None and not exchange.response_complete:
            if exchange.response_started or self.pipeline:  # in the middle of another answer
                self.transport.close()
                return
            exchange.disconnect()
        self.transport.write(_answer(code, detail))
        self.flow.resume_reading()
        self.loop.call_later(_LAST_WORDS_S, self.transport.close)

    @property
    def _last(self) -> Exchange | None:
        last: Exchange | None = self.cycle
        return last

    def _is_answered(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.flow.read_paused:
            self.flow.resume_reading()
        if self.pipeline:
            if not self.flow.write_paused:
                self._start_asgi_task(*self.pipeline.pop())
            return
        self._answered_at_s = self.loop.time()
        self._sockets.idle[self] = self._answered_at_s
        if self.timeout_keep_alive_task is None:
            self._end_if_idle()

    def _end_if_idle(self) -> None:
        """Close if idle for too long; one timer that checks is cheaper than one a request."""
        self.timeout_keep_alive_task = None
        left_s = self._answered_at_s + self.timeout_keep_alive - self.loop.time()
        if left_s > 0:
            self.timeout_keep_alive_task = self.loop.call_later(left_s, self._end_if_idle)
        elif self._is_answered() and not self._is_arriving:
            self.transport.close()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        """Begin to answer the next request, as the previous one was just answered."""
        del app
        self._under_way = cycle
        self.loop.call_soon(self._answer, cycle)

    def _answer(self, exchange: Exchange) -> None:
        self._under_way = exchange
        if self._sockets.is_closing:
            exchange.keep_alive = False
        tasks: Any = self.tasks  # uvicorn waits for all of them, and cancels them in the end
        call = EagerCall(exchange.run(self._layers), tasks.discard)
        call.start()
        if not call.is_done:
            tasks.add(call)

    def _expect(self) -> None:
        self._timer = self.loop.call_later(self.request_s_max, self._give_up)

    def _expect_no_more(self) -> None:
        self._is_arriving = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        if self._is_answered():
            self.transport.write(_head(408, new_id()) + _TOO_LATE)
        self.transport.close()

    def _takes_more(self) -> bool:
        """Return false while a whole request, a large body or an unread answer waits."""
        last = self._last
        if last is None or last.response_complete:
            return not self._flow.write_paused
        return last.more_body and len(last.body) <= HIGH_WATER_LIMIT

    def _parse_soon(self) -> None:
        if self._next is None:
            self._next = self.loop.call_soon(self._parse)

    def _parse(self) -> None:
        self._next = None
        turn = this_turn()
        while self._unparsed.data and self._takes_more() and not self.transport.is_closing():
            self._feed(self._unparsed.take(PORTION_BYTES))
            if self._unparsed.data and turn.is_over:
                self._parse_soon()
                break
        if self.transport.is_closing():
            return
        if self._unparsed.data:
            self.flow.pause_reading()
        elif self._takes_more():
            self.flow.resume_reading()

    def _feed(self, data: Any, *, is_start: bool = False) -> None:
        """Parse, and begin to answer; `is_start`: nothing of a request came before this."""
        self._header_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            if self._declines_offer:
                self._read_on(data[offer.args[0] :])
            else:
                self._upgrade()
        except httptools.HttpParserError as error:
            log.debug("bad request", extra={"reason": str(error)})
            self.refuse(*self._fault)
        else:
            if self._header_bytes > HEADER_BYTES_MAX:
                self.refuse("header_too_large", _LARGE)
            elif self._is_arriving and self._timer is None:
                self._expect()
        exchange, self._begun = self._begun, None
        if exchange is not None:
            scope, is_whole = exchange.scope, exchange.keep_alive and not exchange.more_body
            if is_start and is_whole and scope["http_version"] == "1.1" and not self._is_refused:
                self.heads.learn(data, scope)
            self._answer(exchange)

    def _read_on(self, remaining: Any) -> None:
        """Parse a request again without its upgrade offer, then what followed its head."""
        header = without_offer(self.parser.get_method(), self.url, self.headers)
        self.parser = parser_for(self)
        self._declines_offer = False
        self._header_bytes = 0
        self._feed(header + remaining)

    def _upgrade(self) -> None:
        if not self._should_upgrade() or not self._is_answered():
            self.refuse("malformed", "This connection cannot switch to another protocol.")
            return
        self._unparsed.clear()  # a client waits for the answer before it says anything else
        self.handle_websocket_upgrade()


class _Flow(FlowControl):
    """Resumes reading when there is nothing left to parse."""

    def __init__(self, transport: Any, unparsed: Unparsed, parse_soon: Callable[[], None]) -> None:
        super().__init__(transport)
        self._unparsed = unparsed
        self._parse_soon = parse_soon

    def resume_reading(self) -> None:
        if not self.read_paused:  # as it always is while something is unparsed
            return
        if self._unparsed.data:
            self._parse_soon()
        else:
            super().resume_reading()

    def forget(self) -> None:
        """Drop the connection, so that no reference cycle keeps it in memory."""
        del self._parse_soon


def _names_another(target: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether the request target has another host than the `Host` header."""
    _, mark, behind = target.partition(b"://")
    named = _AUTHORITY_END.split(behind, 1)[0].lower()
    hosts = [value.lower() for name, value in headers if name == b"host"]
    return mark != b"" and any(host != named for host in hosts)


class _Trailers(list[tuple[bytes, bytes]]):
    def append(self, header: tuple[bytes, bytes]) -> None:
        del header


_TRAILERS = _Trailers()


def _answer(code: Code, detail: str) -> bytes:
    problem = make_problem(code, detail, "/")
    problem.request_id = request_id = new_id()
    body = problem.model_dump_json(exclude_none=True).encode()
    return (
        _head(problem.status, request_id)
        + b"content-type: application/problem+json\r\nconnection: close\r\n"
        + b"content-length: %d\r\n\r\n" % len(body)
        + body
    )


def _head(status: int, request_id: str) -> bytes:
    return STATUS_LINE[status] + b"x-request-id: %b\r\n" % request_id.encode()
