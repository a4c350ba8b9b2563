"""Arrival: a request must be here in time, header and body, or its connection is closed.

Whoever connects and says nothing, or a byte a minute, would otherwise hold a connection for ever;
as would who takes a byte a minute of an answer that was given up.
"""

import asyncio
from typing import Any

from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from app.problems import Code
from app.requests import BoundedHttp

_TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def in_time(request_ms_max: int) -> type[HttpToolsProtocol]:
    """Return uvicorn's HTTP/1.1 for requests that arrive within so many milliseconds."""
    return type("TimelyHttp", (_TimelyHttp,), {"request_s_max": request_ms_max / 1000})


class _TimelyHttp(BoundedHttp):
    request_s_max: float

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._arrival: asyncio.TimerHandle | None = None  # set while a request is awaited

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._expect()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        async def answer(scope: Any, receive: Any, send: Any) -> None:
            await app(scope, receive, send)
            if cycle.response_started and not cycle.response_complete:
                cycle.disconnected = True  # it was given up: what is left of it is for nobody
                self.transport.abort()

        super()._start_asgi_task(cycle, answer)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._expect()

    def on_message_complete(self) -> None:
        self._arrived()
        super().on_message_complete()

    def refuse(self, code: Code, detail: str) -> None:
        self._arrived()
        super().refuse(code, detail)

    def handle_websocket_upgrade(self) -> None:
        self._arrived()
        super().handle_websocket_upgrade()

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrived()
        super().connection_lost(exc)

    def _expect(self) -> None:
        self._arrived()
        self._arrival = self.loop.call_later(self.request_s_max, self._give_up)

    def _arrived(self) -> None:
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None

    def _give_up(self) -> None:
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete:  # no answer is under way
            self.transport.write(_TOO_LATE)
        self.transport.close()
