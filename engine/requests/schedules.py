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

    `revision` is that of the schedule as it was when `next_due_ms` was computed; 0: there was none.
    `only` says to which streams a schedule may append that is replaced; None: to any.

    Raises:
        ScheduleChanged: it has another revision by now.
        ScheduleExists: it appends to a stream that `only` leaves out.
        LimitReached: there are as many schedules as there may be.
        Invalid: the fields are none, or too many.
    """

    schedule: bytes
    definition: Definition
    next_due_ms: int | None  # None: it is paused
    revision: int
    only: NameFilter | None = None


class GetSchedule(Request[ScheduleInfo], frozen=True):
    """Describe a schedule.

    Raises:
        ScheduleNotFound: there is none, or it appends to a stream that `only` leaves out.
    """

    schedule: bytes
    only: NameFilter | None = None


class ListSchedules(Request[list[ScheduleInfo]], frozen=True):
    """Describe up to `limit` schedules after the name `after`, in byte order.

    `only` says for which streams; None: for all. Each page shows the state at its own moment.
    """

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

    The reply is the id of the entry; None if the schedule was set, deleted or run meanwhile.

    Raises:
        StreamError: the append was refused, as `Add` says it.
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
