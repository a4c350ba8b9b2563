"""Decisions about due times: find, run and pass them."""

from __future__ import annotations

from headgate.engine.commands import ScheduleAdvanced
from headgate.engine.decisions import Decision, Decisions
from headgate.engine.decisions.entries import add
from headgate.engine.entry import Draft, EntryId
from headgate.engine.replies import DueSchedules
from headgate.engine.requests.entries import Add
from headgate.engine.requests.schedules import AwaitSchedules, PassSchedule, RunSchedule
from headgate.engine.schedules.progress import ScheduleInfo
from headgate.engine.state.keyspace import Keyspace


def due_schedules(
    keyspace: Keyspace, request: AwaitSchedules, now_ms: int
) -> Decision[DueSchedules]:
    """Find schedules about which something is to be done."""
    schedules = keyspace.schedules
    due: list[ScheduleInfo] = []
    next_ms = None
    for wake_ms, name in schedules.wakes:
        if wake_ms > now_ms or len(due) == request.limit:
            next_ms = wake_ms
            break
        due.append(schedules.by_name[name])
    return Decision(DueSchedules(now_ms, due, next_ms, len(schedules.by_name)), [])


def run_schedule(keyspace: Keyspace, request: RunSchedule, now_ms: int) -> Decision[EntryId | None]:
    """Decide to append the entry of a due time, and to note that: both are one record."""
    info = _awaiting(keyspace, request)
    if info is None or info.definition.stream != request.stream:
        return Decision(None, [])
    due_ms = request.due_ms
    draft = Draft(None, info.entry_fields(due_ms))
    appending = add(keyspace, Add(request.stream, [draft]), now_ms)
    [entry_id] = appending.reply.ids
    ran = info.ran(due_ms, request.next_due_ms, entry_id, request.missed_count)
    return Decision(entry_id, [*appending.commands, _advanced(ran)])


def pass_schedule(keyspace: Keyspace, request: PassSchedule, now_ms: int) -> Decision[bool]:
    """Decide to go on to another due time without an entry, or to wait."""
    del now_ms
    info = _awaiting(keyspace, request)
    if info is None:
        return Decision(False, [])
    passed = info.passed(
        request.next_due_ms, request.retry_at_ms, request.missed_count, request.refusal
    )
    return Decision(True, [_advanced(passed)])


def _awaiting(keyspace: Keyspace, request: RunSchedule | PassSchedule) -> ScheduleInfo | None:
    """Return the schedule if it still waits for the due time of the request."""
    info = keyspace.schedules.by_name.get(request.schedule)
    return info if info is not None and info.awaits(request.revision, request.was_due_ms) else None


def _advanced(info: ScheduleInfo) -> ScheduleAdvanced:
    return ScheduleAdvanced(info.name, info.progress)


DECISIONS: Decisions = {
    RunSchedule: run_schedule,
    PassSchedule: pass_schedule,
}
