"""Schedules: set, describe, list, change, delete, and run at once."""

from collections.abc import Callable
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Response

from headgate.app.auth.access import Access
from headgate.app.auth.grants import Verb
from headgate.app.auth.needs import needs
from headgate.app.automation.schedules import DueTimes
from headgate.app.http.answers import array_in_turns, json_answer
from headgate.app.http.dependencies import CURSOR, AccessDep, LimitsDep, check_at_most, page_after
from headgate.app.http.operation import Operation, PatchOperation
from headgate.app.runtime.threads import PAGES
from headgate.app.wire.names import NameText, check_name
from headgate.app.wire.problems import SETTING, GatewayError, responses
from headgate.app.wire.schedules import (
    Cron,
    Schedule,
    ScheduleInput,
    SchedulePatch,
    Schedules,
    ScheduleTimes,
    TimeZone,
    schedule_wire,
)
from headgate.app.wire.schemas.entries import Appended
from headgate.engine.entry import Draft
from headgate.engine.errors import Invalid, ScheduleChanged, ScheduleNotFound
from headgate.engine.replies import Created
from headgate.engine.requests.entries import Add
from headgate.engine.requests.keyspace import TellTime
from headgate.engine.requests.schedules import (
    DeleteSchedule,
    GetSchedule,
    ListSchedules,
    SetSchedule,
)
from headgate.engine.schedules import Definition, ScheduleInfo

router = APIRouter(prefix="/v1/schedules", tags=["Schedules"], route_class=Operation)
times = APIRouter(prefix="/v1/schedule-times", tags=["Schedules"], route_class=Operation)
patches = APIRouter(prefix="/v1/schedules", tags=["Schedules"], route_class=PatchOperation)

TIMES_MAX = 5
"""Due times in one answer: each may take as long to find as the one of a new schedule."""

_TRIES_MAX = 10
"""Tries to change a schedule that others change at the same time."""


def _schedule_name(
    schedule: Annotated[NameText, Path(description="Name of the schedule.", examples=["nightly"])],
) -> bytes:
    return check_name(schedule, pointer="/path/schedule")


ScheduleDep = Annotated[bytes, Depends(_schedule_name)]


@router.get(
    "",
    operation_id="listSchedules",
    response_model=Schedules,
    responses=responses("invalid_request"),
)
@needs()
async def list_schedules(
    access: AccessDep,
    limits: LimitsDep,
    limit: Annotated[
        int, Query(ge=1, le=1000, description="Maximum number of schedules per page.")
    ] = 100,
    cursor: Annotated[str | None, CURSOR] = None,
) -> Response:
    """List the schedules of streams that you may see, by name."""
    check_at_most(limit, limits.read_entries_max, pointer="/query/limit")
    page = page_after(cursor, limit)
    infos, next_cursor = page.of(await access.perform(ListSchedules(**page.with_one_more)))
    answer: Schedules = {
        "schedules": await array_in_turns(infos, schedule_wire),
        "next_cursor": next_cursor,
    }
    return json_answer(answer)


@router.put(
    "/{schedule}",
    operation_id="setSchedule",
    status_code=201,
    responses={
        200: {
            "description": "The schedule already existed, and now has these settings.",
            "model": Schedule,
        },
        **responses(*SETTING),
    },
)
@needs(Verb.MANAGE)
async def set_schedule(
    access: AccessDep, schedule: ScheduleDep, response: Response, new: ScheduleInput
) -> Schedule:
    """Create or replace a schedule, which appends an entry at each due time.

    An entry has the given fields, followed by `_schedule` and `_due_ms`. Each due time gets one
    entry, whatever fails. A schedule that is replaced keeps its counts. This needs `manage` and
    `append` on the stream.
    """
    definition = new.to_definition()
    created = await _set(access, schedule, lambda _: definition)
    response.status_code = 201 if created.is_new else 200
    return schedule_wire(created.info)


@router.get(
    "/{schedule}",
    operation_id="describeSchedule",
    response_model=Schedule,
    responses=responses("not_found", "invalid_request"),
)
@needs()
async def describe_schedule(access: AccessDep, schedule: ScheduleDep) -> Schedule:
    """Describe a schedule."""
    return schedule_wire(await access.perform(GetSchedule(schedule)))


