"""Parses what a WebSocket peer sends in portions, and keeps little of it in memory.

uvicorn parses everything that it has read at once, keeps each fragment by itself, and answers pings
although the peer does not read the answers. So the peer decides how much memory it takes. This
class parses a portion at a time, has one buffer for a message, and does not read while the peer
reads nothing.
"""

import asyncio
import struct
import time
from collections.abc import Sequence
from typing import Any

from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.extensions import Extension
from websockets.extensions.permessage_deflate import (
    PerMessageDeflate,
    ServerPerMessageDeflateFactory,
)
from websockets.frames import CloseCode, Frame
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import ExtensionParameter

from headgate.app.transport.scopes import HEADER, note_request, sane_or_new
from headgate.app.transport.sockets import Peer
from headgate.app.wire.problems import GatewayError
from headgate.engine.threads import this_turn


class SocketProtocol(WebSocketsSansIOProtocol):
    """A WebSocket that keeps only what it needs while it waits."""

    logs_requests = False  # a line of the log says how each one was answered

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn: _Handshake = _Handshake(
            extensions=[_DEFLATE], max_size=self.config.ws_max_size, logger=self.logger
        )
        self.queue = _Inbox()  # type: ignore[assignment]

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if self.conn.status == 0:  # it is not refused: the app says what becomes of it
            scope: Any = self.scope
            scope["request_id"] = self.conn.request_id

    async def run_asgi(self) -> None:
        began_s = time.perf_counter() if self.logs_requests else 0
        await super().run_asgi()
        if self.logs_requests:
            scope: Any = self.scope
            note_request(scope, self.conn.status, began_s)

    def start_keepalive(self) -> None:
        """Drop the handshake: its headers would stay in memory as long as the socket."""
        super().start_keepalive()
        self.request.headers.clear()
        self.response.headers.clear()


class _Handshake(ServerProtocol):
    """A handshake that adds the request id to its answer, and the frames after it."""

    request_id = ""
    status = 0  # of the answer, once it is sent

    def accept(self, request: Request) -> Response:
        chosen = request.headers.get_all(HEADER)
        self.request_id = sane_or_new(chosen[0].encode(errors="replace") if chosen else b"")
        response = super().accept(request)
        error: BaseException | None = self.handshake_exc
        while error is not None:  # its frames know the request, which knows the error
            error.__traceback__ = None
            error = error.__cause__ or error.__context__
        return response

    def send_response(self, response: Response) -> None:
        self.status = response.status_code
        response.headers[HEADER] = self.request_id
        super().send_response(response)


class _Inbox:
    """Received events for one reader: an `asyncio.Queue` with a tenth of its memory."""

    __slots__ = ("_coming", "_reader", "_ready")

    def __init__(self) -> None:
        self._coming: list[Any] = []  # bounded: uvicorn stops reading while there is something
        self._ready: list[Any] = []  # what came before that, the first one last
        self._reader: asyncio.Future[None] | None = None

    def put_nowait(self, event: Any) -> None:
        self._coming.append(event)
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def empty(self) -> bool:
        return not self._coming and not self._ready

    async def get(self) -> Any:
        while self.empty():
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        if not self._ready:
            self._ready, self._coming = self._coming[::-1], []
        return self._ready.pop()


class _InboundDeflate(PerMessageDeflate):
    """Inflates compressed frames of a client, and sends frames uncompressed (RFC 7692, 6).

    One entry is sent to many sockets, and would be compressed for each of them.
    """

    def encode(self, frame: Frame) -> Frame:
        return frame


class _InboundDeflateFactory(ServerPerMessageDeflateFactory):
    def process_request_params(
        self, params: Sequence[ExtensionParameter], accepted_extensions: Sequence[Extension]
    ) -> tuple[list[ExtensionParameter], PerMessageDeflate]:
        answer, agreed = super().process_request_params(params, accepted_extensions)
        return answer, _InboundDeflate(
            agreed.remote_no_context_takeover,
            agreed.local_no_context_takeover,
            agreed.remote_max_window_bits,
            agreed.local_max_window_bits,
        )


# Without contexts nothing is kept from one message to the next: there would be 40 KiB a socket.
_DEFLATE = _InboundDeflateFactory(server_no_context_takeover=True, client_no_context_takeover=True)


