"""A repeated change is done once, by any gateway and after a stop at any step."""

from __future__ import annotations

import pytest

from deploy.local_cluster.server import Server
from headgate.app.backends.redis.backend import RedisBackend
from headgate.app.backends.redis.performing import writes
from headgate.engine.entry import Draft
from headgate.engine.errors import Invalid, NotSupported
from headgate.engine.requests.bulk import CommitBatch, LastCommit
from headgate.engine.requests.entries import Add, Range
from headgate.engine.requests.keyspace import ListNames
from tests.unit.app.backends.redis.conftest import running

S = b"orders"
ENTRY = [Draft(None, (b"n", b"1"))]


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


async def test_a_late_commit_does_not_hide_a_later_one(backend: RedisBackend) -> None:
    for batch in (7, 6):
        await writes._at_writer(backend.client, b"loader", "end_commit", batch=batch, streams=[S])
    last = await backend.perform(LastCommit(b"loader"))
    assert last is not None
    assert last.batch == 7


async def test_a_batch_for_several_slots_is_refused_as_a_whole(over_cluster: RedisBackend) -> None:
    batch = CommitBatch(b"loader", 1, {b"a": ENTRY, b"b": ENTRY})
    with pytest.raises(NotSupported, match="several slots"):
        await over_cluster.perform(batch)
    assert await over_cluster.perform(ListNames()) == []
    assert await over_cluster.perform(LastCommit(b"loader")) is None
    together = CommitBatch(b"loader", 1, {b"{x}a": ENTRY, b"{x}b": ENTRY * 2})
    written = (await over_cluster.perform(together)).streams
    assert [(each.stream, each.entries) for each in written] == [(b"{x}a", 1), (b"{x}b", 2)]


async def test_an_entry_has_as_many_fields_as_a_function_can_append(backend: RedisBackend) -> None:
    wide = (b"n", b"1") * 3_500
    await backend.perform(Add(S, [Draft(None, wide)]))
    await backend.perform(Add(S, [Draft(None, wide), Draft(None, wide)]))
    assert {entry.fields for entry in await backend.perform(Range(S))} == {wide}
    with pytest.raises(Invalid, match="3500 fields"):
        await backend.perform(Add(S, [Draft(None, (*wide, b"n", b"1"))]))
