"""Disposal: what is no longer part of the state is freed bit by bit (Redis: lazyfree).

See `dismantling`; here requests come between the pieces.
"""

from __future__ import annotations

import asyncio
from collections import deque

from headgate.engine.state.dismantling import Pieces


class Disposal:
    """What is to be freed, in order."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._left: deque[Pieces] = deque()
        self._has_some = asyncio.Event()

    def take(self, pieces: Pieces) -> None:
        """Free this, too, when its turn comes."""
        self._left.append(pieces)
        self._has_some.set()

    async def run(self) -> None:
        """Free what is taken, until cancelled."""
        while True:
            await self._has_some.wait()
            self._has_some.clear()
            while self._left:
                for _ in self._left[0]:
                    await asyncio.sleep(0)  # requests come between
                self._left.popleft()
