"""A stream that has the name of a deleted one tells the readers of that one what they missed."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.engine.config import StreamConfig
from headgate.engine.engine import Engine
from headgate.engine.entry import Draft
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.limits import PACKED_COUNT_MIN
from headgate.engine.replies import Gap
from headgate.engine.requests import Request
from headgate.engine.requests.bulk import CommitBatch
from headgate.engine.requests.entries import Add, Read, StreamCursor
from headgate.engine.requests.keyspace import (
    CopyStream,
    DeleteAll,
    DeleteStreams,
    ExpireStream,
    RenameStream,
)
from headgate.engine.requests.streams import CreateStream, DeleteStream
from headgate.engine.state import keyspace
from tests.unit.driver import Driver, S, entry_id
from tests.unit.engine.journal.test_snapshot import again

MISSED = Gap(entry_id(1), entry_id(3))
NEW = b"new"

ENDS: dict[str, list[Request[Any]]] = {
    "deleted": [DeleteStream(S)],
    "deleted among others": [DeleteStreams([S, b"none"])],
    "expired": [ExpireStream(S, 0)],
    "deleted with all others": [DeleteAll()],
    "renamed": [RenameStream(S, b"old")],
    "deleted twice": [DeleteStream(S), CreateStream(S, StreamConfig()), DeleteStream(S)],
}


async def gap_of(engine: Engine, after: int, stream: bytes = S) -> Gap | None:
    [read] = await engine.perform(Read([StreamCursor(stream, entry_id(after))]))
    return read.gap


@pytest.mark.parametrize("ends", ENDS.values(), ids=ENDS)
async def test_a_reader_is_told_what_a_deleted_stream_had(ends: list[Request[Any]]) -> None:
    engine = Driver()
    await engine.put(1, 2, 3)
    for request in ends:
        await engine.perform(request)
    await engine.put(5, 6)

    assert await gap_of(engine, 1) == MISSED
    assert [await gap_of(engine, after) for after in (0, 3, 4, 5)] == [None] * 4


@pytest.mark.parametrize("make", [RenameStream(NEW, S), CopyStream(NEW, S, replace=True)])
async def test_what_takes_the_place_of_a_stream_succeeds_it(make: Request[Any]) -> None:
    engine = Driver()
    await engine.put(1, 2, 3)
    await engine.put(7, stream=NEW)
    assert await engine.perform(make)
    assert await gap_of(engine, 1) == MISSED


async def test_ids_that_come_again_are_of_the_new_stream() -> None:
    engine = Driver()
    await engine.put(1, 2, 3)
    await engine.perform(DeleteStream(S))
    await engine.put(2, 9)
    assert await gap_of(engine, 1) is None


ONE = Draft(None, (b"n", b"1"))
APPENDS: dict[str, Request[Any]] = {
    "appended": Add(S, [ONE]),
    "packed": Add(S, [ONE] * PACKED_COUNT_MIN),
    "committed": CommitBatch(b"w", 1, {S: [ONE]}),
    "committed, packed": CommitBatch(b"w", 1, {S: [ONE] * PACKED_COUNT_MIN}),
}


@pytest.mark.parametrize("append", APPENDS.values(), ids=APPENDS)
async def test_generated_ids_do_not_come_again_within_a_millisecond(append: Request[Any]) -> None:
    engine = Driver()
    [first, unread] = [(await engine.perform(Add(S, [ONE]))).ids[0] for _ in range(2)]
    await engine.perform(DeleteStream(S))
    await engine.perform(append)
    assert engine.keyspace.streams[S].log.first_id == unread.next()
    [read] = await engine.perform(Read([StreamCursor(S, first)]))
    assert read.gap == Gap(first, unread)


async def test_it_is_remembered_by_a_snapshot() -> None:
    engine = Driver()
    await engine.put(1, 2, 3)
    await engine.put(1, 2, 3, stream=NEW)
    await engine.perform(DeleteStreams([S, NEW]))
    await engine.put(5)
    copy = Engine(MemoryStorage(), keyspace=again(engine.keyspace))
    await copy.perform(Add(NEW, [Draft(entry_id(5), (b"n", b"5"))]))
    assert await gap_of(copy, 1) == await gap_of(copy, 1, NEW) == MISSED


async def test_those_deleted_first_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyspace, "FORMER_STREAMS_MAX", 2)
    engine = Driver()
    names = [b"a", b"b", b"c"]
    for name in [*names, b"a"]:
        await engine.put(1, 2, 3, stream=name)
        await engine.perform(DeleteStream(name))
    for name in names:
        await engine.put(5, stream=name)
    assert [await gap_of(engine, 1, name) for name in names] == [MISSED, None, MISSED]
