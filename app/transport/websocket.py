"""WebSocket: uvicorn's protocol, with less memory for thousands of connections that mostly wait."""

import asyncio
from collections.abc import Sequence
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.extensions import Extension
from websockets.extensions.permessage_deflate import (
    PerMessageDeflate,
    ServerPerMessageDeflateFactory,
)
from websockets.frames import Frame
from websockets.typing import ExtensionParameter


class SocketProtocol(WebSocketsSansIOProtocol):
    """A WebSocket that keeps only what it needs while it waits."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take the arguments that uvicorn passes."""
        super().__init__(*args, **kwargs)
        self.conn.available_extensions = [_DEFLATE]
        self.queue = _Inbox()  # type: ignore[assignment]

    def start_keepalive(self) -> None:
        """Forget the handshake: its headers would stay in memory as long as the socket."""
        super().start_keepalive()
        self.request.headers.clear()
        self.response.headers.clear()


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

    One entry goes to many sockets, and would be compressed for each of them.
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
