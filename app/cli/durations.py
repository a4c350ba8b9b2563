"""Durations: how long, as people write it: `500ms`, `45s`, `1m`, `12h`, `7d`, `2w`; and times."""

import re
import time
from datetime import UTC, datetime

import click

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_MS_MAX = 36_525 * _UNITS_MS["d"]
"""A century."""

_DURATION = re.compile(r"([0-9]{1,12})(ms|s|m|h|d|w)", re.ASCII)


def duration_ms(text: str) -> int | None:
    """Return a duration in milliseconds; None: the text is none."""
    match = _DURATION.fullmatch(text)
    return None if match is None else int(match[1]) * _UNITS_MS[match[2]]


def duration_text(ms: int) -> str:
    """Return a duration in the largest unit that says it exactly."""
    unit = next(
        (unit for unit in ("w", "d", "h", "m", "s") if ms and not ms % _UNITS_MS[unit]), "ms"
    )
    return f"{ms // _UNITS_MS[unit]}{unit}"


def age_text(ms: int) -> str:
    """Return a duration in its largest unit, as people read it."""
    unit = next((unit for unit in ("d", "h", "m", "s") if ms >= _UNITS_MS[unit]), "ms")
    return f"{ms // _UNITS_MS[unit]} {unit}"


def time_text(ms: int | None) -> str | None:
    """Return a time as people read it, by UTC; None: there is none."""
    if ms is None:
        return None
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):  # its year is in no calendar
        return f"{ms} ms"


class Duration(click.ParamType[int]):
    """A duration, in milliseconds."""

    name = "duration"

    def __init__(self, *, shortest_ms: int = 0) -> None:
        """Take durations of so long or longer."""
        self._shortest_ms = shortest_ms

    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return it."""
        if isinstance(value, int):
            return value
        ms = duration_ms(value)
        if ms is None or not self._shortest_ms <= ms <= _MS_MAX:
            self.fail(
                f"{value!r} should be a duration such as 500ms, 45s, 1m, 12h or 7d", param, ctx
            )
        return ms


class TimeToCome(click.ParamType[int]):
    """A time to come, in unix ms: a duration from now, or a time as in ISO 8601."""

    name = "time"
    _sign, _words = 1, "from now"

    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return it."""
        if isinstance(value, int):
            return value
        ms = duration_ms(value)
        if ms is not None and ms <= _MS_MAX:
            return time.time_ns() // 1_000_000 + self._sign * ms
        try:
            return int(datetime.fromisoformat(value).astimezone().timestamp() * 1000)
        except (ValueError, OverflowError):
            self.fail(
                f"{value!r} should be a duration {self._words} such as 10m, or a time such as "
                "2026-12-24T18:00+01:00",
                param,
                ctx,
            )


class TimePast(TimeToCome):
    """A time that is past, in unix ms: a duration until now, or a time as in ISO 8601."""

    _sign, _words = -1, "until now"


class Durations(click.ParamType[list[int]]):
    """Durations with commas between them, in milliseconds."""

    name = "durations"

    def convert(
        self, value: str | list[int], param: click.Parameter | None, ctx: click.Context | None
    ) -> list[int]:
        """Return them."""
        if isinstance(value, list):
            return value
        return [Duration().convert(part.strip(), param, ctx) for part in value.split(",")]
