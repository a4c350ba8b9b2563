"""Durations as people write them: 500ms, 5s, 1m, 6h, 7d."""

from __future__ import annotations

import re
from typing import Any

import click

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_FORM = re.compile(rf"([0-9]+(?:\.[0-9]+)?)({'|'.join(_UNITS_MS)})")


class Duration(click.ParamType[int]):
    """A flag's value that is a duration; becomes whole milliseconds.

    Args:
        ms_min: the shortest one.
    """

    name = "duration"

    def __init__(self, *, ms_min: int = 1) -> None:
        self._ms_min = ms_min

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return milliseconds."""
        try:
            ms = milliseconds(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if ms < self._ms_min:
            self.fail(f"{value} is too short: {text_of(self._ms_min)} at least", param, ctx)
        return ms


def milliseconds(text: str) -> int:
    """Return a duration that is written so.

    Raises:
        ValueError: it is none.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no time such as 500ms, 90s, 15m, 6h or 7d")
    return round(float(match[1]) * _UNITS_MS[match[2]])


def text_of(ms: int) -> str:
    """Return a duration in the longest unit that it is a whole number of."""
    unit = next(unit for unit, length in reversed(_UNITS_MS.items()) if ms % length == 0)
    return f"{ms // _UNITS_MS[unit]}{unit}"
