"""Schedules: what is appended when, and how far each schedule has come."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

from headgate.engine.entry import EntryId, Fields, size_of
from headgate.engine.errors import Invalid
from headgate.engine.limits import SCHEDULE_BYTES_MAX, SCHEDULE_FIELDS_MAX

# Definition: an entry, its stream, and the times at which it is appended.
#
# The times follow from a cron expression, which the engine does not read: whoever sets a schedule,
# and whoever runs it, says which due time comes next.

SCHEDULE_FIELD, DUE_FIELD = b"_schedule", b"_due_ms"
"""The names of the fields behind those of the schedule, as those of a dead letter's origin."""


ONCE = "@"
"""Instead of a cron expression, with a unix time in milliseconds: due once, and gone after that."""


class Missed(StrEnum):
    """The treatment of due times at which nobody could run the schedule."""

    RUN_ONCE = "run_once"  # the latest of them is run
    SKIP = "skip"  # none of them is run


class Definition(msgspec.Struct, frozen=True, array_like=True):
    stream: bytes
    fields: Fields
    cron: str
    time_zone: str
    missed: Missed = Missed.RUN_ONCE
    is_paused: bool = False

    @property
    def is_once(self) -> bool:
        return self.cron.startswith(ONCE)

    def has_times_of(self, other: Definition) -> bool:
        return (self.cron, self.time_zone, self.is_paused) == (
            other.cron,
            other.time_zone,
            other.is_paused,
        )


def once(stream: bytes, fields: Fields, at_ms: int) -> Definition:
    """Return the definition of an entry that is appended at a time, once."""
    return Definition(stream, fields, f"{ONCE}{at_ms}", "UTC")


def check_schedule(schedule: Definition) -> None:
    """Raise Invalid if its entry has no fields, too many, or fields that the gateway adds."""
    fields = schedule.fields
    text = None
    if not fields or len(fields) % 2:
        text = "an entry has a name and a value, or several of each"
    elif len(fields) > 2 * SCHEDULE_FIELDS_MAX:
        text = f"a schedule has at most {SCHEDULE_FIELDS_MAX} fields"
    elif size_of(fields) > SCHEDULE_BYTES_MAX:
        text = f"the fields of a schedule have at most {SCHEDULE_BYTES_MAX} bytes"
    elif not {SCHEDULE_FIELD, DUE_FIELD}.isdisjoint(fields[::2]):
        text = "`_schedule` and `_due_ms` come by themselves, behind the other fields"
    if text is not None:
        raise Invalid(text, location=("fields",))


class Refusal(NamedTuple):
    """The last append of a schedule that was refused."""

    code: str  # of the problem
    detail: str
    at_ms: int


class Progress(NamedTuple):
    next_due_ms: int | None  # None: never, or it is paused
    retry_at_ms: int = 0  # the due time is not tried before, as it was refused
    last_due_ms: int | None = None
    last_id: EntryId | None = None  # of the entry that was appended last
    missed_count: int = 0
    refused_count: int = 0
    refusal: Refusal | None = None  # None: the last append was not refused

    @property
    def wake_ms(self) -> int | None:
        return None if self.next_due_ms is None else max(self.next_due_ms, self.retry_at_ms)


class ScheduleInfo(NamedTuple):
    """A schedule with its progress. Its methods return it as it is afterwards."""

    name: bytes
    epoch: int  # identity of this life of the name
    revision: int  # how often it was set
    definition: Definition
    progress: Progress

    def entry_fields(self, due_ms: int) -> Fields:
        due = (SCHEDULE_FIELD, self.name, DUE_FIELD, b"%d" % due_ms)
        return self.definition.fields + due

    def awaits(self, revision: int, due_ms: int) -> bool:
        return (self.revision, self.progress.next_due_ms) == (revision, due_ms)

    def set_to(self, definition: Definition, next_due_ms: int | None) -> ScheduleInfo:
        """Return it with another definition. What was refused before says nothing of that."""
        progress = self.progress._replace(next_due_ms=next_due_ms, retry_at_ms=0, refusal=None)
        return self._replace(revision=self.revision + 1, definition=definition, progress=progress)

    def ran(
        self, due_ms: int, next_due_ms: int | None, entry_id: EntryId, missed: int
    ) -> ScheduleInfo:
        before = self.progress
        progress = Progress(
            next_due_ms,
            last_due_ms=due_ms,
            last_id=entry_id,
            missed_count=before.missed_count + missed,
            refused_count=before.refused_count,
        )
        return self._replace(progress=progress)

    def passed(
        self, next_due_ms: int | None, retry_at_ms: int, missed: int, refusal: Refusal | None
    ) -> ScheduleInfo:
        before = self.progress
        progress = before._replace(
            next_due_ms=next_due_ms,
            retry_at_ms=retry_at_ms,
            missed_count=before.missed_count + missed,
            refused_count=before.refused_count + (refusal is not None),
            refusal=refusal or before.refusal,
        )
        return self._replace(progress=progress)
