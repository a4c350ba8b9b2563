"""Disposal: memory that no longer belongs to the state is freed in small steps (Redis: lazyfree).

See `dismantling`. This module lets other requests run between the steps.
"""

from __future__ import annotations

import asyncio
from collections import deque

from headgate.engine.state.dismantling import Pieces
from headgate.engine.threads.turn import this_turn


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

    async def free_next(self) -> None:
        """Free the next pieces, once there are any. Where that fails, the rest goes at once."""
        if not self._left:
            self._has_some.clear()
            await self._has_some.wait()
        for _ in self._left.popleft():
            await this_turn().end()
