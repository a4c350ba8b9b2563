"""Table: numbers by time, in columns. The oldest rows go when it is full."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from math import isnan, nan
from typing import NamedTuple

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
