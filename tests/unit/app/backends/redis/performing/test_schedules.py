"""Schedules over servers: runs that are broken off, two gateways, and what streams remember."""

import pytest

from deploy.local_cluster.server import Server
from headgate.app.backends.redis.backend import RedisBackend
from headgate.engine.entry import EntryId
from headgate.engine.errors import WrongSideKey
from headgate.engine.requests import schedules
from headgate.engine.requests.entries import Range
from headgate.engine.requests.streams import DeleteStream
from headgate.engine.schedules import Definition
from tests.unit.app.backends.redis.conftest import running

S, NAME = b"jobs", b"nightly"
DEFINITION = Definition(S, (b"a", b"1"), "* * * * *", "UTC")
RUN = schedules.RunSchedule(NAME, S, 1, 1_000, 1_000, 2_000)


async def text_of(backend: RedisBackend) -> bytes:
    keys = backend.client.names.of_schedules()
    [text] = await backend.client.execute_all(keys.slot, [[b"HGET", keys.key, NAME]], changes=False)
    return bytes(text)


async def put_back(backend: RedisBackend, text: bytes) -> None:
    """Let a schedule not have heard of its run."""
    keys = backend.client.names.of_schedules()
    await backend.client.execute_all(keys.slot, [[b"HSET", keys.key, NAME, text]], changes=True)


async def remembered(backend: RedisBackend) -> int:
    key = backend.client.names.of(S).side(b"scheduled")
    return int(await backend.client.execute(S, b"HLEN", key, changes=False))


async def ids(backend: RedisBackend) -> list[EntryId]:
    return [entry.id for entry in await backend.perform(Range(S))]


async def test_a_run_that_was_broken_off_is_repeated_without_an_entry(redis: RedisBackend) -> None:
    await redis.perform(schedules.SetSchedule(NAME, DEFINITION, 1_000, 0))
    before = await text_of(redis)
    entry_id = await redis.perform(RUN)
    await put_back(redis, before)
    assert await redis.perform(RUN) == entry_id
    assert await ids(redis) == [entry_id]
    info = await redis.perform(schedules.GetSchedule(NAME))
    assert (info.progress.last_id, info.progress.next_due_ms) == (entry_id, 2_000)


async def test_what_a_stream_remembers_goes_with_it(redis: RedisBackend) -> None:
    await redis.perform(schedules.SetSchedule(NAME, DEFINITION, 1_000, 0))
    await redis.perform(RUN)
    await redis.perform(DeleteStream(S))
    assert await remembered(redis) == 0


async def test_one_gateway_runs_the_schedules(server: Server, prefix: bytes) -> None:
    async with running(server.url, prefix) as first, running(server.url, prefix) as other:
        await first.perform(schedules.SetSchedule(NAME, DEFINITION, 1_000, 0))
        assert len((await first.perform(schedules.AwaitSchedules(b"first", 9))).schedules) == 1
        assert (await other.perform(schedules.AwaitSchedules(b"other", 9))).schedules == []
        assert len((await first.perform(schedules.AwaitSchedules(b"first", 9))).schedules) == 1
        keys = first.client.names.of_schedules()
        lease = keys.side(b"schedule_runner")
        await first.client.execute_all(keys.slot, [[b"DEL", lease]], changes=True)  # it is over
        assert len((await other.perform(schedules.AwaitSchedules(b"other", 9))).schedules) == 1


async def test_what_another_client_has_written_holds_up_no_schedule(redis: RedisBackend) -> None:
    for name in (b"broken", NAME):
        await redis.perform(schedules.SetSchedule(name, DEFINITION, 1_000, 0))
    keys = redis.client.names.of_schedules()
    command = [b"HSET", keys.key, b"broken", b"\xc1"]
    await redis.client.execute_all(keys.slot, [command], changes=True)
    due = await redis.perform(schedules.AwaitSchedules(b"me", 9))
    assert [info.name for info in due.schedules] == [NAME]
    assert [info.name for info in await redis.perform(schedules.ListSchedules())] == [NAME]
    with pytest.raises(WrongSideKey):
        await redis.perform(schedules.GetSchedule(b"broken"))
