"""Streaming: an answer that is sent as it comes, for as long as the client takes it."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from fastapi.responses import StreamingResponse
from starlette.requests import ClientDisconnect
from starlette.types import Message, Send


class PatientResponse(StreamingResponse):
    """A streamed response that gives up a client that takes nothing, and ends its source."""

    def __init__(
        self,
        parts: AsyncGenerator[bytes, None],
        *,
        media_type: str,
        patience_ms: int,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Describe the response.

        Args:
            parts: what to send.
            media_type: of what is sent.
            patience_ms: how long one part may wait for the client to take it.
            headers: further headers.
        """
        super().__init__(parts, headers=headers, media_type=media_type)
        self._parts = parts
        self._patience_ms = patience_ms

    async def stream_response(self, send: Send) -> None:
        """Send, and then let the source clean up, however it ended."""

        async def send_in_time(message: Message) -> None:
            try:
                async with asyncio.timeout(self._patience_ms / 1000):
                    await send(message)
            except TimeoutError:
                raise ClientDisconnect from None

        async with aclosing(self._parts):
            await super().stream_response(send_in_time)
