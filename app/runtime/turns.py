"""Turns: whoever has much to do lets others come between."""

import asyncio
import time
from typing import Any

TURN_S = 0.001
"""How long one turn lasts, about: what everyone else waits for."""


_FREED_AT_ONCE = 2_000
"""Entries let go of before others have their turn: each is some objects."""


async def let_go(items: list[Any]) -> None:
    """Empty a list that may be long, with others in between: to free a million takes its time."""
    while items:
        del items[-_FREED_AT_ONCE:]
        await asyncio.sleep(0)


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
