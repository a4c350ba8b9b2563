"""Streaming: an answer that is sent as it comes, for as long as the client takes it."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress

from fastapi.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from headgate.app.wire.schemas.limits import ConnectionLimits

HEARTBEAT = b": heartbeat\n\n"
"""A comment among events: nothing is new."""

EVENT_STREAM: dict[int | str, dict[str, object]] = {
    200: {
        "description": "Events, without end.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}

_EVENT_HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}


class BrokenOff(Exception):
    """A source cannot go on: the connection ends, so that nobody takes its half for the whole."""


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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the end, or until the client is gone.

        Starlette does this in a task group of anyio, which takes as much time and memory as all the
        rest of a stream of events, and leaves what waits for the garbage collector.
        """
        scope["waits"] = True  # for what comes, and for who takes it
        sending = asyncio.create_task(self.stream_response(send))
        leaving = asyncio.create_task(self.listen_for_disconnect(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sending.cancel()
            leaving.cancel()
            await asyncio.wait((sending, leaving))
        try:
            if not sending.cancelled():
                sending.result()
        finally:
            del sending  # what it raised knows this frame

    async def stream_response(self, send: Send) -> None:
        """Send, and then let the source clean up, however it ended."""

        async def send_in_time(message: Message) -> None:
            try:
                async with asyncio.timeout(self._patience_ms / 1000):
                    await send(message)
            except TimeoutError:
                raise BrokenOff from None

        # An answer that returns without its last part makes the server cut the connection.
        async with aclosing(self._parts):
            with suppress(BrokenOff):
                await super().stream_response(send_in_time)


class EventStream(PatientResponse):
    """A response of events."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes, None], limits: ConnectionLimits) -> None:
        """Send `events` until they or the client end."""
        super().__init__(
            events,
            media_type=self.media_type,
            patience_ms=limits.send_ms_max,
            headers=_EVENT_HEADERS,
        )
