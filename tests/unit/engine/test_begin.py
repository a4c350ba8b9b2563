"""Requests of one decision can be carried out without a coroutine."""

import pytest

from headgate.engine.engine import Engine
from headgate.engine.entry import Draft, EntryId
from headgate.engine.errors import StreamNotFound
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.requests.entries import Add, Delete, From, Range, Read, StreamCursor
from headgate.engine.requests.streams import DescribeStream

S = b"orders"
PAIR = (b"f", b"v")


@pytest.fixture
def engine() -> Engine:
    return Engine(MemoryStorage())


async def test_what_needs_one_decision_can_be_carried_out_at_once(engine: Engine) -> None:
    begun = engine.begin(Add(S, [Draft(None, PAIR)]))
    assert begun is not None
    await engine.until_durable(begun.position)
    assert engine.durable_position >= begun.position
    assert [entry.id for entry in await engine.perform(Range(S))] == begun.reply.ids


async def test_what_may_wait_or_take_long_is_not_begun(engine: Engine) -> None:
    await engine.perform(Add(S, [Draft(None, PAIR)]))
    assert engine.begin(Read([StreamCursor(S, From.NOW)], wait_ms=None)) is None
    assert engine.begin(Add(S, [Draft(None, PAIR)] * 5_000)) is None
    assert engine.begin(Delete(S, [EntryId(number, 0) for number in range(1_000)])) is None
    assert len(await engine.perform(Range(S))) == 1


async def test_what_cannot_be_is_an_error_at_once(engine: Engine) -> None:
    with pytest.raises(StreamNotFound):
        engine.begin(DescribeStream(S))
