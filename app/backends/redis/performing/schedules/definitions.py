"""Definitions: set, describe, list and delete schedules."""

from __future__ import annotations

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.performing import Performers, by_function
from headgate.app.backends.redis.performing.schedules.stored import find, forget, put, readable
from headgate.engine.errors import ScheduleChanged, ScheduleExists, ScheduleNotFound
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

_PAGE = 100

_TRIES_MAX = 20
"""Tries to delete a schedule that is changed at the same time."""


async def set_schedule(client: Client, request: SetSchedule) -> Created[ScheduleInfo]:
    """Create a schedule, or give it another definition."""
    check_schedule(request.definition)
    name, definition = request.schedule, request.definition
    text, before = await find(client, name)
    if before is None:
        epoch = await _time_ms(client)
        info = ScheduleInfo(name, epoch, 1, definition, Progress(request.next_due_ms))
    else:
        if not is_shown(before.definition.stream, request.only):
            raise ScheduleExists(name)
        info = before.set_to(definition, request.next_due_ms)
    if info.revision != request.revision + 1 or not await put(client, name, text, info):
        raise ScheduleChanged(name)
    if before is not None and before.definition.stream != definition.stream:
        await forget(client, before)
    return Created(before is None, info)


async def get_schedule(client: Client, request: GetSchedule) -> ScheduleInfo:
    """Describe a schedule."""
    _, info = await find(client, request.schedule)
    if info is None or not is_shown(info.definition.stream, request.only):
        raise ScheduleNotFound(request.schedule)
    return info


async def list_schedules(client: Client, request: ListSchedules) -> list[ScheduleInfo]:
    """Describe schedules by name, in byte order."""
    infos: list[ScheduleInfo] = []
    keys = client.names.of_schedules()
    low = b"-" if request.after is None else b"(" + request.after
    while True:
        names_key = keys.side(b"schedule_names")
        words = (b"ZRANGE", names_key, low, b"+", b"BYLEX", b"LIMIT", 0, _PAGE)
        [names] = await client.execute_all(keys.slot, [words], changes=False)
        if names:
            [texts] = await client.execute_all(
                keys.slot, [[b"HMGET", keys.key, *names]], changes=False
            )
            page = readable(texts)
            infos += (info for info in page if is_shown(info.definition.stream, request.only))
        if len(names) < _PAGE or len(infos) >= request.limit:
            return infos[: request.limit]
        low = b"(" + names[-1]


async def delete_schedule(client: Client, request: DeleteSchedule) -> bool:
    """Delete a schedule, and what its stream remembers of it."""
    for _ in range(_TRIES_MAX):
        text, info = await find(client, request.schedule)
        if info is None or not is_shown(info.definition.stream, request.only):
            return False
        if await put(client, request.schedule, text, None):
            await forget(client, info)
            return True
    raise ScheduleChanged(request.schedule)


async def _time_ms(client: Client) -> int:
    """Return the time of the server that has the schedules."""
    slot = client.names.of_schedules().slot
    [[seconds, micros]] = await client.execute_together(slot, [[b"TIME"]], changes=False)
    return int(seconds) * 1000 + int(micros) // 1000


PERFORMERS: Performers = {
    SetSchedule: by_function(set_schedule),
    GetSchedule: by_function(get_schedule),
    ListSchedules: by_function(list_schedules),
    DeleteSchedule: by_function(delete_schedule),
}
