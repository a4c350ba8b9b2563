"""Surprises about streams, one sentence each; also when ids come again, as XSETID allows."""

import pytest
from msgspec.structs import replace

from headgate.engine.config import StreamConfig
from headgate.engine.entry import MIN_ID, Draft, Entry, EntryId, IdRequest, PartialId
from headgate.engine.limits import U64_MAX
from headgate.engine.replies import Outcome
from headgate.engine.requests import deliveries, entries
from headgate.engine.requests.groups import ListConsumers
from headgate.engine.requests.keyspace import SetCounters
from headgate.engine.requests.streams import CreateStream
from tests.unit.driver import Driver, G, S, entry_id, numbers

PAIR = (b"f", b"v")


@pytest.fixture
def engine() -> Driver:
    return Driver()


async def all_ids(engine: Driver) -> list[int]:
    return [entry.id.ms for entry in await engine.perform(entries.Range(S))]


# Ids


@pytest.mark.parametrize(
    ("last", "asked", "expected"),
    [
        (entry_id(5), None, entry_id(1000)),
        (entry_id(1000), None, entry_id(1000, 1)),
        (entry_id(2000), None, entry_id(2000, 1)),
        (entry_id(2000, U64_MAX), None, entry_id(2001)),
        (None, PartialId(0), entry_id(0, 1)),
        (None, PartialId(7), entry_id(7)),
        (entry_id(7, 3), PartialId(7), entry_id(7, 4)),
        (entry_id(7, 3), PartialId(8), entry_id(8)),
        (entry_id(7), EntryId(7, 1), entry_id(7, 1)),
    ],
)
async def test_an_entry_gets_the_id_that_redis_would_give_at_1000_ms(
    engine: Driver, last: EntryId | None, asked: IdRequest, expected: EntryId
) -> None:
    if last is not None:
        await engine.perform(entries.Add(S, [Draft(last, PAIR)]))
    assert (await engine.perform(entries.Add(S, [Draft(asked, PAIR)]))).ids == [expected]


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


# XCLAIM

CLAIM = deliveries.Claim(S, G, b"a", [entry_id(1)], min_idle_ms=0)


@pytest.mark.parametrize(
    ("request_", "count", "idle_ms"),
    [
        (CLAIM, 2, 0),
        (replace(CLAIM, just_id=True), 1, 0),
        (replace(CLAIM, retry_count=9), 9, 0),
        (replace(CLAIM, retry_count=9, just_id=True), 9, 0),
        (replace(CLAIM, idle_ms=300), 2, 300),
        (replace(CLAIM, idle_ms=-5), 2, 0),
        (replace(CLAIM, idle_ms=10**9), 2, 0),
        (replace(CLAIM, time_ms=900), 2, 200),
        (replace(CLAIM, time_ms=10**9), 2, 0),
        (replace(CLAIM, min_idle_ms=100), 2, 0),
    ],
)
async def test_a_claim_sets_count_and_time_as_asked(
    engine: Driver, request_: deliveries.Claim, count: int, idle_ms: int
) -> None:
    await engine.start(1)
    await engine.take(b"b")
    engine.clock.now_ms += 100
    claimed = await engine.perform(request_)
    assert [(delivery.idle_ms, delivery.claimed_from) for delivery in claimed.deliveries] == [
        (100, b"b")
    ]
    (item,) = await engine.held(b"a")
    assert (item.delivery_count, item.idle_ms) == (count, idle_ms)


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
