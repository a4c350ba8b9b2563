"""Keys of streams: repeats and names, side keys that go with them, and keys of other types."""

from __future__ import annotations

from typing import Any

import pytest

from deploy.local_cluster.server import Server
from headgate.app.backends.redis.backend import RedisBackend
from headgate.app.backends.redis.performing import writes
from headgate.engine.config import Patch, StreamConfig
from headgate.engine.entry import MAX_ID, MIN_ID, Draft, EntryId
from headgate.engine.errors import Invalid, NotSupported, WrongType
from headgate.engine.requests import Request
from headgate.engine.requests.bulk import CommitBatch, LastCommit, SplitRange
from headgate.engine.requests.entries import Add, Delete, Range, Read, StreamCursor, Trim, TrimTo
from headgate.engine.requests.idempotency import Idempotent
from headgate.engine.requests.keyspace import (
    CountStreams,
    DeleteAll,
    DeleteStreams,
    ExpireStream,
    ListNames,
    NameFilter,
    PersistStream,
    RenameStream,
    ScanNames,
    TimeToLive,
)
from headgate.engine.requests.streams import (
    CreateStream,
    DeleteStream,
    DescribeStream,
    ListStreams,
    UpdateStream,
)
from tests.unit.app.backends.redis.conftest import Keys, running

ENTRY = [Draft(None, (b"n", b"1"))]


async def test_a_gateway_that_stops_leaves_a_commit_known(server: Server, prefix: bytes) -> None:
    request = CommitBatch(b"loader", 5, {b"orders": ENTRY})
    async with running(server.url, prefix) as stopped:  # in the middle of `commit_batch`
        await writes._at_writer(
            stopped.client, b"loader", "begin_commit", batch=5, streams=[b"orders"]
        )
        await writes._commit(stopped.client, request, {b"orders": ENTRY})
    async with running(server.url, prefix) as backend:
        last = await backend.perform(LastCommit(b"loader"))
        assert last is not None
        assert last.batch == 5
        assert (await backend.perform(request)).is_repeat
        assert (await backend.perform(CommitBatch(b"loader", 4, {b"other": ENTRY}))).is_repeat
        assert len(await backend.perform(Range(b"orders"))) == 1


async def test_a_late_commit_does_not_hide_a_later_one(backend: RedisBackend) -> None:
    for batch in (7, 6):
        await writes._at_writer(
            backend.client, b"loader", "end_commit", batch=batch, streams=[b"orders"]
        )
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
    await backend.perform(Add(b"orders", [Draft(None, wide)]))
    await backend.perform(Add(b"orders", [Draft(None, wide), Draft(None, wide)]))
    assert {entry.fields for entry in await backend.perform(Range(b"orders"))} == {wide}
    with pytest.raises(Invalid, match="3500 fields"):
        await backend.perform(Add(b"orders", [Draft(None, (*wide, b"n", b"1"))]))


S, T = b"{orders}1", b"{orders}2"
CONFIG = StreamConfig(max_length=2, idempotency_max=7)
KEY = Idempotent(b"shop", b"1")


async def filled(backend: RedisBackend, stream: bytes = S) -> None:
    """Make a stream that has something in side keys of all kinds."""
    await backend.perform(CreateStream(stream, CONFIG))
    await backend.perform(Add(stream, ENTRY * 3))
    await backend.perform(Add(stream, ENTRY, KEY))
    await backend.perform(CommitBatch(b"loader", 3, {stream: ENTRY}))


def of_streams(keys: Keys) -> set[bytes]:
    """Return the keys of streams and their side keys."""
    return {key for key in keys.all() if b"{orders}" in key}


async def test_a_stream_that_is_deleted_leaves_nothing(backend: RedisBackend, keys: Keys) -> None:
    await filled(backend)
    assert len(of_streams(keys)) == 7  # stream, meta, two of writers, three of idempotency keys
    assert await backend.perform(DeleteStream(S))
    assert of_streams(keys) == set()


async def test_a_stream_that_others_deleted_begins_anew(backend: RedisBackend, keys: Keys) -> None:
    await filled(backend)
    before = await backend.perform(DescribeStream(S))
    keys.run("DEL", b"$" + S)
    added = await backend.perform(Add(S, ENTRY, KEY))
    after = await backend.perform(DescribeStream(S))
    assert not added.is_repeat
    assert after.epoch > before.epoch
    assert (after.config, after.trimmed_through) == (StreamConfig(), EntryId(0, 0))


