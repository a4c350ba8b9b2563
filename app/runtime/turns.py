"""Turns: a task with much to do lets other tasks run in between."""

import asyncio
import time
from typing import Any

TURN_S = 0.001
"""Duration of one turn, about: all others wait for it."""


_FREED_AT_ONCE = 2_000
"""Entries let go of before others have their turn: each is some objects."""


async def let_go(items: list[Any]) -> None:
    """Empty a list that may be long, with other tasks in between: freeing a million takes long."""
    while items:
        del items[-_FREED_AT_ONCE:]
        await asyncio.sleep(0)


class Turn:
    """The time for which a task has the event loop."""

    __slots__ = ("_began_s",)

    def __init__(self) -> None:
        """Begin now."""
        self._began_s = time.perf_counter()

    @property
    def is_over(self) -> bool:
        """Tell whether it is the turn of other tasks."""
        return time.perf_counter() - self._began_s > TURN_S

    async def pause(self) -> None:
        """Let other tasks run if the turn is over, and begin another turn."""
        if self.is_over:
            await asyncio.sleep(0)
            self._began_s = time.perf_counter()
