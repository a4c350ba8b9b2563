"""Surprises about streams, one sentence each."""

import pytest
from msgspec.structs import replace

from headgate.engine.config import StreamConfig
from headgate.engine.entry import MAX_ID, MIN_ID, Draft, Entry, EntryId, IdRequest, PartialId
from headgate.engine.errors import GroupNotFound, IdsExhausted, Invalid
from headgate.engine.limits import U64_MAX
from headgate.engine.replies import Outcome
from headgate.engine.requests.deliveries import (
    Autoclaim,
    Claim,
    GroupCursor,
    ListPending,
    Nack,
    NackMode,
    ReadGroup,
)
from headgate.engine.requests.entries import Add, Delete, Range, Read, StreamCursor, Trim, TrimTo
from headgate.engine.requests.groups import GroupStart, ListConsumers
from headgate.engine.requests.streams import CreateStream, DeleteStream, DescribeStream, ListStreams
from headgate.engine.state.defaults import Defaults
from headgate.engine.state.entries.node_limits import NodeLimits
from tests.changes import moved
from tests.unit.driver import Driver, G, S, deliveries, entry_id, numbers

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


async def test_after_the_greatest_id_nothing_can_be_added(engine: Driver) -> None:
    await engine.perform(Add(S, [Draft(MAX_ID, PAIR)]))
    for asked in (None, PartialId(U64_MAX), entry_id(5)):
        with pytest.raises(IdsExhausted):
            await engine.perform(Add(S, [Draft(asked, PAIR)]))


async def test_ids_keep_growing_when_the_clock_steps_back(engine: Driver) -> None:
    first = (await engine.perform(Add(S, [Draft(None, PAIR)]))).ids
    engine.clock.now_ms = 10
    assert (await engine.perform(Add(S, [Draft(None, PAIR)] * 2))).ids == [
        entry_id(1000, 1),
        entry_id(1000, 2),
    ]
    assert first == [entry_id(1000)]


# Adding


@pytest.mark.parametrize("fields", [(), (b"a",), (b"a", b"1", b"b")])
async def test_half_a_pair_is_refused_and_creates_nothing(
    engine: Driver, fields: tuple[bytes, ...]
) -> None:
    with pytest.raises(Invalid, match="a name and a value") as refusal:
        await engine.perform(Add(S, [Draft(None, PAIR), Draft(None, fields)]))
    assert refusal.value.location == ("drafts", 1, "fields")
    assert await engine.perform(ListStreams()) == []


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


# Trimming


@pytest.mark.parametrize(
    ("request_", "kept"),
    [
        (TrimTo(max_length=3), [6, 7, 8]),
        (TrimTo(min_id=entry_id(4)), [4, 5, 6, 7, 8]),
        (TrimTo(max_length=3, approximate=True), [4, 5, 6, 7, 8]),
        (TrimTo(max_length=2, approximate=True), [7, 8]),
        (TrimTo(min_id=entry_id(6), approximate=True), [4, 5, 6, 7, 8]),
        (TrimTo(min_id=entry_id(7), approximate=True), [7, 8]),
        (TrimTo(max_length=0, approximate=True, limit=3), [4, 5, 6, 7, 8]),
        (TrimTo(max_length=0, approximate=True, limit=2), [1, 2, 3, 4, 5, 6, 7, 8]),
        (TrimTo(max_length=0, approximate=True, limit=0), []),
    ],
)
async def test_of_eight_entries_in_chunks_of_three_a_trim_keeps(
    engine: Driver, request_: TrimTo, kept: list[int]
) -> None:
    engine.keyspace.defaults = Defaults(node_limits=NodeLimits(3, 0))
    await engine.put(*range(1, 9))
    assert await engine.perform(Trim(S, request_)) == 8 - len(kept)
    assert await all_ids(engine) == kept
    assert await engine.perform(Trim(S, request_)) == 0 or request_.limit


# Streams and retention


async def test_a_stream_forgets_by_age_on_every_append(engine: Driver) -> None:
    await engine.perform(CreateStream(S, StreamConfig(max_age_ms=100)))
    await engine.put(899, 900, 901)
    assert await all_ids(engine) == [900, 901]
    engine.clock.now_ms = 1_001
    await engine.put(1_001)
    assert await all_ids(engine) == [901, 1_001]


async def test_a_stream_made_again_after_its_deletion_has_a_greater_epoch(engine: Driver) -> None:
    epochs = []
    for _ in range(3):
        await engine.put(1)
        epochs.append((await engine.perform(DescribeStream(S))).epoch)
        engine.clock.now_ms -= 100
        assert await engine.perform(DeleteStream(S))
    assert epochs == sorted(set(epochs))
    assert not await engine.perform(DeleteStream(S))


# Consumers


async def test_idle_counts_attempts_and_inactive_counts_successes(engine: Driver) -> None:
    await engine.start(1, 2)
    await engine.take(limit=1)
    engine.clock.now_ms += 30
    await engine.take(limit=1, no_ack=True)
    engine.clock.now_ms += 5
    (consumer,) = await engine.perform(ListConsumers(S, G))
    assert (consumer.idle_ms, consumer.inactive_ms) == (5, 35)


# Claiming while reading


