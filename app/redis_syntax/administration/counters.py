"""Counters: numbers, times and failures of commands."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from headgate.app.redis_syntax.administration.slow_log import SlowLog
from headgate.app.redis_syntax.errors import error_text
from headgate.engine.clock import Clock
from headgate.engine.errors import StreamError


@dataclass
class CommandCounts:
    """The number of runs of a command, their times, and their failures."""

    calls: int = 0
    elapsed_us: int = 0
    rejected: int = 0  # not run: a wrong number of words
    failed: int = 0

    def __str__(self) -> str:
        average_us = self.elapsed_us / self.calls if self.calls else 0.0
        return (
            f"calls={self.calls},usec={self.elapsed_us},usec_per_call={average_us:.2f},"
            f"rejected_calls={self.rejected},failed_calls={self.failed}"
        )


class CallRate:
    """The rate of commands in a second."""

    def __init__(self) -> None:
        """Begin with none."""
        self._second = 0
        self._count = 0  # in this second
        self._last_count = 0  # in the one before

    def note(self, now_s: float, calls: int) -> None:
        """Note that commands were run."""
        self._reach(int(now_s))
        self._count += calls

    def per_second(self, now_s: float) -> int:
        """Return how many commands were run in the last second that is over."""
        self._reach(int(now_s))
        return self._last_count

    def _reach(self, second: int) -> None:
        if second != self._second:
            self._last_count = self._count if second == self._second + 1 else 0
            self._second, self._count = second, 0


class Counters:
    """Counts commands."""

    def __init__(self, clock: Clock) -> None:
        """Start with all counters at 0; the clock is for the slow log."""
        self.commands: dict[str, CommandCounts] = {}
        self.errors: Counter[str] = Counter()
        self.delivered_count = 0  # entries in replies
        self.slow_log = SlowLog(clock)
        self._rate = CallRate()

    @contextmanager
    def running(self, command: str, words: Sequence[bytes] = ()) -> Iterator[None]:
        """Count a call of a command, its duration and its outcome."""
        started_s = time.perf_counter()
        failure: StreamError | None = None
        try:
            yield
        except StreamError as error:
            failure = error
            raise
        finally:
            elapsed_s = time.perf_counter() - started_s
            self.count(command, elapsed_s, failure)
            self.slow_log.note(command, words, elapsed_s)
            del failure  # it knows this frame

    def count(
        self,
        command: str,
        elapsed_s: float = 0.0,
        failure: StreamError | None = None,
        *,
        calls: int = 1,
    ) -> None:
        """Count calls of a command that have ended, each after the same time."""
        counts = self._counts_of(command)
        elapsed_us = round(elapsed_s * 1_000_000)
        counts.calls += calls
        counts.elapsed_us += elapsed_us * calls
        self._rate.note(time.perf_counter(), calls)
        if failure is not None:
            counts.failed += 1
            self._count_error(failure)

    def reject(self, command: str | None, failure: StreamError) -> None:
        """Count a command that was not run. The name is None if the command is unknown."""
        self._count_error(failure)
        if command is not None:
            self._counts_of(command).rejected += 1

    def reset(self) -> None:
        """Set all counters to 0 (CONFIG RESETSTAT)."""
        self.commands.clear()
        self.errors.clear()

    @property
    def call_count(self) -> int:
        """Return how many commands were run."""
        return sum(counts.calls for counts in self.commands.values())

    @property
    def calls_per_s(self) -> int:
        """Return how many commands were run in the last second that is over."""
        return self._rate.per_second(time.perf_counter())

    def _counts_of(self, command: str) -> CommandCounts:
        counts = self.commands.get(command)
        if counts is None:
            counts = self.commands[command] = CommandCounts()
        return counts

    def _count_error(self, error: StreamError) -> None:
        self.errors[error_text(error).partition(" ")[0]] += 1
