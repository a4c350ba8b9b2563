"""The kinds of time, never mixed.

Wall time makes ids and is what is recorded; somebody may set it, back or forward. Monotonic time
only passes; the event loop's timers go by it. Steady time joins the two: it is unix time as it
would be had nobody set the clock, and what waits goes by it: idle entries, rests, keys.
"""

from __future__ import annotations

import time
from typing import Protocol

from headgate.engine.limits import CLOCK_STEP_MS_MIN

_SLEEPLESS = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux's monotonic time stands still while the machine sleeps; this one does not."""


class Clock(Protocol):
    def wall_ms(self) -> int:
        """Return unix time in milliseconds."""
        ...

    def monotonic_ms(self) -> int:
        """Return milliseconds since some moment; nobody can set it."""
        ...


class SystemClock:
    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Return milliseconds since some moment, including those the machine slept."""
        return time.clock_gettime_ns(_SLEEPLESS) // 1_000_000


class StepWatch:
    """Notices that the wall clock was set: then more or less time has passed on it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begin_ms: int | None = None  # steady time when monotonic time was 0

    def steady_ms(self) -> int:
        """Return steady time. Look before."""
        assert self._begin_ms is not None
        return self._begin_ms + self._clock.monotonic_ms()

    def look(self, seeming_ms: int, reached_ms: int) -> int:
        """Return by how much the wall clock was set; 0 if it was not.

        The same is returned until the caller takes account of it. Gradual adjustment is followed.
        `reached_ms` is the steady time reached before the first look.
        """
        begin_ms = seeming_ms - self._clock.monotonic_ms()
        if self._begin_ms is None:
            self._begin_ms = begin_ms + max(reached_ms - seeming_ms, 0)
        set_by_ms = begin_ms - self._begin_ms
        if abs(set_by_ms) >= CLOCK_STEP_MS_MIN:
            return set_by_ms
        self._begin_ms = begin_ms
        return 0