async def test_a_new_name_in_another_slot_is_refused(over_cluster: RedisBackend) -> None:
    await over_cluster.perform(Add(S, ENTRY))
    with pytest.raises(NotSupported, match="slot"):
        await over_cluster.perform(RenameStream(S, b"elsewhere"))
    await over_cluster.perform(RenameStream(S, T))
    assert len(await over_cluster.perform(Range(T))) == 1


async def test_side_keys_expire_with_their_stream(backend: RedisBackend, keys: Keys) -> None:
    await backend.perform(CreateStream(S, CONFIG))
    await backend.perform(CommitBatch(b"loader", 3, {S: ENTRY}))
    assert await backend.perform(ExpireStream(S, 1_000_000))
    assert min(map(keys.ttl_ms, of_streams(keys))) > 0
    assert await backend.perform(PersistStream(S))
    assert {keys.ttl_ms(key) for key in of_streams(keys)} == {-1}
    assert await backend.perform(TimeToLive(S)) is None


async def test_a_later_side_key_expires_with_its_stream(backend: RedisBackend, keys: Keys) -> None:
    keys.run("XADD", b"$" + S, "5-0", "n", "1")
    await backend.perform(ExpireStream(S, 1_000_000))
    await backend.perform(Trim(S, TrimTo(max_length=0)))
    await backend.perform(CommitBatch(b"loader", 3, {S: ENTRY}))
    assert min(map(keys.ttl_ms, of_streams(keys))) > 0


TEXT = b"text"


REQUESTS: list[Request[Any]] = [
    *(Add(TEXT, ENTRY), Add(TEXT, ENTRY * 2), Add(TEXT, ENTRY, Idempotent(b"shop", b"1"))),
    *(CommitBatch(b"loader", 1, {TEXT: ENTRY}), Range(TEXT), Read([StreamCursor(TEXT, MIN_ID)])),
    *(Trim(TEXT, TrimTo(max_length=0)), Delete(TEXT, [MIN_ID])),
    *(SplitRange(TEXT, MIN_ID, MAX_ID, 2), CreateStream(TEXT), DescribeStream(TEXT)),
    *(UpdateStream(TEXT, Patch.of(StreamConfig, max_length=1)), ExpireStream(TEXT, 1)),
    *(RenameStream(TEXT, b"other"), DeleteStream(TEXT), RenameStream(b"orders", TEXT)),
]


async def test_a_key_of_another_type_is_left_alone(backend: RedisBackend, keys: Keys) -> None:
    keys.run("SET", b"$" + TEXT, "value")
    for request in REQUESTS:
        await backend.perform(Add(b"orders", ENTRY))
        with pytest.raises(WrongType):
            await backend.perform(request)
    assert await backend.perform(ListNames()) == [b"orders"]
    assert await backend.perform(CountStreams()) == 1
    assert await backend.perform(CountStreams([TEXT, b"orders"])) == 1
    names = NameFilter(frozenset({TEXT, b"orders"}))
    assert await backend.perform(ListNames(names)) == [b"orders"]
    assert await backend.perform(DeleteStreams([TEXT])) == 0
    await backend.perform(DeleteAll())
    assert keys.run("GET", b"$" + TEXT) == b"value"
    assert keys.ttl_ms(b"P:" + TEXT) == -1


ODD = [b"", b"*", b"?[a-z]\\", b"{}", b"{tag}x", b"}{", b"a%7Bb", b"hg:meta", b"\0\xff", b" \r\n"]


async def test_a_stream_may_have_any_name(backend: RedisBackend) -> None:
    for name in ODD:
        await backend.perform(CreateStream(name))
    for name in ODD:
        expected = sorted(each for each in ODD if each.startswith(name))
        shown = NameFilter(frozenset(), (name,))
        assert await backend.perform(ListNames(shown)) == expected
        assert [info.name for info in await backend.perform(ListStreams(name))] == expected
        assert await backend.perform(ListNames(NameFilter(frozenset({name})))) == [name]
    for name in ODD:
        assert await backend.perform(DeleteStream(name))
    assert await backend.perform(ListNames()) == []


@pytest.mark.parametrize("limit", [1, 7, 100])
async def test_lists_of_a_cluster_are_in_order(over_cluster: RedisBackend, limit: int) -> None:
    names = [b"%03d" % number for number in range(40)]
    for name in names:
        await over_cluster.perform(CreateStream(name))
    listed: list[bytes] = []
    while page := await over_cluster.perform(
        ListStreams(after=listed[-1] if listed else None, limit=limit)
    ):
        listed += [info.name for info in page]
    assert listed == names
    scanned, cursor = await over_cluster.perform(ScanNames(0, limit))
    while cursor:
        page_names, cursor = await over_cluster.perform(ScanNames(cursor, limit))
        scanned += page_names
    assert sorted(scanned) == names
