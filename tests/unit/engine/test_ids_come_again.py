"""XSETID can lower a stream's last id, and then ids of entries that are gone come again."""

import pytest

from headgate.engine.replies import Outcome
from headgate.engine.requests.deliveries import Ack, Nack, NackMode
from headgate.engine.requests.entries import Delete, Range, References, Trim, TrimTo
from headgate.engine.requests.keyspace import SetCounters
from tests.unit.driver import Driver, G, S, entry_id, numbers


@pytest.fixture
def engine() -> Driver:
    return Driver()


async def lower_last_id(engine: Driver, ms: int) -> None:
    await engine.perform(SetCounters(S, entry_id(ms)))


async def test_an_entry_under_an_id_that_came_again_can_be_deleted(engine: Driver) -> None:
    await engine.start(1, 2, 3)
    await engine.take(b"a")
    await engine.perform(Ack(S, G, [entry_id(2), entry_id(3)]))
    await engine.perform(Trim(S, TrimTo(max_length=0, references=References.ACKED)))
    await lower_last_id(engine, 1)
    await engine.put(2, 4)
    assert [entry.id.ms for entry in await engine.perform(Range(S))] == [1, 2, 4]
    await engine.perform(Delete(S, [entry_id(2)]))
    assert [entry.id.ms for entry in await engine.perform(Range(S))] == [1, 4]


async def test_a_pending_entry_whose_id_came_again_can_be_claimed(engine: Driver) -> None:
    await engine.start(1, 2)
    await engine.take(b"a")
    await engine.perform(Trim(S, TrimTo(max_length=0)))
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
        [outcome] = await engine.perform(Nack(S, G, [entry_id(ms)], mode=NackMode.FAIL))
        assert outcome is Outcome.RELEASED
    await engine.perform(Trim(S, TrimTo(max_length=0)))
    await engine.take(b"b", claim=0)
    await lower_last_id(engine, 0)
    await engine.put(1, 2)
    assert numbers(await engine.take(b"b", claim=0)) == [2, 1]