@patches.patch(
    "/{schedule}",
    operation_id="updateSchedule",
    response_model=Schedule,
    responses=responses(
        "malformed",
        "not_found",
        "unsupported_media_type",
        "invalid_request",
        "overloaded",
        "memory_full",
    ),
)
@needs(Verb.MANAGE)
async def update_schedule(
    access: AccessDep, schedule: ScheduleDep, patch: SchedulePatch
) -> Schedule:
    """Change parts of a schedule, pause it, or resume it.

    Due times during a pause are not made up for.
    """

    def changed(before: ScheduleInfo | None) -> Definition:
        if before is None:
            raise ScheduleNotFound(schedule)
        return patch.changed(before.definition)

    return schedule_wire((await _set(access, schedule, changed)).info)


@router.delete(
    "/{schedule}",
    operation_id="deleteSchedule",
    status_code=204,
    responses=responses("not_found", "invalid_request"),
)
@needs(Verb.MANAGE)
async def delete_schedule(access: AccessDep, schedule: ScheduleDep) -> None:
    """Delete a schedule. Its stream stays."""
    if not await access.perform(DeleteSchedule(schedule)):
        raise ScheduleNotFound(schedule)


@router.post(
    "/{schedule}/run",
    operation_id="runSchedule",
    status_code=201,
    responses=responses("not_found", "invalid_request", "memory_full"),
)
@needs(Verb.APPEND)
async def run_schedule(access: AccessDep, schedule: ScheduleDep) -> Appended:
    """Append the entry of a schedule now, whether it is due or not. Its due times do not change."""
    info = await access.perform(GetSchedule(schedule))
    draft = Draft(None, info.entry_fields(await _now_ms(access)))
    added = await access.perform(Add(info.definition.stream, [draft]))
    return Appended(id=str(added.ids[0]))


@times.get("", operation_id="listScheduleTimes", responses=responses("invalid_request"))
@needs()
async def list_schedule_times(
    access: AccessDep,
    cron: Annotated[Cron, Query()],
    time_zone: Annotated[TimeZone, Query()] = "UTC",
    count: Annotated[int, Query(ge=1, le=TIMES_MAX, description="Due times to list.")] = 3,
) -> ScheduleTimes:
    """List the next due times of a cron expression, before you set a schedule with it."""
    at_ms = await _now_ms(access)
    computing = partial(_times_after, cron, time_zone, count, at_ms)
    return ScheduleTimes(times_ms=await PAGES.call_if_awaited(computing))


def _times_after(cron: str, time_zone: str, count: int, at_ms: int) -> list[int]:
    try:
        return DueTimes(cron, time_zone).first(count, at_ms)
    except Invalid as error:
        [name] = error.location
        raise GatewayError("invalid_request", str(error), pointer=f"/query/{name}") from None


async def _set(
    access: Access, name: bytes, define: Callable[[ScheduleInfo | None], Definition]
) -> Created[ScheduleInfo]:
    """Set a schedule based on its previous definition; retry if others set it concurrently."""
    for _ in range(_TRIES_MAX):
        before = await _schedule_or_none(access, name)
        definition = define(before)
        access.admit(SetSchedule(name, definition, None, 0))  # before anything is computed
        if before is not None and before.definition == definition:
            next_due_ms = before.progress.next_due_ms
        else:
            next_due_ms = await _next_due_ms(access, definition, before)
        revision = 0 if before is None else before.revision
        try:
            return await access.perform(SetSchedule(name, definition, next_due_ms, revision))
        except ScheduleChanged:
            continue
    raise GatewayError("overloaded", "Other clients are changing this schedule at the same time.")


async def _schedule_or_none(access: Access, name: bytes) -> ScheduleInfo | None:
    try:
        return await access.perform(GetSchedule(name))
    except ScheduleNotFound:
        return None


async def _next_due_ms(
    access: Access, definition: Definition, before: ScheduleInfo | None
) -> int | None:
    """Return when a definition is due; None if it is paused. Raises Invalid if it never is."""
    at_ms = await _now_ms(access)
    if before is not None:
        at_ms = max(at_ms, before.progress.last_due_ms or 0)
    due_ms = await PAGES.call_if_awaited(partial(_first_due_ms, definition, at_ms))
    if definition.is_paused:
        return None
    if before is not None and before.definition.has_times_of(definition):
        return before.progress.next_due_ms  # it may be due at this moment
    return due_ms


def _first_due_ms(definition: Definition, at_ms: int) -> int:
    due_ms = DueTimes(definition.cron, definition.time_zone).after(at_ms)
    if due_ms is None:
        raise Invalid("this expression never has a due time", location=("cron",))
    return due_ms


async def _now_ms(access: Access) -> int:
    return await access.perform(TellTime())
