"""Schedules: set, describe, list, delete, and run what is due.

A schedule is set and run by whoever reads its cron expression, so requests carry the next due time.
"""

from __future__ import annotations

from headgate.engine.entry import EntryId
from headgate.engine.replies import Created, DueSchedules
from headgate.engine.requests import Request
from headgate.engine.requests.keyspace import NameFilter
from headgate.engine.schedules import Definition, Refusal, ScheduleInfo


class SetSchedule(Request[Created[ScheduleInfo]], frozen=True):
    """Create a schedule, or give it another definition. What it has counted stays.

    `revision` is that of the schedule as it was when `next_due_ms` was computed (0: there was none;
    None: whatever there was), or ScheduleChanged. `only` says to which streams a schedule may
    append that is replaced (None: to any), or ScheduleExists. LimitReached; Invalid if the fields
    are none, or too many.
    """

    schedule: bytes
    definition: Definition
    next_due_ms: int | None  # None: it is paused
    revision: int | None
    only: NameFilter | None = None


class GetSchedule(Request[ScheduleInfo], frozen=True):
    """Describe a schedule. ScheduleNotFound also if `only` leaves its stream out."""

    schedule: bytes
    only: NameFilter | None = None


class ListSchedules(Request[list[ScheduleInfo]], frozen=True):
    """Describe schedules behind the name `after`, by name, in pages; `only`: for which streams."""

    after: bytes | None = None
    limit: int = 100
    only: NameFilter | None = None


class DeleteSchedule(Request[bool], frozen=True):
    """Delete a schedule; the reply is false if there is none for the streams of `only`."""

    schedule: bytes
    only: NameFilter | None = None


class AwaitSchedules(Request[DueSchedules], frozen=True):
    """Return up to `limit` schedules about which something is to be done now.

    If there are none, the request waits for one up to `wait_ms`. Where several gateways use the
    same streams, one `runner` at a time is told.
    """

    runner: bytes
    limit: int
    wait_ms: int = 0


class RunSchedule(Request[EntryId | None], frozen=True):
    """Append the entry of a due time, and note that, unless it was appended before.

    The reply is its id; None: the schedule was set, deleted or run meanwhile. Raises what `Add`
    does.
    """

    schedule: bytes
    stream: bytes
    revision: int
    was_due_ms: int  # the due time that the schedule waits for
    due_ms: int  # the one that is run: a later one, if that was missed
    next_due_ms: int | None
    missed_count: int = 0


class PassSchedule(Request[bool], frozen=True):
    """Go on to another due time without an entry, or wait, as the append was refused.

    The reply is false if the schedule was set, deleted or run meanwhile.
    """

    schedule: bytes
    revision: int
    was_due_ms: int  # the due time that the schedule waits for
    next_due_ms: int | None
    retry_at_ms: int = 0
    missed_count: int = 0
    refusal: Refusal | None = None
