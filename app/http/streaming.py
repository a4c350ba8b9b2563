"""Streaming: an answer that is sent as it comes, for as long as the client takes it."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from typing import Generic, TypeVar

from fastapi.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from headgate.app.wire.schemas.limits import ConnectionLimits

T = TypeVar("T")

HEARTBEAT = b": heartbeat\n\n"
"""A comment among events: nothing is new."""

EVENT_STREAM: dict[int | str, dict[str, object]] = {
    200: {
        "description": "Events, without end.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}

_EVENT_HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}


async def merged(*sources: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    """Yield parts of several sources as they come, until the first source ends or fails.

    Each waits until its part is taken. All that are ready have their turn before any has a second
    one. When this ends, so have they.
    """
    table = _Table[T]()
    tasks = [asyncio.create_task(table.bring(source)) for source in sources]
    try:
        while True:
            while table.parts:
                part, taken = table.parts.pop(0)
                yield part
                taken.set_result(None)
            if table.is_over:
                table.end()
                return
            await table.wait()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for source in sources:  # also one that has not begun
            await source.aclose()


class _Table(Generic[T]):
    """A table for the parts of sources, one part of each at a time, until it is taken."""

    __slots__ = ("_changed", "_error", "_loop", "is_over", "parts")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._changed = self._loop.create_future()
        self._error: Exception | None = None
        self.parts: list[tuple[T, asyncio.Future[None]]] = []
        self.is_over = False  # a source has ended

    async def bring(self, source: AsyncGenerator[T, None]) -> None:
        """Lay down the parts of a source; when this is cancelled, its reads are undone."""
        try:
            async with aclosing(source) as parts:
                async for part in parts:
                    taken = self._loop.create_future()
                    self.parts.append((part, taken))
                    self._wake()
                    await taken
        except Exception as error:  # noqa: BLE001
            self._error = self._error or error
        finally:
            self.is_over = True
            self._wake()

    def end(self) -> None:
        """Raise the error of a source, if one failed, and forget it.

        An error knows the frames it came through. If one of them knew the error, both would wait
        for the garbage collector.
        """
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
        finally:
            del error

    async def wait(self) -> None:
        """Wait until something has changed since the last time."""
        await self._changed
        self._changed = self._loop.create_future()

    def _wake(self) -> None:
        if not self._changed.done():
            self._changed.set_result(None)


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