class Unparsed:
    """Data that was read together and is not parsed yet; no more is read meanwhile."""

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data = memoryview(b"")  # public: it is mostly read to see whether it is empty

    def add(self, data: bytes) -> None:
        self.data = memoryview(bytes(self.data) + data if self.data else data)

    def take(self, bytes_max: int) -> memoryview:
        portion, self.data = self.data[:bytes_max], self.data[bytes_max:]
        return portion

    def clear(self) -> None:
        self.data = memoryview(b"")


PORTION_BYTES = 512
"""Parsed at a time: about eighty of the smallest frames. Deflate makes at most about a thousand
times as much of it."""

_LAST_WORDS_S = 1.0
"""Time for a peer that broke the protocol to read the reason, while it still sends.

To close at once would reset the connection, and the close frame would be lost.
"""


class BoundedWebSocket(Peer, SocketProtocol):
    """A WebSocket that limits what a misbehaving peer costs."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._sockets = self.app_state["gateway"].sockets
        self._unparsed = Unparsed()
        self._message = bytearray()
        self._next: asyncio.Handle | None = None  # set while more is to be parsed soon
        self._broke_off = False  # the connection has ended without a close frame

    def data_received(self, data: bytes) -> None:
        self._unparsed.add(data)
        self._parse()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unparsed.clear()
        # A peer that does not read is given up, by the system or to make room for others. It is
        # slow, and nothing says that it has failed.
        is_slow = not self.writable.is_set() and not isinstance(exc, ConnectionError)
        self._broke_off = self.conn.close_rcvd is None and not is_slow
        # As uvicorn does it, but before the turn of the connection comes: the application may end
        # until then, and that would be logged as an error if the handshake were not over.
        self.disconnected = self.handshake_complete = True
        super().connection_lost(exc)

    def leave(self, exc: Exception | None) -> None:
        """Clean up; parser, error and connection form a reference cycle, so drop them."""
        if self._broke_off:
            code = CloseCode.ABNORMAL_CLOSURE  # uvicorn says 1005, as of a close without a code
            self.queue.put_nowait({"type": "websocket.disconnect", "code": code})
        super().leave(exc)
        self.conn.parser.close()
        self.conn.parser_exc = None

    async def receive(self) -> Any:
        """Return the next event for the app; other tasks run in between."""
        if not self.queue.empty():
            await this_turn().pause()
        event = await super().receive()
        self._parse()
        return event

    async def send(self, message: Any) -> None:
        """Send an event of the app; after a close, the peer's answer may be here already."""
        if not self.writable.is_set():
            self._sockets.stuck(self.transport, len(message.get("text") or b""))
        await super().send(message)
        if self.close_sent:  # a refusal by HTTP, too; uvicorn would log that as an error
            self.handshake_complete = True
        if not self.writable.is_set():
            self._sockets.stuck(self.transport)
        self._parse()

    def send_at_once(self, text: str) -> bool:
        """Send a text frame; return false if it must wait, or be refused, as `send` does it."""
        if (
            self.close_sent
            or self.disconnected
            or not (self.handshake_complete and self.writable.is_set())
            or self.conn.state is not State.OPEN
            or self.transport.is_closing()
        ):
            return False
        self.transport.write(_last_text.framed(text))
        if not self.writable.is_set():
            self._sockets.stuck(self.transport)
        return True

    def resume_writing(self) -> None:
        super().resume_writing()
        self._parse()

    def handle_text(self, event: Frame) -> None:
        self.curr_msg_data_type = "text"
        self._begin(event)

    def handle_bytes(self, event: Frame) -> None:
        self.curr_msg_data_type = "bytes"
        self._begin(event)

    def handle_cont(self, event: Frame) -> None:
        self._message += event.data
        if event.fin:
            self.send_receive_event_to_app()

    def send_receive_event_to_app(self) -> None:
        """Pass on a complete message, and parse no other until the app takes it."""
        data, self._message = self._message, bytearray()
        if self.close_sent:
            return
        if self.curr_msg_data_type == "bytes":
            self.queue.put_nowait({"type": "websocket.receive", "bytes": bytes(data)})
        else:
            try:
                self.queue.put_nowait({"type": "websocket.receive", "text": data.decode()})
            except UnicodeDecodeError:
                if self.conn.state is State.OPEN:  # or the peer has closed behind it
                    self.conn.send_close(CloseCode.INVALID_DATA)
                    self.handle_parser_exception()
                return
        self.read_paused = True  # what comes meanwhile is kept as it is, and then reading stops

    def handle_parser_exception(self) -> None:
        assert self.conn.close_sent is not None
        if self.close_sent:
            return
        self.queue.put_nowait({"type": "websocket.disconnect", "code": self.conn.close_sent.code})
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent, self.read_paused = True, False
        self.close_timer = self.loop.call_later(_LAST_WORDS_S, self.transport.close)

    def keepalive_timeout(self) -> None:
        """Give up on a peer that does not answer, and drop what it has not read."""
        super().keepalive_timeout()
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        """Drop unsent data for a peer whose conversation is over and that reads nothing."""
        super().on_task_complete(task)
        if not self.writable.is_set():
            self.transport.abort()

    def _begin(self, event: Frame) -> None:
        self._message = bytearray(event.data)
        if event.fin:
            self.send_receive_event_to_app()

    def _parse(self) -> None:
        """Parse for one turn, while the app takes the messages and the peer reads its answers."""
        turn = this_turn()
        while self._unparsed.data and not self.read_paused and self.writable.is_set():
            portion = self._unparsed.take(PORTION_BYTES)
            if self.conn.parser_exc is None and not self.transport.is_closing():
                super().data_received(bytes(portion))
            if self._unparsed.data and turn.is_over:
                self._parse_soon()
                break
        if self.transport.is_closing():
            return
        self._count_arriving()
        if self._unparsed.data:
            self.transport.pause_reading()
        elif not self.read_paused:
            self.transport.resume_reading()

    def _count_arriving(self) -> None:
        """Count an incomplete frame; over the limit the connection ends."""
        frame_bytes = len(self.conn.reader.buffer)
        size_bytes = len(self._unparsed.data) + len(self._message) + frame_bytes
        try:
            self.note_arriving(size_bytes)
        except GatewayError as error:
            if self.conn.state is State.OPEN and not self.close_sent:
                self.conn.send_close(CloseCode.TRY_AGAIN_LATER, str(error))
                self.handle_parser_exception()
            self._forget_arriving()

    def _forget_arriving(self) -> None:
        self._unparsed.clear()
        self._message = bytearray()
        self.conn.reader.buffer.clear()
        self.note_arriving(0)

    def _parse_soon(self) -> None:
        if self._next is None:
            self._next = self.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._next = None
        self._parse()


