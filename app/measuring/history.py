"""The last quarter of an hour by seconds, and the last day by minutes, of one subject.

A row of a minute has the mean of its seconds, or their maximum where a mean would hide what people
look for: how long something took or waited.
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
    """Rows with their times (unix ms) and a value for each name; NaN means unknown."""

    times_ms: list[int]
    series: dict[str, list[float]]


class Table:
    """Rows in order of time. A value takes eight bytes, and so does the time of a row."""

    def __init__(self, names: Iterable[str], rows_max: int) -> None:
        self._rows_max = rows_max
        self._times = array("d")  # exact for times in milliseconds
        self._columns = {name: array("d") for name in names}
        self._first = 0  # the place of the oldest row

    def add(self, time_ms: int, values: Mapping[str, float | None]) -> None:
        """Append a row; a column without a value is unknown."""
        place = None
        if len(self._times) == self._rows_max:
            place, self._first = self._first, (self._first + 1) % self._rows_max
        _put(self._times, place, time_ms)
        for name, column in self._columns.items():
            value = values.get(name)
            _put(column, place, nan if value is None else round(value, _DIGITS))

    def after(self, after_ms: int) -> DatedRows:
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
    known = [value for value in values if not isnan(value)]
    return sum(known) / len(known) if known else None


def largest(values: Iterable[float]) -> float | None:
    return max((value for value in values if not isnan(value)), default=None)


SECONDS_KEPT: Final = 15 * 60
MINUTES_KEPT: Final = 24 * 60


class Step(StrEnum):
    """The distance between the rows of a history."""

    SECOND = "second"
    MINUTE = "minute"

    @property
    def duration_ms(self) -> int:
        return 1000 if self is Step.SECOND else 60_000


class History:
    """The history of one subject; minutes have the maximum of the series in `largest_of`."""

    def __init__(self, names: Iterable[str], largest_of: frozenset[str] = frozenset()) -> None:
        names = tuple(names)
        self._largest_of = largest_of
        self._tables = {
            Step.SECOND: Table(names, SECONDS_KEPT),
            Step.MINUTE: Table(names, MINUTES_KEPT),
        }
        self._latest_ms = 0

    def add(self, time_ms: int, values: Mapping[str, float | None]) -> None:
        """Add values, to the second. A time that does not advance is moved forward."""
        second_ms, minute_ms = (step.duration_ms for step in Step)
        latest_ms = self._latest_ms
        time_ms = max(time_ms - time_ms % second_ms, latest_ms + second_ms)
        minute_end_ms = latest_ms - latest_ms % -minute_ms  # rows up to there are of one minute
        if latest_ms and time_ms > minute_end_ms:
            self._end_minute(minute_end_ms)
        self._latest_ms = time_ms
        self._tables[Step.SECOND].add(time_ms, values)

    def after(self, after_ms: int, step: Step) -> DatedRows:
        return self._tables[step].after(after_ms)

    def _end_minute(self, end_ms: int) -> None:
        seconds = self._tables[Step.SECOND].after(end_ms - Step.MINUTE.duration_ms)
        values = {
            name: (largest if name in self._largest_of else mean)(column)
            for name, column in seconds.series.items()
        }
        self._tables[Step.MINUTE].add(end_ms, values)
