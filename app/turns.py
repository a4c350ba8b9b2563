"""Turns: whoever has much to do lets others come between."""

import asyncio
import time

TURN_S = 0.001
"""How long one turn lasts, about: what everyone else waits for."""


class Turn:
    """The time somebody has the event loop for himself."""

    __slots__ = ("_began_s",)

    def __init__(self) -> None:
        """Begin now."""
        self._began_s = time.perf_counter()

    @property
    def is_over(self) -> bool:
        """Tell whether it is others' turn."""
        return time.perf_counter() - self._began_s > TURN_S

    async def pause(self) -> None:
        """Let others come between if the turn is over, and begin another."""
        if self.is_over:
            await asyncio.sleep(0)
            self._began_s = time.perf_counter()
