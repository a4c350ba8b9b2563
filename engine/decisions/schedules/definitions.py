"""Decisions about schedules: set, describe, list, delete."""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

from headgate.engine.commands import ScheduleDeleted, ScheduleSet
from headgate.engine.decisions import Decision, Decisions
from headgate.engine.errors import ScheduleChanged, ScheduleExists, ScheduleNotFound
from headgate.engine.limits import SCHEDULES_AT_ONCE_MAX
from headgate.engine.replies import Created
from headgate.engine.requests.names import is_shown
from headgate.engine.requests.schedules import (
    DeleteSchedule,
    GetSchedule,
    ListSchedules,
    SetSchedule,
)
from headgate.engine.schedules.definition import check_schedule
from headgate.engine.schedules.progress import Progress, ScheduleInfo
from headgate.engine.state.keyspace import Keyspace


def set_schedule(
    keyspace: Keyspace, request: SetSchedule, now_ms: int
) -> Decision[Created[ScheduleInfo]]:
    """Decide to create a schedule, or to give it another definition."""
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
        if before.revision != request.revision:
            raise ScheduleChanged(name)
        info = before.set_to(definition, request.next_due_ms)
    return Decision(Created(before is None, info), [ScheduleSet(info)])


def get_schedule(keyspace: Keyspace, request: GetSchedule, now_ms: int) -> Decision[ScheduleInfo]:
    """Describe a schedule."""
    del now_ms
    info = _shown(keyspace, request)
    if info is None:
        raise ScheduleNotFound(request.schedule)
    return Decision(info, [])


def delete_schedule(keyspace: Keyspace, request: DeleteSchedule, now_ms: int) -> Decision[bool]:
    """Decide to delete a schedule."""
    del now_ms
    if _shown(keyspace, request) is None:
        return Decision(False, [])
    return Decision(True, [ScheduleDeleted(request.schedule)])


def _shown(keyspace: Keyspace, request: GetSchedule | DeleteSchedule) -> ScheduleInfo | None:
    info = keyspace.schedules.by_name.get(request.schedule)
    is_seen = info is not None and is_shown(info.definition.stream, request.only)
    return info if is_seen else None


class Listed(NamedTuple):
    """A part of a list of schedules."""

    infos: list[ScheduleInfo]
    last: bytes | None  # the last name that was looked at; None: there are no more


def list_schedules(keyspace: Keyspace, request: ListSchedules) -> Listed:
    """Describe schedules by name; so many are looked at as one turn has time for."""
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


DECISIONS: Decisions = {
    SetSchedule: set_schedule,
    GetSchedule: get_schedule,
    DeleteSchedule: delete_schedule,
}
