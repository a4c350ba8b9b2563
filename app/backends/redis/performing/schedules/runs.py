"""Runs: what is due, and the entry of a due time.

The stream remembers the last due time for which it has got an entry, and the schedule is told
behind that. So a run that is broken off and repeated, or two gateways that run the same, append
once.
"""

from __future__ import annotations

import asyncio

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.faults import as_stream_errors, read_id
from headgate.app.backends.redis.library import Effect
from headgate.app.backends.redis.performing import Performers, by_function
from headgate.app.backends.redis.performing.schedules.stored import (
    call,
    find,
    identity_of,
    put,
    readable,
)
from headgate.engine.entry import EntryId
from headgate.engine.replies import DueSchedules
from headgate.engine.requests.schedules import AwaitSchedules, PassSchedule, RunSchedule
from headgate.engine.schedules.progress import ScheduleInfo

_POLL_S = 2.0
"""Pause before the servers are asked again: another gateway may have set a schedule."""

_LEASE_MS = 10_000
"""Time after which another gateway runs the schedules, if the one that did has not asked again."""


async def await_schedules(client: Client, request: AwaitSchedules) -> DueSchedules:
    """Return the schedules that are due, once there is one or the wait is over."""
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
    now_ms, count, next_ms, texts = await call(
        client,
        Effect.FREE,
        "due_schedules",
        runner=request.runner,
        limit=request.limit,
        lease_ms=_LEASE_MS,
    )
    next_due_ms = None if next_ms is None else int(float(next_ms))
    return DueSchedules(now_ms, readable(texts), next_due_ms, max(count, 0))


async def run_schedule(client: Client, request: RunSchedule) -> EntryId | None:
    """Append the entry of a due time once, and note that."""
    text, info = await _awaiting(client, request)
    if info is None or info.definition.stream != request.stream:
        return None
    due_ms, fields = request.due_ms, info.entry_fields(request.due_ms)
    with as_stream_errors(request.stream):
        reply = await client.call(
            Effect.WRITE,
            "append_scheduled",
            request.stream,
            b"*",
            *fields,
            identity=identity_of(info),
            time_ms=due_ms,
        )
    entry_id = read_id(reply)
    ran = info.ran(due_ms, request.next_due_ms, entry_id, request.missed_count)
    # Who has changed it meanwhile goes by another due time; the stream remembers this one.
    await put(client, info.name, text, ran)
    return entry_id


async def pass_schedule(client: Client, request: PassSchedule) -> bool:
    """Go on to another due time without an entry, or wait."""
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
    AwaitSchedules: by_function(await_schedules),
    RunSchedule: by_function(run_schedule),
    PassSchedule: by_function(pass_schedule),
}
