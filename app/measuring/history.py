"""History: the last quarter of an hour by seconds, and the last day by minutes, of one subject.

A row of a minute has the mean of its seconds, or the largest of them where a mean would hide what
people look for: how long something took or waited.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from enum import StrEnum
from math import isnan, nan
from typing import Final, NamedTuple

_DIGITS = 3


class DatedRows(NamedTuple):
    """Rows of a table: their times (unix ms), and for each name a value a row; NaN: unknown."""

    times_ms: list[int]
    series: dict[str, list[float]]


class Table:
    """Rows in order of time. A value takes eight bytes, and so does the time of a row."""

    def __init__(self, names: Iterable[str], rows_max: int) -> None:
        """Begin empty.

        Args:
            names: of the columns.
            rows_max: how many rows are kept.
        """
        self._rows_max = rows_max
        self._times = array("d")  # exact for times in milliseconds
        self._columns = {name: array("d") for name in names}
        self._first = 0  # the place of the oldest row

    def add(self, time_ms: int, values: Mapping[str, float | None]) -> None:
        """Add a row behind all others; a column without a value is unknown."""
        place = None
        if len(self._times) == self._rows_max:
            place, self._first = self._first, (self._first + 1) % self._rows_max
        _put(self._times, place, time_ms)
        for name, column in self._columns.items():
            value = values.get(name)
            _put(column, place, nan if value is None else round(value, _DIGITS))

    def after(self, after_ms: int) -> DatedRows:
        """Return the rows that are later than a time."""
        times = self._in_order(self._times)
        start = bisect_right(times, after_ms)
        series = {name: self._in_order(each)[start:] for name, each in self._columns.items()}
        return DatedRows(
            list(map(int, times[start:])), {name: each.tolist() for name, each in series.items()}
        )

    def _in_order(self, column: array[float]) -> array[float]:
        return column[self._first :] + column[: self._first] if self._first else column


def _put(column: array[float], place: int | None, value: float) -> None:
    if place is None:
        column.append(value)
    else:
        column[place] = value


def mean(values: Iterable[float]) -> float | None:
    """Return the mean of what is known."""
    known = [value for value in values if not isnan(value)]
    return sum(known) / len(known) if known else None


def largest(values: Iterable[float]) -> float | None:
    """Return the largest of what is known."""
    return max((value for value in values if not isnan(value)), default=None)


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
