"""Schedules over servers: one hash for all, and a memory of what has run beside each stream."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import msgspec

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.faults import as_stream_errors, read_id
from headgate.app.backends.redis.library import Effect
from headgate.app.backends.redis.performing import Performers, by_function
from headgate.engine.entry import EntryId
from headgate.engine.errors import (
    NotSupported,
    ScheduleChanged,
    ScheduleExists,
    ScheduleNotFound,
    WrongSideKey,
)
from headgate.engine.replies import Created, DueSchedules
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

# Stored schedules: one hash for all of them, and a memory of what has run beside each stream.
#
# A schedule is changed by compare and set, as its stream may be in another slot.

encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ScheduleInfo).decode


def readable(texts: Iterable[bytes | None]) -> list[ScheduleInfo]:
    """Return the schedules in texts, ignoring what another client has written there."""
    infos: list[ScheduleInfo] = []
    for text in texts:
        with suppress(msgspec.DecodeError):
            if text is not None:
                infos.append(_decode(text))
    return infos


async def find(client: Client, name: bytes) -> tuple[bytes, ScheduleInfo | None]:
    """Return a schedule as text and value, or empty text and None; raises WrongSideKey."""
    keys = client.names.of_schedules()
    [text] = await client.execute_all(keys.slot, [[b"HGET", keys.key, name]], changes=False)
    if text is None:
        return b"", None
    try:
        return text, _decode(text)
    except msgspec.DecodeError as error:
        raise WrongSideKey(keys.key, str(error)) from None


async def put(client: Client, name: bytes, before: bytes, info: ScheduleInfo | None) -> bool:
    """Replace a schedule if its text is still `before`; return whether it was."""
    effect = Effect.WRITE if info is not None and not before else Effect.FREE
    facts = {
        "schedule": name,
        "before": before,
        "after": b"" if info is None else encode(info),
        "wake_ms": None if info is None else info.progress.wake_ms,
        "schedules_max": client.options.keyspace.schedules_max,
    }
    return bool(await call(client, effect, "put_schedule", **facts))


async def forget(client: Client, info: ScheduleInfo) -> None:
    stream = info.definition.stream
    key = client.names.of(stream).side(b"scheduled")
    await client.execute(stream, b"HDEL", key, identity_of(info), changes=True)


def identity_of(info: ScheduleInfo) -> bytes:
    return b"%d:%b" % (info.epoch, info.name)


async def call(client: Client, effect: Effect, operation: str, **facts: object) -> Any:
    return await client.call(effect, operation, [client.names.of_schedules()], **facts)


_PAGE = 100

_TRIES_MAX = 20
"""Tries to delete a schedule that is changed at the same time."""


async def set_schedule(client: Client, request: SetSchedule) -> Created[ScheduleInfo]:
    check_schedule(request.definition)
    if request.definition.is_once:
        raise NotSupported("schedules that are due once")
    name, definition = request.schedule, request.definition
    text, before = await find(client, name)
    if before is None:
        epoch = await _time_ms(client)
        info = ScheduleInfo(name, epoch, 1, definition, Progress(request.next_due_ms))
    else:
        if not is_shown(before.definition.stream, request.only):
            raise ScheduleExists(name)
        info = before.set_to(definition, request.next_due_ms)
    is_expected = request.revision in (None, info.revision - 1)
    if not is_expected or not await put(client, name, text, info):
        raise ScheduleChanged(name)
    if before is not None and before.definition.stream != definition.stream:
        await forget(client, before)
    return Created(before is None, info)


async def get_schedule(client: Client, request: GetSchedule) -> ScheduleInfo:
    _, info = await find(client, request.schedule)
    if info is None or not is_shown(info.definition.stream, request.only):
        raise ScheduleNotFound(request.schedule)
    return info


async def list_schedules(client: Client, request: ListSchedules) -> list[ScheduleInfo]:
    infos: list[ScheduleInfo] = []
    keys = client.names.of_schedules()
    low = b"-" if request.after is None else b"(" + request.after
    while True:
        names_key = keys.side(b"schedule_names")
        words = (b"ZRANGE", names_key, low, b"+", b"BYLEX", b"LIMIT", 0, _PAGE)
        [names] = await client.execute_all(keys.slot, [words], changes=False)
        if names:
            words = (b"HMGET", keys.key, *names)
            [texts] = await client.execute_all(keys.slot, [words], changes=False)
            page = readable(texts)
            infos += (info for info in page if is_shown(info.definition.stream, request.only))
        if len(names) < _PAGE or len(infos) >= request.limit:
            return infos[: request.limit]
        low = b"(" + names[-1]


async def delete_schedule(client: Client, request: DeleteSchedule) -> bool:
    for _ in range(_TRIES_MAX):
        text, info = await find(client, request.schedule)
        if info is None or not is_shown(info.definition.stream, request.only):
            return False
        if await put(client, request.schedule, text, None):
            await forget(client, info)
            return True
    raise ScheduleChanged(request.schedule)


async def _time_ms(client: Client) -> int:
    slot = client.names.of_schedules().slot
    [[seconds, micros]] = await client.execute_together(slot, [[b"TIME"]], changes=False)
    return int(seconds) * 1000 + int(micros) // 1000


# Runs: what is due, and the entry of a due time.
#
# The stream remembers the last due time for which it has got an entry, and the schedule is told
# behind that. So a run that is broken off and repeated, or two gateways that run the same, append
# once.

_POLL_S = 2.0
"""Pause before the servers are asked again: another gateway may have set a schedule."""

_LEASE_MS = 10_000
"""Time after which another gateway runs the schedules, if the one that did has not asked again."""


async def await_schedules(client: Client, request: AwaitSchedules) -> DueSchedules:
    loop = asyncio.get_running_loop()
    over_s = loop.time() + request.wait_ms / 1000
    while True:
        due = await _due(client, request)
        wait_s = min(over_s - loop.time(), _POLL_S)
        if due.schedules or wait_s <= 0:
            return due
        if due.next_ms is not None:
            wait_s = min(wait_s, max(due.next_ms - due.now_ms, 1) / 1000)
        await asyncio.sleep(wait_s)


async def _due(client: Client, request: AwaitSchedules) -> DueSchedules:
    facts = {"runner": request.runner, "limit": request.limit, "lease_ms": _LEASE_MS}
    now_ms, count, next_ms, texts = await call(client, Effect.FREE, "due_schedules", **facts)
    next_due_ms = None if next_ms is None else int(float(next_ms))
    return DueSchedules(now_ms, readable(texts), next_due_ms, max(count, 0))


async def run_schedule(client: Client, request: RunSchedule) -> EntryId | None:
    """Append the entry of a due time once, and note that."""
    text, info = await _awaiting(client, request)
    if info is None or info.definition.stream != request.stream:
        return None
    due_ms, words = request.due_ms, (b"*", *info.entry_fields(request.due_ms))
    facts = {"identity": identity_of(info), "time_ms": due_ms}
    operation = (Effect.WRITE, "append_scheduled", request.stream)
    with as_stream_errors(request.stream):
        entry_id = read_id(await client.call(*operation, *words, **facts))
    ran = info.ran(due_ms, request.next_due_ms, entry_id, request.missed_count)
    # Who has changed it meanwhile goes by another due time; the stream remembers this one.
    await put(client, info.name, text, ran)
    return entry_id


async def pass_schedule(client: Client, request: PassSchedule) -> bool:
    """Move to another due time without an entry, or to waiting."""
    text, info = await _awaiting(client, request)
    if info is None:
        return False
    passed = info.passed(
        request.next_due_ms, request.retry_at_ms, request.missed_count, request.refusal
    )
    return await put(client, info.name, text, passed)


async def _awaiting(
    client: Client, request: RunSchedule | PassSchedule
) -> tuple[bytes, ScheduleInfo | None]:
    text, info = await find(client, request.schedule)
    if info is None or not info.awaits(request.revision, request.was_due_ms):
        return text, None
    return text, info


PERFORMERS: Performers = {
    SetSchedule: by_function(set_schedule),
    GetSchedule: by_function(get_schedule),
    ListSchedules: by_function(list_schedules),
    DeleteSchedule: by_function(delete_schedule),
    AwaitSchedules: by_function(await_schedules),
    RunSchedule: by_function(run_schedule),
    PassSchedule: by_function(pass_schedule),
}
