"""A repeated change is done once, by any gateway and after a stop at any step."""

from __future__ import annotations

import asyncio

import pytest

from deploy.local_cluster.server import Server
from headgate.app.backends.redis.backend import RedisBackend
from headgate.app.backends.redis.performing import writes
from headgate.engine.config import StreamConfig
from headgate.engine.entry import Draft
from headgate.engine.errors import Invalid, LimitReached, NotSupported
from headgate.engine.replies import Commit
from headgate.engine.requests.bulk import CommitBatch, LastCommit
from headgate.engine.requests.entries import Add, Range
from headgate.engine.requests.idempotency import Idempotent
from headgate.engine.requests.keyspace import InspectStream, ListNames
from headgate.engine.requests.streams import CreateStream, DeleteStream
from tests.unit.app.backends.redis.conftest import Keys, running

S = b"orders"
ENTRY = [Draft(None, (b"n", b"1"))]


def key(number: int, producer: bytes = b"shop") -> Idempotent:
    return Idempotent(producer, b"%d" % number)


async def test_gateways_that_repeat_an_append_append_once(server: Server, prefix: bytes) -> None:
    async with running(server.url, prefix) as one_gateway, running(server.url, prefix) as another:
        adds = [Add(S, ENTRY * 3, key(at % 4)) for at in range(40)]
        replies = await asyncio.gather(
            *((one_gateway, another)[at % 3 % 2].perform(add) for at, add in enumerate(adds))
        )
        assert len(await another.perform(Range(S))) == 12
    assert sum(not reply.is_repeat for reply in replies) == 4
    for reply in replies:
        assert reply.ids == [reply.ids[0], reply.ids[0].next(), reply.ids[0].next().next()]


async def test_a_producer_keeps_its_newest_keys(backend: RedisBackend) -> None:
    await backend.perform(CreateStream(S, StreamConfig(idempotency_max=3)))
    for number in range(5):
        await backend.perform(Add(S, ENTRY, key(number)))
    assert [
        (await backend.perform(Add(S, ENTRY, key(number)))).is_repeat for number in (4, 3, 2)
    ] == [True] * 3
    assert not (await backend.perform(Add(S, ENTRY, key(0)))).is_repeat
    assert not (await backend.perform(Add(S, ENTRY, key(2)))).is_repeat
    info = (await backend.perform(InspectStream(S))).keys
    assert (info.producer_count, info.key_count, info.added_count) == (1, 3, 7)
    assert info.duplicate_count == 3


async def test_a_key_is_forgotten_when_its_time_is_over(backend: RedisBackend, keys: Keys) -> None:
    await backend.perform(CreateStream(S, StreamConfig(idempotency_window_ms=1_000)))
    await backend.perform(Add(S, ENTRY, key(1)))
    of_keys = [name for name in keys.all() if b"producers" in name or b"keys:" in name]
    assert all(0 < keys.ttl_ms(name) <= 1_001 for name in of_keys)


async def test_producers_are_bounded(server: Server, prefix: bytes) -> None:
    async with running(server.url, prefix, producers_max=2) as backend:
        await backend.perform(Add(S, ENTRY, key(1, b"a")))
        await backend.perform(Add(S, ENTRY, key(1, b"b")))
        with pytest.raises(LimitReached, match="producers"):
            await backend.perform(Add(S, ENTRY, key(1, b"c")))
        await backend.perform(Add(S, ENTRY, key(2, b"b")))
        assert len(await backend.perform(Range(S))) == 3


async def test_a_gateway_that_stops_behind_a_commit_leaves_it_known(
    server: Server, prefix: bytes
) -> None:
    request = CommitBatch(b"loader", 5, {S: ENTRY})
    async with running(server.url, prefix) as stopped:  # in the middle of `commit_batch`
        await writes._at_writer(stopped.client, b"loader", "begin_commit", batch=5, streams=[S])
        await writes._commit(stopped.client, request, {S: ENTRY})
    async with running(server.url, prefix) as backend:
        last = await backend.perform(LastCommit(b"loader"))
        assert last is not None
        assert last.batch == 5
        assert (await backend.perform(request)).is_repeat
        assert (await backend.perform(CommitBatch(b"loader", 4, {b"other": ENTRY}))).is_repeat
        assert len(await backend.perform(Range(S))) == 1


async def test_a_commit_is_known_without_its_stream(backend: RedisBackend) -> None:
    request = CommitBatch(b"loader", 2**53 + 1, {S: ENTRY})
    await backend.perform(request)
    await backend.perform(DeleteStream(S))
    assert (await backend.perform(request)).is_repeat
    assert isinstance(await backend.perform(LastCommit(b"loader")), Commit)
    following = CommitBatch(b"loader", 2**53 + 2, {S: ENTRY})
    assert not (await backend.perform(following)).is_repeat


async def test_a_late_commit_does_not_hide_a_later_one(backend: RedisBackend) -> None:
    for batch in (7, 6):
        await writes._at_writer(backend.client, b"loader", "end_commit", batch=batch, streams=[S])
    last = await backend.perform(LastCommit(b"loader"))
    assert last is not None
    assert last.batch == 7


async def test_a_batch_for_several_slots_is_refused_as_a_whole(
    over_cluster: RedisBackend,
) -> None:
    batch = CommitBatch(b"loader", 1, {b"a": ENTRY, b"b": ENTRY})
    with pytest.raises(NotSupported, match="several slots"):
        await over_cluster.perform(batch)
    assert await over_cluster.perform(ListNames()) == []
    assert await over_cluster.perform(LastCommit(b"loader")) is None
    together = CommitBatch(b"loader", 1, {b"{x}a": ENTRY, b"{x}b": ENTRY * 2})
    written = (await over_cluster.perform(together)).streams
    assert [(each.stream, each.entries) for each in written] == [(b"{x}a", 1), (b"{x}b", 2)]


async def test_an_entry_has_as_many_fields_as_a_function_can_append(
    backend: RedisBackend,
) -> None:
    wide = (b"n", b"1") * 3_500
    await backend.perform(Add(S, [Draft(None, wide)]))
    await backend.perform(Add(S, [Draft(None, wide), Draft(None, wide)]))
    assert {entry.fields for entry in await backend.perform(Range(S))} == {wide}
    with pytest.raises(Invalid, match="3500 fields"):
        await backend.perform(Add(S, [Draft(None, (*wide, b"n", b"1"))]))
