"""Turns: a task with much to let go of lets other tasks run in between."""

from typing import Any

from headgate.engine.threads.turn import this_turn

_FREED_AT_ONCE = 2_000
"""Entries let go of before others have their turn: each is some objects."""


async def let_go(items: list[Any]) -> None:
    """Empty a list that may be long, with other tasks in between: freeing a million takes long."""
    while items:
        del items[-_FREED_AT_ONCE:]
        await this_turn().end()
