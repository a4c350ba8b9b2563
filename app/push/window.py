"""How many requests of a push may be in flight, given the outcomes of the last ones."""

from __future__ import annotations

from collections.abc import Callable

FAILURES_MAX = 5
"""Failures in a row, behind which a push rests and is tried with one request now and then."""

BACKOFF_MS_MIN, BACKOFF_MS_MAX = 1_000, 300_000
"""Rests of a push, and of entries in a group whose policy has no `backoff_ms`."""


class Window:
    """A window like that of TCP: it grows with each success, and halves with each failure.

    A receiver that always fails gets one request per backoff.
    """

    def __init__(self, size_max: int, failures: int = 0) -> None:
        """Start with one request; `failures` is the number of consecutive failures so far."""
        self._size_max = size_max
        self._size = 1
        self._delay_until_ms = 0
        self._delay_count = max(failures - FAILURES_MAX, 0)
        self.failures = failures

    def free(self, in_flight: int, now_ms: int) -> int:
        """Return how many more requests may be sent; `now_ms` is monotonic."""
        return 0 if now_ms < self._delay_until_ms else max(self._size - in_flight, 0)

    def delay_ms(self, now_ms: int) -> int:
        return max(self._delay_until_ms - now_ms, 0)

    def succeed(self) -> None:
        self.failures = self._delay_count = 0
        self._size = min(self._size + 1, self._size_max)

    def fail(self, now_ms: int, length_ms: Callable[[int], int]) -> None:
        """Note a failed request; requests that fail together start one backoff."""
        self.failures += 1
        self._size = max(self._size // 2, 1)
        if self.failures >= FAILURES_MAX and now_ms >= self._delay_until_ms:
            self._size = 1
            self._delay_count += 1
            self._delay_until_ms = now_ms + length_ms(self._delay_count)

    def delay_until(self, until_ms: int) -> None:
        """Send nothing until a monotonic time, as the receiver asks."""
        self._delay_until_ms = max(self._delay_until_ms, until_ms)

    def end_delay(self) -> None:
        """Resume at once, as a user asks."""
        self._delay_until_ms = 0


def backoff_ms(failures: int) -> int:
    """Return the backoff after so many failures; it doubles up to five minutes."""
    return min(BACKOFF_MS_MIN << min(max(failures - 1, 0), 20), BACKOFF_MS_MAX)
