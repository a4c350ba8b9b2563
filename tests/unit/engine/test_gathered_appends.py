"""Appends of one turn of the loop are decided together, and nobody can tell."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from headgate.engine.config import StreamConfig
from headgate.engine.eager import EagerCall
from headgate.engine.engine import Engine
from headgate.engine.entry import Draft
from headgate.engine.errors import Invalid
from headgate.engine.journal.journal import Journal
from headgate.engine.journal.writer import FsyncPolicy
from headgate.engine.limits import SERVED_AT_ONCE_MAX
from headgate.engine.replies import Added
from headgate.engine.requests.entries import Add, From, Range, Read, StreamCursor
from headgate.engine.requests.streams import CreateStream
from tests.journals.memory_disk import MemoryDisk
from tests.journals.slow_storage import SlowStorage

S, OTHER = b"orders", b"returns"


def plain(value: bytes, stream: bytes = S) -> Add:
    return Add(stream, [Draft(None, (b"v", value))])


async def no_rewrites(through: int, _: object) -> None:
    del through


@pytest.fixture
def journal() -> Journal:
    return Journal(MemoryDisk(), FsyncPolicy.EVERYSEC, no_rewrites)


@pytest.fixture
async def engine(journal: Journal) -> AsyncIterator[Engine]:
    engine = Engine(journal)
    running = asyncio.create_task(engine.run())
    yield engine
    await engine.close()
    await running


async def values_in(engine: Engine, stream: bytes = S) -> list[bytes]:
    return [entry.fields[1] for entry in await engine.perform(Range(stream))]


async def test_appends_at_once_keep_order_and_have_own_ids(
    engine: Engine, journal: Journal
) -> None:
    await engine.perform(plain(b"first"))
    before = journal.position
    wanted = [plain(b"%d" % number, (S, OTHER)[number % 2]) for number in range(250)]
    replies = await asyncio.gather(*map(engine.perform, wanted))
    assert journal.position - before < 10  # records
    for stream, numbers in ((S, range(0, 250, 2)), (OTHER, range(1, 250, 2))):
        entries = (await engine.perform(Range(stream)))[-125:]
        assert [entry.fields[1] for entry in entries] == [b"%d" % number for number in numbers]
        assert [[entry.id] for entry in entries] == [replies[number].ids for number in numbers]


async def test_large_entries_are_records_of_their_own(engine: Engine, journal: Journal) -> None:
    await engine.perform(plain(b"first"))
    before = journal.position
    large = [bytes([number]) * 200_000 for number in range(3)]
    await asyncio.gather(*(engine.perform(plain(value)) for value in large))
    assert journal.position - before == len(large)
    assert (await values_in(engine))[1:] == large


async def test_what_is_asked_for_later_comes_later(engine: Engine) -> None:
    appending = asyncio.create_task(engine.perform(plain(b"1")))
    counting = asyncio.create_task(engine.perform(Range(S)))
    keyed = asyncio.create_task(
        engine.perform(Add(S, [Draft(None, (b"v", b"2")), Draft(None, (b"v", b"3"))]))
    )
    again = asyncio.create_task(engine.perform(plain(b"4")))
    await asyncio.gather(appending, keyed, again)
    assert [entry.fields[1] for entry in await counting] == [b"1"]
    assert await values_in(engine) == [b"1", b"2", b"3", b"4"]


async def test_one_that_cannot_be_fails_alone(engine: Engine) -> None:
    await engine.perform(plain(b"0"))
    bad = Add(S, [Draft(None, (b"a name without a value",))])
    outcomes = await asyncio.gather(
        *map(engine.perform, [plain(b"1"), bad, plain(b"2")]), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [Added, Invalid, Added]
    assert await values_in(engine) == [b"0", b"1", b"2"]


async def test_a_read_that_waits_sees_what_is_trimmed_in_the_same_turn(engine: Engine) -> None:
    await engine.perform(CreateStream(S, StreamConfig(max_length=1)))
    waiting = asyncio.create_task(engine.perform(Read([StreamCursor(S, From.NOW)], wait_ms=None)))
    await asyncio.sleep(0)
    await asyncio.gather(*(engine.perform(plain(b"%d" % number)) for number in range(3)))
    [read] = await waiting
    assert [entry.fields[1] for entry in read.entries] == [b"0"]
    assert await values_in(engine) == [b"2"]


async def test_an_append_whose_caller_has_gone_is_made_or_not(engine: Engine) -> None:
    going = asyncio.create_task(engine.perform(plain(b"1")))
    await asyncio.sleep(0)
    going.cancel()
    await engine.perform(plain(b"2"))
    assert (await values_in(engine))[-1] == b"2"
    with pytest.raises(asyncio.CancelledError):
        await going


async def test_those_of_many_turns_that_wait_for_one_sync_are_answered_in_turns() -> None:
    storage = SlowStorage()
    engine = Engine(storage)
    ended: list[EagerCall] = []

    async def append() -> None:
        await engine.perform(plain(b"v"))

    for _ in range(20):
        for _ in range(20):
            EagerCall(append(), ended.append).start()
        await asyncio.sleep(0)
    storage.settle()
    steps = []
    while len(ended) < 400:
        before = len(ended)
        await asyncio.sleep(0)
        steps.append(len(ended) - before)
    assert max(steps) == SERVED_AT_ONCE_MAX
