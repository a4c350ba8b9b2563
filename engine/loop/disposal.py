"""Disposal: memory that no longer belongs to the state is freed in small steps (Redis: lazyfree).

See `dismantling`. This module lets other requests run between the steps.
"""

from __future__ import annotations

import asyncio
from collections import deque

from headgate.engine.state.dismantling import Pieces


class Disposal:
    """A queue of pieces that are to be freed, in order."""

    def __init__(self) -> None:
        """Start with an empty queue."""
        self._left: deque[Pieces] = deque()
        self._has_some = asyncio.Event()

    def take(self, pieces: Pieces) -> None:
        """Add pieces to the end of the queue."""
        self._left.append(pieces)
        self._has_some.set()

    async def run(self) -> None:
        """Free the pieces in the queue, until cancelled."""
        while True:
            await self._has_some.wait()
            self._has_some.clear()
            while self._left:
                for _ in self._left[0]:
                    await asyncio.sleep(0)  # let other requests run
                self._left.popleft()
