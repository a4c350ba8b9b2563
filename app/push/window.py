"""Window: the requests of a push at a time, by the outcomes of the last ones."""

from __future__ import annotations

from collections.abc import Callable

FAILURES_MAX = 5
"""Failures in a row, behind which a push rests and is tried with one request now and then."""

BACKOFF_MS_MIN, BACKOFF_MS_MAX = 1_000, 300_000
"""Rests of a push, and of entries in a group whose policy has no `backoff_ms`."""


class Window:
    """A window as TCP has one: it grows with each success, and halves with each failure.

    A receiver that does nothing but fail gets one request for each rest.
    """

    def __init__(self, size_max: int, failures: int = 0) -> None:
        """Begin with one request.

        Args:
            size_max: requests at a time, at most.
            failures: how many requests have failed, one after the other.
        """
        self._size_max = size_max
        self._size = 1
        self._delay_until_ms = 0
        self._delay_count = max(failures - FAILURES_MAX, 0)
        self.failures = failures

    def free(self, in_flight: int, now_ms: int) -> int:
        """Return how many more requests may be sent now.

        Args:
            in_flight: requests on their way.
            now_ms: monotonic time.
        """
        return 0 if now_ms < self._delay_until_ms else max(self._size - in_flight, 0)

    def delay_ms(self, now_ms: int) -> int:
        """Return the time for which nothing may be sent."""
        return max(self._delay_until_ms - now_ms, 0)

    def succeed(self) -> None:
        """Note a request that was acknowledged."""
        self.failures = self._delay_count = 0
        self._size = min(self._size + 1, self._size_max)

    def fail(self, now_ms: int, length_ms: Callable[[int], int]) -> None:
        """Note a request that was not. Those that fail together begin one rest.

        Args:
            now_ms: monotonic time.
            length_ms: returns the length of the rest with this number.
        """
        self.failures += 1
        self._size = max(self._size // 2, 1)
        if self.failures >= FAILURES_MAX and now_ms >= self._delay_until_ms:
            self._size = 1
            self._delay_count += 1
            self._delay_until_ms = now_ms + length_ms(self._delay_count)

    def delay_until(self, until_ms: int) -> None:
        """Send nothing until a moment of monotonic time: the receiver wants it."""
        self._delay_until_ms = max(self._delay_until_ms, until_ms)

    def end_delay(self) -> None:
        """Send again at once: a user wants it."""
        self._delay_until_ms = 0


def backoff_ms(failures: int) -> int:
    """Return a rest behind so many failures: twice as long each time, up to five minutes."""
    return min(BACKOFF_MS_MIN << min(max(failures - 1, 0), 20), BACKOFF_MS_MAX)
