"""uvicorn's WebSocket protocol, with less memory for thousands of idle connections."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.extensions import Extension
from websockets.extensions.permessage_deflate import (
    PerMessageDeflate,
    ServerPerMessageDeflateFactory,
)
from websockets.frames import Frame
from websockets.http11 import Request, Response
from websockets.server import ServerProtocol
from websockets.typing import ExtensionParameter

from headgate.app.transport.scopes import HEADER, note_request, sane_or_new


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
