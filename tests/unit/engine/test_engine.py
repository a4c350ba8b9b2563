"""Surprises about streams, one sentence each."""

import pytest
from msgspec.structs import replace

from headgate.engine.config import StreamConfig
from headgate.engine.entry import MIN_ID, Draft, Entry, EntryId, IdRequest, PartialId
from headgate.engine.limits import U64_MAX
from headgate.engine.requests.deliveries import (
    Claim,
)
from headgate.engine.requests.entries import Add, Range, Read, StreamCursor
from headgate.engine.requests.groups import ListConsumers
from headgate.engine.requests.streams import CreateStream
from tests.unit.driver import Driver, G, S, entry_id

PAIR = (b"f", b"v")


@pytest.fixture
def engine() -> Driver:
    return Driver()


async def all_ids(engine: Driver) -> list[int]:
    return [entry.id.ms for entry in await engine.perform(Range(S))]


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
        await engine.perform(Add(S, [Draft(last, PAIR)]))
    assert (await engine.perform(Add(S, [Draft(asked, PAIR)]))).ids == [expected]


# Adding


async def test_those_who_follow_two_streams_in_turn_share_what_is_read(engine: Driver) -> None:
    streams = (b"one", b"other")
    for name in streams:
        await engine.put(1, 2, stream=name)

    async def batch(name: bytes) -> list[Entry]:
        [read] = await engine.perform(Read([StreamCursor(name, MIN_ID)], size_bytes_max=1_000))
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

CLAIM = Claim(S, G, b"a", [entry_id(1)], min_idle_ms=0)


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
    engine: Driver, request_: Claim, count: int, idle_ms: int
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
