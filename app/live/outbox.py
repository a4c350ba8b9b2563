"""Outbox: sends the frames of a socket, one at a time, as long as its client reads."""

import asyncio
from collections.abc import Callable

from fastapi import WebSocket


class Outbox:
    """The way out of one socket.

    Nearly every frame is sent at once and must not cost a timer. So the whole outbox has one timer,
    which runs while frames are sent.
    """

    __slots__ = (
        "_loop",
        "_on_stuck",
        "_patience_s",
        "_sending",
        "_socket",
        "_stuck_at_s",
        "_timer",
    )

    def __init__(
        self, socket: WebSocket, *, patience_ms: int, on_stuck: Callable[[], None]
    ) -> None:
        """Get ready to send.

        Args:
            socket: where frames go.
            patience_ms: how long one frame may wait for the client to take what came before.
            on_stuck: called when a frame has waited for longer.
        """
        self._socket = socket
        self._loop = asyncio.get_running_loop()
        self._patience_s = patience_ms / 1000
        self._on_stuck = on_stuck
        self._sending = asyncio.Lock()
        self._stuck_at_s: float | None = None  # when the frame that is being sent has waited enough
        self._timer: asyncio.TimerHandle | None = None

    async def send(self, text: str) -> None:
        """Send a frame behind those that are waiting."""
        async with self._sending:
            self._stuck_at_s = self._loop.time() + self._patience_s
            if self._timer is None:
                self._timer = self._loop.call_at(self._stuck_at_s, self._look)
            try:
                await self._socket.send_text(text)
            finally:
                self._stuck_at_s = None

    def close(self) -> None:
        """Stop the timer, and drop the callback."""
        del self._on_stuck  # it knows the connection, which knows us
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._stuck_at_s is None:
            return
        if self._loop.time() >= self._stuck_at_s:
            self._on_stuck()
        else:
            self._timer = self._loop.call_at(self._stuck_at_s, self._look)
