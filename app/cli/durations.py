"""Durations as people write them (`500ms`, `45s`, `1m`, `12h`, `7d`, `2w`), and times."""

import re
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

import click

from headgate.app.wire import times

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_MS_MAX = 36_525 * _UNITS_MS["d"]
"""A century."""

_DURATION = re.compile(r"([0-9]{1,12})(ms|s|m|h|d|w)", re.ASCII)


def duration_ms(text: str) -> int | None:
    """Parse a duration; None if the text is not one."""
    match = _DURATION.fullmatch(text)
    return None if match is None else int(match[1]) * _UNITS_MS[match[2]]


def duration_text(ms: int) -> str:
    """Return a duration in the largest unit that is exact."""
    unit = next(
        (unit for unit in ("w", "d", "h", "m", "s") if ms and not ms % _UNITS_MS[unit]), "ms"
    )
    return f"{ms // _UNITS_MS[unit]}{unit}"


def time_text(ms: int | None) -> str | None:
    return None if ms is None else times.time_text(ms)


class Parsed(click.ParamType[Any]):
    """What a function makes of a text. Its `ValueError` says what is wrong with the text."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return it; what is no text is a default."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _duration(text: str, *, shortest_ms: int = 0) -> int:
    ms = duration_ms(text)
    if ms is None or not shortest_ms <= ms <= _MS_MAX:
        raise ValueError(f"{text!r} is not a duration such as 500ms, 45s, 1m, 12h or 7d")
    return ms


def _time(text: str, *, sign: int, words: str) -> int:
    ms = duration_ms(text)
    if ms is not None and ms <= _MS_MAX:
        return time.time_ns() // 1_000_000 + sign * ms
    try:
        return int(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r} is neither a duration {words} such as 10m nor a time such as "
            "2026-12-24T18:00+01:00"
        ) from None


DURATION = Parsed("duration", _duration)
"""A duration, in milliseconds."""

SOME_DURATION = Parsed("duration", partial(_duration, shortest_ms=1))
"""A duration that is not 0."""

DURATIONS = Parsed("durations", lambda text: [_duration(each.strip()) for each in text.split(",")])
"""Durations with commas between them."""

TIME_TO_COME = Parsed("time", partial(_time, sign=1, words="from now"))
"""A time to come, in unix ms: a duration from now, or a time as in ISO 8601."""

_ID = re.compile(r"[-+]|\(?[0-9]+(-[0-9]+)?", re.ASCII)


def _place(text: str) -> str:
    return text if _ID.fullmatch(text) else str(_time(text, sign=-1, words="before now"))


PLACE = Parsed("id or time", _place)
"""A place in a stream: an id, a unix time in milliseconds, `-` or `+`, or a time that is past."""

TIME_PAST = Parsed("time", partial(_time, sign=-1, words="before now"))
"""A time that is past, in unix ms: a duration until now, or a time as in ISO 8601."""
