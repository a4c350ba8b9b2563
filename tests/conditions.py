"""Conditions: a test goes on as soon as one holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object], within_s: float = 10.0) -> None:
    """Return as soon as the condition holds: the loop runs on, nothing is slept away."""
    async with asyncio.timeout(within_s):
        while not condition():
            await moment()


async def moment() -> None:
    """Let a moment pass between two looks at a condition, in a loop that has a bound."""
    await asyncio.sleep(0.005)
