"""Definition: an entry, its stream, and the times at which it is appended.

The times follow from a cron expression, which the engine does not read: whoever sets a schedule,
and whoever runs it, says which due time comes next.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from headgate.engine.entry import Fields, size_of
from headgate.engine.errors import Invalid
from headgate.engine.limits import SCHEDULE_BYTES_MAX, SCHEDULE_FIELDS_MAX

SCHEDULE_FIELD, DUE_FIELD = b"_schedule", b"_due_ms"
"""The names of the fields behind those of the schedule, as those of a dead letter's origin."""


class Missed(StrEnum):
    """The treatment of due times at which nobody could run the schedule."""

    RUN_ONCE = "run_once"  # the latest of them is run
    SKIP = "skip"  # none of them is run


class Definition(msgspec.Struct, frozen=True, array_like=True):
    """An entry that is appended to a stream at every due time."""

    stream: bytes
    fields: Fields
    cron: str
    time_zone: str
    missed: Missed = Missed.RUN_ONCE
    is_paused: bool = False

    def has_times_of(self, other: Definition) -> bool:
        """Tell whether both have the same due times."""
        return (self.cron, self.time_zone, self.is_paused) == (
            other.cron,
            other.time_zone,
            other.is_paused,
        )


def check_schedule(schedule: Definition) -> None:
    """Check that a schedule can be kept, as far as its entry is concerned.

    Raises:
        Invalid: it has no fields, too many, or fields that the gateway adds.
    """
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
