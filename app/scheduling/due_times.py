"""The due times of a cron expression in a time zone.

Expressions are those of Debian's cron, as cronsim implements them. When the clock changes, an
expression with fixed minutes and hours is due once: a time that does not exist becomes the first
moment after the gap, and of one that occurs twice the first counts. An expression whose minutes or
hours begin with `*` follows elapsed time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from headgate.engine.errors import Invalid
from headgate.engine.schedules import Missed, ScheduleInfo

MISSED_MS = 60_000
"""A due time so long ago is missed: nobody could run it for so long."""

COUNTED_MAX = 1_000
"""Due times that are counted after an outage. Each one takes up to 20 µs."""

_CRON = re.compile(r"[0-9A-Za-z*/,#-]+( +[0-9A-Za-z*/,#-]+){4}")
_CRON_MAX, _ZONE_MAX = 256, 64
"""Characters. A time that never comes is searched for 50 years, which takes up to 15 ms."""


class DueTimes:
    """The due times of a cron expression, as unix times in milliseconds."""

    def __init__(self, cron: str, time_zone: str) -> None:
        """Raises Invalid for a wrong expression or time zone; the location says which."""
        self._cron = _checked(cron)
        self._zone = _zone_of(time_zone)

    def after(self, at_ms: int) -> int | None:
        """Return the first due time after `at_ms`; None if there is none for 50 years."""
        return next(self._all_after(at_ms), None)

    def latest(self, through_ms: int, known_ms: int) -> int:
        """Return the latest due time up to `through_ms`; `known_ms` is an earlier due time."""
        moment = datetime.fromtimestamp(through_ms / 1000, self._zone)
        back = CronSim(self._cron, moment, reverse=True)
        # Two steps back and then forward: only the way forward says what is due.
        start_ms = min((_ms(next(back, moment)), _ms(next(back, moment))))
        latest_ms = known_ms
        for due_ms in self._all_after(max(start_ms - 1, known_ms)):
            if due_ms > through_ms:
                break
            latest_ms = due_ms
        return latest_ms

    def count(self, from_ms: int, through_ms: int) -> int:
        """Return the number of due times in a period, at most `COUNTED_MAX`."""
        count = 1
        for due_ms in self._all_after(from_ms):
            if due_ms > through_ms or count == COUNTED_MAX:
                break
            count += 1
        return count

    def _all_after(self, at_ms: int) -> Iterator[int]:
        last_ms = at_ms
        for moment in CronSim(self._cron, datetime.fromtimestamp(at_ms / 1000, self._zone)):
            due_ms = _ms(moment)
            # Where the clock is set, several times become one, or what is later comes earlier.
            if due_ms > last_ms:
                last_ms = due_ms
                yield due_ms


def _ms(moment: datetime) -> int:
    return int(moment.timestamp()) * 1000


def _checked(cron: str) -> str:
    if len(cron) > _CRON_MAX or not _CRON.fullmatch(cron):
        text = "five fields, as `0 6 * * MON-FRI`: minute, hour, day of month, month, day of week"
        raise Invalid(text, location=("cron",))
    try:
        CronSim(cron, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise Invalid(f"{str(error).lower()}", location=("cron",)) from None
    return cron


def _zone_of(name: str) -> tzinfo:
    if name == "UTC":
        return UTC  # it is there without a database of time zones
    try:
        if len(name) <= _ZONE_MAX:
            return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass
    text = "not a time zone that this gateway knows, such as `Europe/Berlin` or `UTC`"
    raise Invalid(text, location=("time_zone",))


class DuePlan(NamedTuple):
    due_ms: int | None  # what is run; None: nothing, as it was missed
    next_due_ms: int | None
    missed_count: int = 0


def plan(info: ScheduleInfo, now_ms: int) -> DuePlan:
    """Return what to do about a due schedule. Raises Invalid if its time zone is now unknown."""
    due_ms, definition = info.progress.next_due_ms, info.definition
    assert due_ms is not None
    times = DueTimes(definition.cron, definition.time_zone)
    if due_ms > now_ms - MISSED_MS:
        return DuePlan(due_ms, times.after(due_ms))
    latest_ms = times.latest(now_ms - MISSED_MS, due_ms)
    missed_count = times.count(due_ms, latest_ms)
    next_due_ms = times.after(latest_ms)
    if definition.missed is Missed.SKIP:
        return DuePlan(None, next_due_ms, missed_count)
    return DuePlan(latest_ms, next_due_ms, missed_count - 1)
