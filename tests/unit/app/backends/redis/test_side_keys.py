"""The side keys of a stream go with it, whoever removes it."""

from __future__ import annotations

import pytest

from headgate.app.backends.redis.backend import RedisBackend
from headgate.engine.config import StreamConfig
from headgate.engine.entry import Draft, EntryId
from headgate.engine.errors import NotSupported
from headgate.engine.requests import keyspace
from headgate.engine.requests.bulk import CommitBatch
from headgate.engine.requests.entries import Add, Range, Trim, TrimTo
from headgate.engine.requests.idempotency import Idempotent
from headgate.engine.requests.streams import CreateStream, DeleteStream, DescribeStream
from tests.unit.app.backends.redis.conftest import Keys

S, T = b"{orders}1", b"{orders}2"
CONFIG = StreamConfig(max_length=2, idempotency_max=7)
KEY = Idempotent(b"shop", b"1")
ENTRY = [Draft(None, (b"n", b"1"))]


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


async def test_a_stream_that_another_client_deleted_begins_anew(
    backend: RedisBackend, keys: Keys
) -> None:
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
        await over_cluster.perform(keyspace.RenameStream(S, b"elsewhere"))
    await over_cluster.perform(keyspace.RenameStream(S, T))
    assert len(await over_cluster.perform(Range(T))) == 1


async def test_side_keys_expire_with_their_stream(backend: RedisBackend, keys: Keys) -> None:
    await backend.perform(CreateStream(S, CONFIG))
    await backend.perform(CommitBatch(b"loader", 3, {S: ENTRY}))
    assert await backend.perform(keyspace.ExpireStream(S, 1_000_000))
    assert min(map(keys.ttl_ms, of_streams(keys))) > 0
    assert await backend.perform(keyspace.PersistStream(S))
    assert {keys.ttl_ms(key) for key in of_streams(keys)} == {-1}
    assert await backend.perform(keyspace.TimeToLive(S)) is None


async def test_a_side_key_that_comes_later_expires_with_its_stream(
    backend: RedisBackend, keys: Keys
) -> None:
    keys.run("XADD", b"$" + S, "5-0", "n", "1")
    await backend.perform(keyspace.ExpireStream(S, 1_000_000))
    await backend.perform(Trim(S, TrimTo(max_length=0)))
    await backend.perform(CommitBatch(b"loader", 3, {S: ENTRY}))
    assert min(map(keys.ttl_ms, of_streams(keys))) > 0