class _LastText:
    """The last text as a frame: sockets that follow side by side are sent the same object."""

    __slots__ = ("_frame", "_text")

    def __init__(self) -> None:
        self._text, self._frame = "", b""

    def framed(self, text: str) -> bytes:
        if text is not self._text:
            data = text.encode()
            self._text, self._frame = text, _head_of_text(len(data)) + data
        return self._frame


_last_text = _LastText()


def _head_of_text(size_bytes: int) -> bytes:
    """Return the head of a whole text frame without a mask (RFC 6455, 5.2)."""
    if size_bytes < _IN_TWO_BYTES:
        return bytes((_WHOLE_TEXT, size_bytes))
    if size_bytes < 2**16:
        return struct.pack("!BBH", _WHOLE_TEXT, _IN_TWO_BYTES, size_bytes)
    return struct.pack("!BBQ", _WHOLE_TEXT, _IN_EIGHT_BYTES, size_bytes)


_WHOLE_TEXT = 0x81
_IN_TWO_BYTES, _IN_EIGHT_BYTES = 126, 127
"""Instead of the length: how many bytes it takes."""


class Socket(WebSocket):
    """A WebSocket as the app sees it, which sends frames at once if nothing has to wait."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(scope, receive, send)
        connection = getattr(send, "__self__", None)  # none with a layer between
        self._connection = connection if isinstance(connection, BoundedWebSocket) else None

    def send_at_once(self, text: str) -> bool:
        """Send a text frame; return false if that must be awaited (`send_text`)."""
        return self._connection is not None and self._connection.send_at_once(text)
