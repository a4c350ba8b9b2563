"""The two kinds of time, never mixed.

Wall time makes ids and measures idleness; it may step back or jump. Monotonic time measures waits;
waits are the event loop's business, so only wall time is asked for here.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What the engine asks the time."""

    def wall_ms(self) -> int:
        """Return unix time in milliseconds."""
        ...


class SystemClock:
    """The machine's clock."""

    def wall_ms(self) -> int:
        """Return unix time in milliseconds."""
        return time.time_ns() // 1_000_000
