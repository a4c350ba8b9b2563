"""Conditions: a test goes on as soon as one holds, and ends with what it saw instead."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

WITHIN_S = 120.0
"""The bound of every wait: far above what anything takes, also on a busy machine."""

_PAUSE_S_MAX = 0.02


async def until(condition: Callable[[], object], within_s: float = WITHIN_S) -> None:
    """Return as soon as the condition holds: the loop runs on, nothing is slept away."""
    pause_s = 0.001
    try:
        async with asyncio.timeout(within_s):
            while not condition():
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _PAUSE_S_MAX)
    except TimeoutError:
        raise AssertionError(f"not within {within_s} s: {_described(condition)}") from None


async def eventually(
    ask: Callable[[], Awaitable[T]], holds: Callable[[T], object], within_s: float = WITHIN_S
) -> T:
    """Ask until the answer is the wanted one, and return that."""
    answers: list[T] = []
    try:
        async with asyncio.timeout(within_s):
            while True:
                answers = [await ask()]
                if holds(answers[0]):
                    return answers[0]
                await asyncio.sleep(_PAUSE_S_MAX)
    except TimeoutError:
        text = f"{_described(holds)}; the last answer was {answers}"
        raise AssertionError(f"not within {within_s} s: {text}") from None


async def moment() -> None:
    """Let a moment pass between two looks at a condition, in a loop that has a bound."""
    await asyncio.sleep(_PAUSE_S_MAX)


def _described(condition: Callable[..., object]) -> str:
    """Return the source of a condition, and the values of the variables in it."""
    try:
        source = " ".join(inspect.getsource(condition).split())
        values = inspect.getclosurevars(condition).nonlocals
    except (OSError, TypeError):  # a partial, or a method of a built-in type
        return repr(condition)
    return f"{source}, where {values}" if values else source
