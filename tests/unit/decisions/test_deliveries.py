"""Decisions about deliveries that the model does not make: outcomes per id."""

import pytest

from engine.decisions.deliveries import GroupCursor, GroupRequest
from engine.decisions.groups import GroupStart
from engine.engine import Engine
from engine.entry import MIN_ID, Draft
from engine.replies import Outcome
from engine.storage import MemoryStorage


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
