"""Waiting for a condition of other processes."""

from __future__ import annotations

import time
from collections.abc import Callable

LOOK_S = 0.01
"""Interval between looks at a condition."""


def until(condition: Callable[[], object], within_s: float, what: str) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {within_s:g} s: {what}")
        time.sleep(LOOK_S)
