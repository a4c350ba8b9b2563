"""An answer that is sent as it comes, for as long as the client takes it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import aclosing, suppress
from typing import Any, TypeVar

from fastapi.responses import StreamingResponse
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive, Scope, Send

from headgate.app.http.dependencies import access_of, gateway_of
from headgate.app.transport.exchange import exchange_of
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
    """A source cannot go on: the connection ends, so that no half is taken for the whole."""


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
        """Describe the response; one part may wait `patience_ms` for the client to take it."""
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
        exchange = exchange_of(send)

        async def send_in_time(message: Message) -> None:
            part = message["body"] if message.get("more_body", False) else None
            if exchange is not None and part is not None and exchange.send_part(part):
                return  # as nearly always: it needs no timer
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
    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes, None], limits: ConnectionLimits) -> None:
        super().__init__(
            events,
            media_type=self.media_type,
            patience_ms=limits.send_ms_max,
            headers=_EVENT_HEADERS,
        )


T = TypeVar("T")


async def while_present(
    request: Request,
    reading: Coroutine[Any, Any, T],
    give_back: Callable[[T], Awaitable[object]] | None = None,
) -> T:
    """Return the result of `reading`, or stop it once the client or its credential is gone.

    The body of the request must have been read. `give_back` takes the reply of a read that ended as
    the client left. Raises ClientDisconnect if nobody is left to answer, and Unauthenticated if the
    credential has ended.
    """
    request.scope["waits"] = True  # how long it takes says nothing of the gateway
    read = asyncio.ensure_future(reading)
    gone = asyncio.ensure_future(_wait_gone(request))
    principal = access_of(request).principal
    forget = gateway_of(request).auth.at_end(principal, gone.cancel)
    try:
        await asyncio.wait({read, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not gone.done():
            return await read
        if read.done() and give_back is not None and read.exception() is None:
            await give_back(read.result())
        principal.check_valid()
        raise ClientDisconnect
    finally:
        forget()
        read.cancel()
        gone.cancel()
        await asyncio.gather(read, gone, return_exceptions=True)
        del read  # what it raised knows this frame


async def _wait_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def while_valid(
    request: Request, parts: AsyncGenerator[bytes, None]
) -> AsyncGenerator[bytes, None]:
    """Yield the parts of a long answer; the credential ends on time meanwhile."""
    with gateway_of(request).auth.watching(access_of(request).principal):
        async with aclosing(parts):
            async for part in parts:
                yield part
