"""A key of another type under the name of a stream is neither read nor changed."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.app.backends.redis.backend import RedisBackend
from headgate.engine.config import Patch, StreamConfig
from headgate.engine.entry import MAX_ID, MIN_ID, Draft
from headgate.engine.errors import WrongType
from headgate.engine.requests import Request, streams
from headgate.engine.requests.bulk import CommitBatch, SplitRange
from headgate.engine.requests.entries import Add, Delete, Range, Read, StreamCursor, Trim, TrimTo
from headgate.engine.requests.idempotency import Idempotent
from headgate.engine.requests.keyspace import DeleteAll, DeleteStreams, ExpireStream, RenameStream
from tests.unit.app.backends.redis.conftest import Keys

S = b"text"
ENTRY = [Draft(None, (b"n", b"1"))]


@pytest.mark.parametrize(
    "request_",
    [
        Add(S, ENTRY),
        Add(S, ENTRY * 2),
        Add(S, ENTRY, Idempotent(b"shop", b"1")),
        CommitBatch(b"loader", 1, {S: ENTRY}),
        Range(S),
        Read([StreamCursor(S, MIN_ID)]),
        Trim(S, TrimTo(max_length=0)),
        Delete(S, [MIN_ID]),
        SplitRange(S, MIN_ID, MAX_ID, 2),
        streams.CreateStream(S),
        streams.DescribeStream(S),
        streams.UpdateStream(S, Patch.of(StreamConfig, max_length=1)),
        ExpireStream(S, 1),
        RenameStream(S, b"other"),
    ],
    ids=lambda request: type(request).__name__,
)
async def test_a_request_for_it_is_refused(
    backend: RedisBackend, keys: Keys, request_: Request[Any]
) -> None:
    keys.run("SET", b"$" + S, "value")
    with pytest.raises(WrongType):
        await backend.perform(request_)
    assert keys.run("GET", b"$" + S) == b"value"
    assert keys.ttl_ms(b"P:" + S) == -1


async def test_it_is_not_deleted(backend: RedisBackend, keys: Keys) -> None:
    keys.run("SET", b"$" + S, "value")
    with pytest.raises(WrongType):
        await backend.perform(streams.DeleteStream(S))
    assert await backend.perform(DeleteStreams([S])) == 0
    await backend.perform(DeleteAll())
    await backend.perform(Add(b"orders", ENTRY))
    with pytest.raises(WrongType):
        await backend.perform(RenameStream(b"orders", S))
    assert keys.run("GET", b"$" + S) == b"value"
