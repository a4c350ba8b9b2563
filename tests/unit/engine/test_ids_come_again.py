"""XSETID can lower a stream's last id, and then ids of entries that are gone come again."""

import pytest

from headgate.engine.decisions import Decision, streams
from headgate.engine.entry import MIN_ID
from headgate.engine.replies import Outcome
from headgate.engine.requests import NackMode, References, TrimRequest
from headgate.engine.state.keyspace import Keyspace
from tests.unit.driver import Driver, G, S, entry_id, numbers


@pytest.fixture
def engine() -> Driver:
    return Driver()


async def lower_last_id(engine: Driver, ms: int) -> None:
    def step(keyspace: Keyspace, _: int) -> Decision[None]:
        return streams.set_stream(keyspace, S, entry_id(ms), None, MIN_ID)

    await engine.perform(step)


async def test_an_entry_under_an_id_that_came_again_can_be_deleted(engine: Driver) -> None:
    await engine.start(1, 2, 3)
    await engine.take(b"a")
    await engine.ack(S, G, [entry_id(2), entry_id(3)])
    await engine.trim(S, TrimRequest(max_length=0, references=References.ACKED))
    await lower_last_id(engine, 1)
    await engine.put(2, 4)
    assert [entry.id.ms for entry in await engine.range(S)] == [1, 2, 4]
    await engine.delete(S, [entry_id(2)])
    assert [entry.id.ms for entry in await engine.range(S)] == [1, 4]


async def test_a_pending_entry_whose_id_came_again_can_be_claimed(engine: Driver) -> None:
    await engine.start(1, 2)
    await engine.take(b"a")
    await engine.trim(S, TrimRequest(max_length=0))
    assert numbers(await engine.take(b"b", claim=0)) == []  # gone, so there is nothing to take
    await lower_last_id(engine, 0)
    await engine.put(1, 2)
    assert numbers(await engine.take(b"b", claim=0)) == [1, 2]


async def test_nobodys_entries_whose_ids_came_again_keep_the_order_of_their_release(
    engine: Driver,
) -> None:
    await engine.start(1, 2)
    await engine.take(b"a")
    for ms in (2, 1):
        [outcome] = await engine.nack(S, G, [entry_id(ms)], mode=NackMode.FAIL)
        assert outcome is Outcome.RELEASED
    await engine.trim(S, TrimRequest(max_length=0))
    await engine.take(b"b", claim=0)
    await lower_last_id(engine, 0)
    await engine.put(1, 2)
    assert numbers(await engine.take(b"b", claim=0)) == [2, 1]
