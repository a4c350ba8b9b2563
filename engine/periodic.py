"""Periodic work: rounds of work that go on for as long as the process lives.

A process may be without a thread, a descriptor or memory for a moment, and a library may have a
fault. So a round that fails is tried again, at once at first, and then more and more seldom. What
makes the data doubtful is no such work: it ends the process (`Executor.until_broken`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Never

PAUSE_S_MIN = 0.05
PAUSE_S_MAX = 1.0
"""Before a round is tried again: twice as long after each failure. A second at most, as some of the
work ends credentials, and a try costs little."""

Round = Callable[[], Awaitable[object]]
"""Does the work once, and waits until it is due, before or after that."""

OnOutcome = Callable[[Exception | None], None]
"""Told of each round that fails, and with None of the first that does not fail after others."""

Watch = Callable[[str], OnOutcome | None]
"""Returns the callback for outcomes of some work, by its name; None: its first failure ends it."""


def unwatched(work: str) -> None:
    """Let the first failure end the work: nobody would hear of it."""
    del work


async def repeat(work: Round, on_outcome: OnOutcome | None) -> Never:
    """Do rounds of work until cancelled; `on_outcome` None raises the first failure."""
    while True:
        await complete(work, on_outcome)


async def complete(work: Round, on_outcome: OnOutcome | None) -> None:
    """Do one round of work: again and again, until it does not fail. See `repeat`."""
    pause_s, is_failing = PAUSE_S_MIN, False
    while True:
        try:
            await work()
        except (Exception, asyncio.CancelledError) as error:
            if on_outcome is None or _is_cancelled(error):
                raise
            on_outcome(_failure_of(error))
        else:
            if is_failing and on_outcome is not None:
                on_outcome(None)
            return
        # Behind the handler, so that the error and all its frames hold are free meanwhile.
        is_failing = True
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, PAUSE_S_MAX)


def _is_cancelled(error: BaseException) -> bool:
    """Tell whether this task itself is cancelled, and not only its awaitable."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling() > 0)


def _failure_of(error: BaseException) -> Exception:
    """Return an error that can be told: what a round waits for may have been cancelled."""
    return error if isinstance(error, Exception) else RuntimeError("the work was cancelled")
