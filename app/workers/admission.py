"""Admission: a worker that is full leaves connections to its siblings, if one of them has room.

The workers of a gateway share its listening sockets, so each connection waits in one queue for all
of them. A worker that is full does not look into the queue any more. It goes on when a connection
has ended. It also goes on when all workers are full: somebody has to tell clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Never

from headgate.app.runtime import periodic
from headgate.app.runtime.siblings import SHARE_INTERVAL_S
from headgate.app.transport.listening import Listener
from headgate.app.transport.sockets import Sockets


class Admission:
    """Lets the listeners of a worker pause. It costs nothing while there is room."""

    def __init__(self, sockets: Sockets, listeners: Sequence[Listener]) -> None:
        """Begin with listeners that are open.

        Args:
            sockets: of the worker.
            listeners: all that it has.
        """
        self._sockets = sockets
        self._listeners = listeners
        self._is_full = asyncio.Event()
        sockets.listener_count = len(listeners)
        sockets.on_full = self._note_full

    async def run(self) -> Never:
        """Look, while the worker is full, whether it has to accept again, until cancelled."""
        await periodic.repeat("admission", self._look)

    def _note_full(self) -> None:
        self._is_full.set()
        if self._sockets.is_left_to_siblings():
            self._pause()

    async def _look(self) -> None:
        await self._is_full.wait()
        await asyncio.sleep(SHARE_INTERVAL_S)  # siblings are heard as often
        has_room = self._sockets.free_count > 0
        if not has_room and self._sockets.is_left_to_siblings():
            self._pause()
            return
        for listener in self._listeners:
            await listener.open()
        if has_room:
            self._is_full.clear()

    def _pause(self) -> None:
        for listener in self._listeners:
            listener.pause()
