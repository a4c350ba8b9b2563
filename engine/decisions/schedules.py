"""Decisions about schedules: set, describe, list, delete, run, pass."""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

from headgate.engine.commands import ScheduleAdvanced, ScheduleDeleted, ScheduleSet
from headgate.engine.decisions import Decision, Decisions
from headgate.engine.decisions.entries import add
from headgate.engine.entry import Draft, EntryId
from headgate.engine.errors import ScheduleChanged, ScheduleExists, ScheduleNotFound
from headgate.engine.limits import SCHEDULES_AT_ONCE_MAX
from headgate.engine.replies import Created, DueSchedules
from headgate.engine.requests.entries import Add
from headgate.engine.requests.keyspace import is_shown
from headgate.engine.requests.schedules import (
    AwaitSchedules,
    DeleteSchedule,
    GetSchedule,
    ListSchedules,
    PassSchedule,
    RunSchedule,
    SetSchedule,
)
from headgate.engine.schedules import Progress, ScheduleInfo, check_schedule
from headgate.engine.state.keyspace import Keyspace


def set_schedule(
    keyspace: Keyspace, request: SetSchedule, now_ms: int
) -> Decision[Created[ScheduleInfo]]:
    name, definition = request.schedule, request.definition
    check_schedule(definition)
    before = keyspace.schedules.by_name.get(name)
    if before is None:
        if request.revision:
            raise ScheduleChanged(name)
        keyspace.bounds.check_another_schedule(len(keyspace.schedules.by_name))
        info = ScheduleInfo(name, now_ms, 1, definition, Progress(request.next_due_ms))
    else:
        if not is_shown(before.definition.stream, request.only):
            raise ScheduleExists(name)
        if request.revision not in (None, before.revision):
            raise ScheduleChanged(name)
        info = before.set_to(definition, request.next_due_ms)
    return Decision(Created(before is None, info), [ScheduleSet(info)])


def get_schedule(keyspace: Keyspace, request: GetSchedule, now_ms: int) -> Decision[ScheduleInfo]:
    del now_ms
    info = _shown(keyspace, request)
    if info is None:
        raise ScheduleNotFound(request.schedule)
    return Decision(info, [])


def delete_schedule(keyspace: Keyspace, request: DeleteSchedule, now_ms: int) -> Decision[bool]:
    del now_ms
    if _shown(keyspace, request) is None:
        return Decision(False, [])
    return Decision(True, [ScheduleDeleted(request.schedule)])


def _shown(keyspace: Keyspace, request: GetSchedule | DeleteSchedule) -> ScheduleInfo | None:
    info = keyspace.schedules.by_name.get(request.schedule)
    is_seen = info is not None and is_shown(info.definition.stream, request.only)
    return info if is_seen else None


class Listed(NamedTuple):
    infos: list[ScheduleInfo]
    last: bytes | None  # the last name that was looked at; None: there are no more


def list_schedules(keyspace: Keyspace, request: ListSchedules) -> Listed:
    only, infos = request.only, list[ScheduleInfo]()
    by_name = keyspace.schedules.by_name
    after = request.after
    names = by_name.irange(after, inclusive=(False, True)) if after is not None else iter(by_name)
    last, count = None, 0
    for last in islice(names, SCHEDULES_AT_ONCE_MAX):
        count += 1
        info = by_name[last]
        if is_shown(info.definition.stream, only):
            infos.append(info)
            if len(infos) == request.limit:
                break
    return Listed(infos, last if count == SCHEDULES_AT_ONCE_MAX else None)


def due_schedules(
    keyspace: Keyspace, request: AwaitSchedules, now_ms: int
) -> Decision[DueSchedules]:
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
    del now_ms
    info = _awaiting(keyspace, request)
    if info is None:
        return Decision(False, [])
    passed = info.passed(
        request.next_due_ms, request.retry_at_ms, request.missed_count, request.refusal
    )
    return Decision(True, [_advanced(passed)])


def _awaiting(keyspace: Keyspace, request: RunSchedule | PassSchedule) -> ScheduleInfo | None:
    info = keyspace.schedules.by_name.get(request.schedule)
    return info if info is not None and info.awaits(request.revision, request.was_due_ms) else None


def _advanced(info: ScheduleInfo) -> ScheduleAdvanced | ScheduleDeleted:
    if info.definition.is_once and info.progress.next_due_ms is None:
        return ScheduleDeleted(info.name)
    return ScheduleAdvanced(info.name, info.progress)


DECISIONS: Decisions = {
    SetSchedule: set_schedule,
    GetSchedule: get_schedule,
    DeleteSchedule: delete_schedule,
    RunSchedule: run_schedule,
    PassSchedule: pass_schedule,
}
