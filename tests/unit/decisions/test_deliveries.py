"""Decisions about deliveries that the model does not make: outcomes per id."""

import pytest

from engine.decisions.deliveries import GroupCursor, GroupRequest
from engine.decisions.groups import GroupStart
from engine.engine import Engine
from engine.entry import MIN_ID, Draft
from engine.replies import Outcome
from engine.storage import MemoryStorage
from engine.views import PendingRequest


@pytest.fixture
async def engine() -> Engine:
    engine = Engine(MemoryStorage())
    await engine.create_group(b"s", b"g", GroupStart(MIN_ID), create_stream=True)
    return engine


async def test_an_id_acknowledged_twice_in_one_call_counts_once(engine: Engine) -> None:
    [entry_id] = await engine.add(b"s", [Draft(None, (b"k", b"v"))])
    await engine.read_group(GroupRequest(b"g", b"c", [GroupCursor(b"s")]))

    outcomes = await engine.ack(b"s", b"g", [entry_id, entry_id], consumer=b"c")

    assert outcomes == [Outcome.ACKED, Outcome.NOT_PENDING]


async def test_what_is_given_back_is_as_if_it_had_never_been_delivered(engine: Engine) -> None:
    [entry_id] = await engine.add(b"s", [Draft(None, (b"k", b"v"))])
    await engine.read_group(GroupRequest(b"g", b"c", [GroupCursor(b"s")]))

    await engine.give_back(b"s", b"g", b"c", {entry_id: 1})

    [item] = await engine.pending(b"s", b"g", PendingRequest())
    assert (item.consumer, item.delivery_count) == (None, 0)


@pytest.mark.parametrize("consumer", [b"c", b"d"])
async def test_a_delivery_that_was_not_the_last_one_is_not_given_back(
    engine: Engine, consumer: bytes
) -> None:
    [entry_id] = await engine.add(b"s", [Draft(None, (b"k", b"v"))])
    await engine.read_group(GroupRequest(b"g", b"c", [GroupCursor(b"s")]))
    again = GroupRequest(b"g", consumer, [GroupCursor(b"s")], claim_idle_ms=0)
    await engine.read_group(again)

    await engine.give_back(b"s", b"g", b"c", {entry_id: 1})

    [item] = await engine.pending(b"s", b"g", PendingRequest())
    assert (item.consumer, item.delivery_count) == (consumer, 2)


async def test_a_read_may_be_bounded_in_bytes_but_always_brings_one_entry(engine: Engine) -> None:
    ids = await engine.add(b"s", [Draft(None, (b"k", b"x" * 100)) for _ in range(5)])
    request = GroupRequest(b"g", b"c", [GroupCursor(b"s")], size_bytes_max=250)

    sizes = []
    while (read := (await engine.read_group(request))[0]).deliveries:
        sizes.append(len(read.deliveries))
    tiny = await engine.range(b"s", size_bytes_max=1)

    assert sizes == [2, 2, 1]
    assert [entry.id for entry in tiny] == ids[:1]