async def test_a_claiming_read_takes_the_longest_idle_first_then_new_ones(engine: Driver) -> None:
    await engine.start(1, 2, 3, 4)
    await engine.take(b"b", 1)
    engine.clock.now_ms -= 500
    await engine.take(b"c", 1)
    engine.clock.now_ms += 600
    got = deliveries(await engine.take(b"a", claim=50, limit=3))
    assert [(d.id.ms, d.idle_ms, d.delivered_before, d.claimed_from) for d in got] == [
        (2, 600, 1, b"c"),
        (1, 100, 1, b"b"),
        (3, 0, 0, None),
    ]
    held = [(item.id.ms, item.delivery_count, item.idle_ms) for item in await engine.held(b"a")]
    assert held == [(1, 2, 0), (2, 2, 0), (3, 1, 0)]


async def test_a_claiming_read_skips_what_was_deleted_and_leaves_it_pending(
    engine: Driver,
) -> None:
    await engine.start(1, 2)
    await engine.take(b"b")
    await engine.perform(Delete(S, [entry_id(1)]))
    assert numbers(await engine.take(b"a", claim=0)) == [2]
    assert [(item.id.ms, item.consumer) for item in await engine.held()] == [(1, b"b"), (2, b"a")]
    assert numbers(await engine.take(b"b", claim=0)) == [2]


async def test_after_a_step_back_an_entry_can_come_twice_in_one_reply(engine: Driver) -> None:
    await engine.start(1)
    await engine.take(b"b")
    await engine.perform(moved(S, G, GroupStart(MIN_ID)))
    (read,) = await engine.take(b"a", claim=0)
    assert [(delivery.id.ms, delivery.delivered_before) for delivery in read.deliveries] == [
        (1, 1),
        (1, 0),
    ]
    assert read.pending_count == 1
    assert [item.delivery_count for item in await engine.held(b"a")] == [1]


async def test_a_stream_read_as_history_switches_claiming_off_for_those_that_follow(
    engine: Driver,
) -> None:
    for stream in (b"p", b"q"):
        await engine.start(1, stream=stream)
        await engine.take(b"b", streams=(stream,))
    history, claiming = GroupCursor(b"p", MIN_ID), GroupCursor(b"q")
    off = await engine.perform(ReadGroup(G, b"a", [history, claiming], claim_idle_ms=0))
    assert numbers(off) == []
    on = await engine.perform(ReadGroup(G, b"a", [claiming, history], claim_idle_ms=0))
    assert numbers(on) == [1]


# Acknowledging and giving back


async def test_a_read_that_is_refused_has_acknowledged_nothing(engine: Driver) -> None:
    await engine.start(1)
    await engine.take(b"a")
    request = ReadGroup(G, b"a", [GroupCursor(S), GroupCursor(b"missing")])
    with pytest.raises(GroupNotFound):
        await engine.perform(replace(request, acked=[entry_id(1)]))
    assert await engine.held_numbers() == [1]


async def test_nacked_entries_come_before_idle_ones_in_the_order_they_were_given_back(
    engine: Driver,
) -> None:
    await engine.start(1, 2, 3)
    await engine.take(b"a")
    for number in (3, 2, 3):
        await engine.perform(Nack(S, G, [entry_id(number)], mode=NackMode.FAIL))
    engine.clock.now_ms += 100
    assert numbers(await engine.take(b"b", claim=50)) == [2, 3, 1]


async def test_an_id_nacked_twice_in_one_call_is_given_back_twice(engine: Driver) -> None:
    await engine.start(1)
    await engine.take()
    await engine.take(after=MIN_ID)
    outcomes = await engine.perform(Nack(S, G, [entry_id(1)] * 2, mode=NackMode.SILENT))
    assert outcomes == [Outcome.RELEASED] * 2
    assert [item.delivery_count for item in await engine.held()] == [0]


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


# XAUTOCLAIM


async def test_autoclaim_looks_at_ten_entries_for_each_it_may_return(engine: Driver) -> None:
    await engine.start(*range(1, 16))
    await engine.take(b"b")
    page = await engine.perform(Autoclaim(S, G, b"a", min_idle_ms=1, limit=1))
    assert (page.deliveries, page.next_start) == ([], entry_id(11))


# XPENDING


async def test_pending_entries_are_listed_by_id_consumer_and_idle_time(engine: Driver) -> None:
    await engine.start(1, 2, 3)
    await engine.take(b"a", 1)
    engine.clock.now_ms += 20
    await engine.take(b"b", 2)
    await engine.perform(Delete(S, [entry_id(1)]))
    for request, expected in [
        (ListPending(S, G), [1, 2, 3]),
        (ListPending(S, G, start=entry_id(2), limit=1), [2]),
        (ListPending(S, G, end=entry_id(2)), [1, 2]),
        (ListPending(S, G, consumer=b"b"), [2, 3]),
        (ListPending(S, G, consumer=b""), []),
        (ListPending(S, G, min_idle_ms=20), [1]),
        (ListPending(S, G, limit=0), []),
    ]:
        assert [item.id.ms for item in await engine.perform(request)] == expected
    assert [consumer.name for consumer in await engine.perform(ListConsumers(S, G))] == [b"a", b"b"]
