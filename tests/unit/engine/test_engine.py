"""Surprises about streams, one sentence each; also when ids come again, as XSETID allows."""

import pytest

from headgate.engine.config import StreamConfig
from headgate.engine.entry import MIN_ID, Entry
from headgate.engine.replies import Outcome
from headgate.engine.requests import deliveries, entries
from headgate.engine.requests.groups import ListConsumers
from headgate.engine.requests.keyspace import SetCounters
from headgate.engine.requests.streams import CreateStream
from tests.unit.driver import Driver, G, S, entry_id, numbers


@pytest.fixture
def engine() -> Driver:
    return Driver()


async def all_ids(engine: Driver) -> list[int]:
    return [entry.id.ms for entry in await engine.perform(entries.Range(S))]


# Adding


async def test_those_who_follow_two_streams_in_turn_share_what_is_read(engine: Driver) -> None:
    streams = (b"one", b"other")
    for name in streams:
        await engine.put(1, 2, stream=name)

    async def batch(name: bytes) -> list[Entry]:
        [read] = await engine.perform(
            entries.Read([entries.StreamCursor(name, MIN_ID)], size_bytes_max=1_000)
        )
        return read.entries

    first = [await batch(name) for name in streams]
    again = [await batch(name) for name in streams]
    assert [item is other for item, other in zip(first, again, strict=True)] == [True, True]


# Streams and retention


async def test_a_stream_forgets_by_age_on_every_append(engine: Driver) -> None:
    await engine.perform(CreateStream(S, StreamConfig(max_age_ms=100)))
    await engine.put(899, 900, 901)
    assert await all_ids(engine) == [900, 901]
    engine.clock.now_ms = 1_001
    await engine.put(1_001)
    assert await all_ids(engine) == [901, 1_001]


# Consumers


async def test_idle_counts_attempts_and_inactive_counts_successes(engine: Driver) -> None:
    await engine.start(1, 2)
    await engine.take(limit=1)
    engine.clock.now_ms += 30
    await engine.take(limit=1, no_ack=True)
    engine.clock.now_ms += 5
    (consumer,) = await engine.perform(ListConsumers(S, G))
    assert (consumer.idle_ms, consumer.inactive_ms) == (5, 35)


# Ids that come again


async def lower_last_id(engine: Driver, ms: int) -> None:
    await engine.perform(SetCounters(S, entry_id(ms)))


async def test_an_entry_under_an_id_that_came_again_can_be_deleted(engine: Driver) -> None:
    await engine.start(1, 2, 3)
    await engine.take(b"a")
    await engine.perform(deliveries.Ack(S, G, [entry_id(2), entry_id(3)]))
    await engine.perform(
        entries.Trim(S, entries.TrimTo(max_length=0, references=entries.References.ACKED))
    )
    await lower_last_id(engine, 1)
    await engine.put(2, 4)
    assert [entry.id.ms for entry in await engine.perform(entries.Range(S))] == [1, 2, 4]
    await engine.perform(entries.Delete(S, [entry_id(2)]))
    assert [entry.id.ms for entry in await engine.perform(entries.Range(S))] == [1, 4]


async def test_a_pending_entry_whose_id_came_again_can_be_claimed(engine: Driver) -> None:
    await engine.start(1, 2)
    await engine.take(b"a")
    await engine.perform(entries.Trim(S, entries.TrimTo(max_length=0)))
    assert numbers(await engine.take(b"b", claim=0)) == []  # gone, so there is nothing to take
    await lower_last_id(engine, 0)
    await engine.put(1, 2)
    assert numbers(await engine.take(b"b", claim=0)) == [1, 2]


async def test_nobodys_entries_whose_ids_came_again_keep_their_order(engine: Driver) -> None:
    await engine.start(1, 2)
    await engine.take(b"a")
    for ms in (2, 1):
        [outcome] = await engine.perform(
            deliveries.Nack(S, G, [entry_id(ms)], mode=deliveries.NackMode.FAIL)
        )
        assert outcome is Outcome.RELEASED
    await engine.perform(entries.Trim(S, entries.TrimTo(max_length=0)))
    await engine.take(b"b", claim=0)
    await lower_last_id(engine, 0)
    await engine.put(1, 2)
    assert numbers(await engine.take(b"b", claim=0)) == [2, 1]
