"""History: the last quarter of an hour by seconds, and the last day by minutes, of one subject.

A row of a minute has the mean of its seconds, or the largest of them where a mean would hide what
people look for: how long something took or waited.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from headgate.app.measuring.table import DatedRows, Table, largest, mean

SECONDS_KEPT: Final = 15 * 60
MINUTES_KEPT: Final = 24 * 60


class Step(StrEnum):
    """The distance between the rows of a history."""

    SECOND = "second"
    MINUTE = "minute"

    @property
    def duration_ms(self) -> int:
        """Return it in milliseconds."""
        return 1000 if self is Step.SECOND else 60_000


class History:
    """The history of one subject: the gateway, a stream, or a group."""

    def __init__(self, names: Iterable[str], largest_of: frozenset[str] = frozenset()) -> None:
        """Begin empty.

        Args:
            names: of its series.
            largest_of: those of which a minute shows the largest value, and not the mean.
        """
        names = tuple(names)
        self._largest_of = largest_of
        self._tables = {
            Step.SECOND: Table(names, SECONDS_KEPT),
            Step.MINUTE: Table(names, MINUTES_KEPT),
        }
        self._latest_ms = 0

    def add(self, time_ms: int, values: Mapping[str, float | None]) -> None:
        """Add the values at a time, to the second; a time that is not later is moved."""
        second_ms, minute_ms = (step.duration_ms for step in Step)
        latest_ms = self._latest_ms
        time_ms = max(time_ms - time_ms % second_ms, latest_ms + second_ms)
        minute_end_ms = latest_ms - latest_ms % -minute_ms  # rows up to there are of one minute
        if latest_ms and time_ms > minute_end_ms:
            self._end_minute(minute_end_ms)
        self._latest_ms = time_ms
        self._tables[Step.SECOND].add(time_ms, values)

    def after(self, after_ms: int, step: Step) -> DatedRows:
        """Return the rows after a time."""
        return self._tables[step].after(after_ms)

    def _end_minute(self, end_ms: int) -> None:
        seconds = self._tables[Step.SECOND].after(end_ms - Step.MINUTE.duration_ms)
        values = {
            name: (largest if name in self._largest_of else mean)(column)
            for name, column in seconds.series.items()
        }
        self._tables[Step.MINUTE].add(end_ms, values)
