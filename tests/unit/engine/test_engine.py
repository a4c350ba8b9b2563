"""Surprises about streams, one sentence each."""

import pytest
from msgspec.structs import replace

from headgate.engine.config import GroupPolicy, StreamConfig
from headgate.engine.entry import MAX_ID, MIN_ID, Draft, Entry, EntryId, IdRequest, PartialId
from headgate.engine.errors import (
    GroupExists,
    GroupNotFound,
    IdNotGreater,
    IdsExhausted,
    Invalid,
    LastIdMismatch,
    StreamExists,
    StreamNotFound,
)
from headgate.engine.limits import COUNT_MAX, U64_MAX
from headgate.engine.replies import Deletion, Gap, GroupState, Outcome, PendingSummary
from headgate.engine.requests.deliveries import (
    Ack,
    Autoclaim,
    Claim,
    Extend,
    GroupCursor,
    ListPending,
    Nack,
    NackMode,
    ReadGroup,
    SumPending,
)
from headgate.engine.requests.entries import (
    Add,
    Delete,
    From,
    Range,
    Read,
    StreamCursor,
    Trim,
    TrimTo,
)
from headgate.engine.requests.groups import (
    CreateConsumer,
    CreateGroup,
    DeleteConsumer,
    DescribeGroup,
    DestroyGroup,
    GroupStart,
    ListConsumers,
    ListGroups,
)
from headgate.engine.requests.streams import CreateStream, DeleteStream, DescribeStream, ListStreams
from headgate.engine.state.defaults import Defaults
from headgate.engine.state.entries.node_limits import NodeLimits
from tests.changes import configured, moved
from tests.lengths import length_of
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


@pytest.mark.parametrize(
    ("last", "asked"),
    [
        (entry_id(7, 3), entry_id(7, 3)),
        (entry_id(7, 3), entry_id(7, 2)),
        (entry_id(7, 3), PartialId(6)),
        (entry_id(7, U64_MAX), PartialId(7)),
        (entry_id(7, 3), MIN_ID),
    ],
)
async def test_an_id_that_is_not_above_the_last_is_refused(
    engine: Driver, last: EntryId, asked: IdRequest
) -> None:
    await engine.perform(Add(S, [Draft(last, PAIR)]))
    with pytest.raises(IdNotGreater, match="not above") as refusal:
        await engine.perform(Add(S, [Draft(None, PAIR), Draft(asked, PAIR)]))
    assert refusal.value.location == ("drafts", 1, "id")
    assert refusal.value.wanted == asked
    assert await length_of(engine, S) == 1


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


async def test_the_last_id_survives_emptiness(engine: Driver) -> None:
    await engine.put(5)
    assert await engine.perform(Delete(S, [entry_id(5)])) == [Deletion.DELETED]
    with pytest.raises(IdNotGreater):
        await engine.put(5)
    info = await engine.perform(DescribeStream(S))
    assert (info.length, info.last_id, info.first_id) == (0, entry_id(5), MIN_ID)


# Adding


async def test_fields_keep_their_order_and_their_repeats(engine: Driver) -> None:
    fields = (b"b", b"1", b"a", b"2", b"b", b"3", b"", b"\xff")
    await engine.perform(Add(S, [Draft(None, fields)]))
    assert await engine.perform(Range(S)) == [Entry(entry_id(1000), fields)]


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


async def test_without_leave_to_create_a_missing_stream_stays_missing(engine: Driver) -> None:
    with pytest.raises(StreamNotFound):
        await engine.perform(Add(S, [Draft(None, PAIR)], create_stream=False))
    assert await engine.perform(ListStreams()) == []


async def test_a_writer_who_expects_another_last_id_is_told_what_it_is(engine: Driver) -> None:
    await engine.perform(Add(S, [Draft(entry_id(1), PAIR)], expected_last_id=MIN_ID))
    with pytest.raises(LastIdMismatch) as refusal:
        await engine.perform(Add(S, [Draft(entry_id(2), PAIR)], expected_last_id=MIN_ID))
    assert (refusal.value.expected, refusal.value.last_id) == (MIN_ID, entry_id(1))
    assert await all_ids(engine) == [1]


@pytest.mark.parametrize(
    "trim",
    [
        TrimTo(max_length=0),
        TrimTo(min_id=MAX_ID),
        TrimTo(max_length=0, approximate=True),
    ],
)
async def test_trimming_runs_after_the_append_and_may_take_the_new_entry(
    engine: Driver, trim: TrimTo
) -> None:
    await engine.put(1, 2)
    assert (await engine.perform(Add(S, [Draft(entry_id(3), PAIR)], trim=trim))).ids == [
        entry_id(3)
    ]
    assert await length_of(engine, S) == 0
    assert (await engine.perform(DescribeStream(S))).last_id == entry_id(3)


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


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (TrimTo(max_length=5, limit=3), "limit"),
        (TrimTo(max_length=5, limit=0), "limit"),
        (TrimTo(max_length=5, limit=-1, approximate=True), "limit"),
        (TrimTo(max_length=-1), "max_length"),
        (TrimTo(max_length=1, min_id=MIN_ID), "min_id"),
        (TrimTo(), "max_length"),
    ],
)
async def test_a_trim_that_contradicts_itself_is_refused_also_on_a_missing_stream(
    engine: Driver, request_: TrimTo, field: str
) -> None:
    with pytest.raises(Invalid) as refusal:
        await engine.perform(Trim(S, request_))
    assert refusal.value.location == (field,)
    with pytest.raises(Invalid):
        await engine.perform(Add(S, [Draft(None, PAIR)], trim=request_))
    assert await engine.perform(ListStreams()) == []


async def test_a_missing_stream_cannot_be_trimmed_and_nothing_can_be_deleted_from_it(
    engine: Driver,
) -> None:
    with pytest.raises(StreamNotFound):
        await engine.perform(Trim(S, TrimTo(max_length=0)))
    with pytest.raises(StreamNotFound):
        await engine.perform(Delete(S, [entry_id(1)]))
    assert await length_of(engine, S) == 0


async def test_an_id_named_twice_is_deleted_once(engine: Driver) -> None:
    await engine.put(1, 2)
    outcomes = await engine.perform(Delete(S, [entry_id(1), entry_id(1), entry_id(9)]))
    assert outcomes == [Deletion.DELETED, Deletion.NOT_FOUND, Deletion.NOT_FOUND]


# Streams and retention


async def test_a_stream_is_made_once_and_refused_with_another_configuration(
    engine: Driver,
) -> None:
    config = StreamConfig(max_length=5)
    assert (await engine.perform(CreateStream(S, config))).is_new
    assert not (await engine.perform(CreateStream(S, config))).is_new
    with pytest.raises(StreamExists):
        await engine.perform(CreateStream(S, StreamConfig()))


async def test_a_stream_keeps_the_number_of_entries_it_is_configured_for(engine: Driver) -> None:
    await engine.perform(CreateStream(S, StreamConfig(max_length=2)))
    await engine.put(1, 2, 3)
    assert await all_ids(engine) == [2, 3]
    await engine.perform(configured(S, StreamConfig(max_length=1)))
    assert await all_ids(engine) == [3]


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


async def test_streams_are_listed_in_byte_order_page_by_page(engine: Driver) -> None:
    for name in (b"b", b"a2", b"a", b"\xff", b"a1"):
        await engine.put(1, stream=name)
    names = [info.name for info in await engine.perform(ListStreams(prefix=b"a", limit=2))]
    assert names == [b"a", b"a1"]
    after = await engine.perform(ListStreams(prefix=b"a", after=b"a1", limit=2))
    assert [info.name for info in after] == [b"a2"]
    assert [info.name for info in await engine.perform(ListStreams(after=b"a2"))] == [b"b", b"\xff"]


# Reading


async def test_ranges_include_both_bounds_and_are_empty_the_wrong_way_round(
    engine: Driver,
) -> None:
    await engine.put(1, 2, 3, 4)
    low, high = entry_id(2), entry_id(3)
    assert [entry.id for entry in await engine.perform(Range(S, low, high))] == [low, high]
    assert [
        entry.id for entry in await engine.perform(Range(S, end=high, start=low, reverse=True))
    ] == [high, low]
    assert await engine.perform(Range(S, high, low)) == []
    assert await engine.perform(Range(S, end=low, start=high, reverse=True)) == []
    assert [entry.id.ms for entry in await engine.perform(Range(S, reverse=True, limit=2))] == [
        4,
        3,
    ]


async def test_a_read_is_strictly_after_its_cursor(engine: Driver) -> None:
    await engine.put(1, 2, 3)
    (read,) = await engine.perform(Read([StreamCursor(S, entry_id(1))], limit=1))
    assert [entry.id.ms for entry in read.entries] == [2]
    assert (read.next_after, read.last_id) == (entry_id(2), entry_id(3))


async def test_plus_reads_the_last_live_entry_whatever_the_limit(engine: Driver) -> None:
    await engine.put(1, 2, 3)
    await engine.perform(Delete(S, [entry_id(3)]))
    assert await engine.follow(after=From.LAST, wait_ms=0, limit=5) == [(S, [2])]


async def test_the_same_stream_named_twice_is_answered_twice(engine: Driver) -> None:
    await engine.put(1)
    assert await engine.follow(S, S, after=MIN_ID, wait_ms=0) == [(S, [1]), (S, [1])]


async def test_a_missing_stream_fails_the_read_unless_it_may_be_missing(engine: Driver) -> None:
    await engine.put(1)
    with pytest.raises(StreamNotFound) as refusal:
        await engine.follow(S, b"missing", after=MIN_ID, wait_ms=0)
    assert refusal.value.stream == b"missing"
    reads = await engine.follow(S, b"missing", after=MIN_ID, wait_ms=0, missing_ok=True)
    assert reads == [(S, [1])]


@pytest.mark.parametrize(
    ("after", "gap"),
    [
        (entry_id(1), Gap(entry_id(1), entry_id(3))),
        (entry_id(3), None),
        (entry_id(4), None),
        (MIN_ID, None),
    ],
)
async def test_a_reader_overtaken_by_a_trim_is_told_what_it_missed(
    engine: Driver, after: EntryId, gap: Gap | None
) -> None:
    await engine.put(1, 2, 3, 4, 5)
    await engine.perform(Trim(S, TrimTo(max_length=2)))
    (read,) = await engine.perform(Read([StreamCursor(S, after)]))
    assert read.gap == gap


async def test_entries_deleted_before_a_trim_are_not_missed(engine: Driver) -> None:
    await engine.put(1, 2, 3)
    await engine.perform(Delete(S, [entry_id(3)]))
    await engine.perform(Trim(S, TrimTo(min_id=entry_id(9))))
    (read,) = await engine.perform(Read([StreamCursor(S, entry_id(2))]))
    assert read.gap is None


# Groups


async def test_a_group_needs_a_stream_and_a_free_name(engine: Driver) -> None:
    with pytest.raises(StreamNotFound):
        await engine.perform(CreateGroup(S, G, GroupStart(None)))
    await engine.perform(CreateGroup(S, G, GroupStart(None), create_stream=True))
    with pytest.raises(GroupExists, match="has a group"):
        await engine.perform(
            CreateGroup(S, G, GroupStart(None), policy=GroupPolicy(on_disconnect=True))
        )
    assert not (await engine.perform(CreateGroup(S, G, GroupStart(MIN_ID)))).is_new
    assert (await engine.perform(DescribeStream(S))).length == 0


async def test_every_group_command_says_which_group_of_which_stream_is_missing(
    engine: Driver,
) -> None:
    await engine.put(1)
    for stream in (S, b"missing"):
        with pytest.raises(GroupNotFound, match=r"there is no stream|has no group") as refusal:
            await engine.take(streams=(stream,))
        assert (refusal.value.stream, refusal.value.group) == (stream, G)
        with pytest.raises(GroupNotFound):
            await engine.perform(moved(stream, G, GroupStart(None)))
    with pytest.raises(StreamNotFound):
        await engine.perform(DestroyGroup(b"missing", G))
    assert not await engine.perform(DestroyGroup(S, G))


async def test_a_read_of_several_streams_serves_nothing_when_one_group_is_missing(
    engine: Driver,
) -> None:
    await engine.start(1, 2)
    await engine.put(1, stream=b"t")
    with pytest.raises(GroupNotFound):
        await engine.take(streams=(S, b"t"))
    assert await engine.perform(ListConsumers(S, G)) == []


async def test_listings_are_in_byte_order_of_the_names(engine: Driver) -> None:
    await engine.put(1)
    for name in (b"z", b"", b"\xff", b"A"):
        await engine.perform(CreateGroup(S, name, GroupStart(None)))
        await engine.perform(CreateConsumer(S, b"z", name))
    assert [group.name for group in await engine.perform(ListGroups(S))] == [
        b"",
        b"A",
        b"z",
        b"\xff",
    ]
    names = [consumer.name for consumer in await engine.perform(ListConsumers(S, b"z"))]
    assert names == [b"", b"A", b"z", b"\xff"]


async def test_moving_a_group_back_delivers_again_with_a_fresh_count_to_the_new_reader(
    engine: Driver,
) -> None:
    await engine.start(1, 2)
    await engine.take(b"a")
    await engine.take(b"a", after=MIN_ID)
    await engine.perform(moved(S, G, GroupStart(MIN_ID)))
    assert await engine.held_numbers(b"a") == [1, 2]
    assert numbers(await engine.take(b"b")) == [1, 2]
    assert [(item.consumer, item.delivery_count) for item in await engine.held()] == [
        (b"b", 1),
        (b"b", 1),
    ]


async def test_a_group_that_starts_in_the_future_gets_nothing_until_ids_pass_it(
    engine: Driver,
) -> None:
    await engine.start(1, after=entry_id(5))
    await engine.put(4)
    assert numbers(await engine.take()) == []
    await engine.put(6)
    assert numbers(await engine.take()) == [6]


# Consumers


async def test_a_read_that_finds_nothing_still_creates_the_consumer(engine: Driver) -> None:
    await engine.start(1, after=None)
    (read,) = await engine.take()
    assert (read.served, read.state) == (False, GroupState.CAUGHT_UP)
    (consumer,) = await engine.perform(ListConsumers(S, G))
    assert (consumer.name, consumer.inactive_ms) == (b"a", None)


async def test_idle_counts_attempts_and_inactive_counts_successes(engine: Driver) -> None:
    await engine.start(1, 2)
    await engine.take(limit=1)
    engine.clock.now_ms += 30
    await engine.take(limit=1, no_ack=True)
    engine.clock.now_ms += 5
    (consumer,) = await engine.perform(ListConsumers(S, G))
    assert (consumer.idle_ms, consumer.inactive_ms) == (5, 35)


async def test_dropping_a_consumer_loses_what_it_held_and_releasing_does_not(
    engine: Driver,
) -> None:
    await engine.start(1, 2, 3)
    await engine.take(b"a", 1)
    await engine.take(b"b", 1)
    assert await engine.perform(DeleteConsumer(S, G, b"a", release=False)) == 1
    assert await engine.perform(DeleteConsumer(S, G, b"b", release=True)) == 1
    assert await engine.perform(DeleteConsumer(S, G, b"b", release=True)) is None
    assert [(item.id.ms, item.consumer) for item in await engine.held()] == [(2, None)]
    assert numbers(await engine.take(b"c", claim=10**9)) == [2, 3]


# History


async def test_history_answers_at_once_and_counts_as_a_delivery(engine: Driver) -> None:
    await engine.start(1, 2, 3)
    await engine.take(limit=2)
    engine.clock.now_ms += 40
    (read,) = await engine.take(after=MIN_ID, wait_ms=None)
    assert [
        (delivery.id.ms, delivery.idle_ms, delivery.delivered_before)
        for delivery in read.deliveries
    ] == [
        (1, 40, 1),
        (2, 40, 1),
    ]
    assert [(item.idle_ms, item.delivery_count) for item in await engine.held()] == [(0, 2)] * 2
    (consumer,) = await engine.perform(ListConsumers(S, G))
    assert (consumer.idle_ms, consumer.inactive_ms) == (0, 40)


async def test_history_past_the_last_pending_entry_is_empty_and_served(engine: Driver) -> None:
    await engine.start(1)
    await engine.take()
    for after in (entry_id(1), MAX_ID):
        (read,) = await engine.take(after=after, wait_ms=None)
        assert (read.served, read.deliveries) == (True, [])


async def test_history_shows_deleted_entries_without_fields_and_leaves_them_alone(
    engine: Driver,
) -> None:
    await engine.start(1, 2)
    await engine.take()
    await engine.perform(Delete(S, [entry_id(1)]))
    engine.clock.now_ms += 10
    (read,) = await engine.take(after=MIN_ID)
    assert [(delivery.id.ms, delivery.fields) for delivery in read.deliveries] == [
        (1, None),
        (2, (b"n", b"2")),
    ]
    held = [(item.idle_ms, item.delivery_count) for item in await engine.held()]
    assert held == [(10, 1), (0, 2)]


async def test_reading_without_ack_holds_new_entries_back_from_nobody(engine: Driver) -> None:
    await engine.start(1, 2)
    assert numbers(await engine.take(no_ack=True, limit=1)) == [1]
    assert await engine.held() == []
    await engine.take()
    await engine.take(after=MIN_ID, no_ack=True)
    assert [item.delivery_count for item in await engine.held()] == [2]


async def test_a_stream_that_is_named_twice_is_read_again_after_the_first_read(
    engine: Driver,
) -> None:
    await engine.start(1, 2, 3)
    reads = await engine.take(b"a", 1, streams=(S, S))
    assert numbers(reads) == [1, 2]
    assert [read.pending_count for read in reads] == [1, 2]
    assert numbers(await engine.take(b"a", streams=(S, S))) == [3]
    assert [entry.delivery_count for entry in await engine.held()] == [1, 1, 1]


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


async def test_a_claiming_read_without_ack_holds_only_what_it_claimed(engine: Driver) -> None:
    await engine.start(1, 2)
    await engine.take(b"b", 1)
    assert numbers(await engine.take(b"a", claim=0, no_ack=True)) == [1, 2]
    assert await engine.held_numbers(b"a") == [1]


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


async def test_a_consumer_gets_no_more_than_it_may_hold(engine: Driver) -> None:
    await engine.start(1, 2, 3)
    (read,) = await engine.take(max_pending=2)
    assert (numbers([read]), read.pending_count, read.state) == ([1, 2], 2, GroupState.MAX_PENDING)
    (read,) = await engine.take(max_pending=2)
    assert (read.served, read.state, read.lag) == (False, GroupState.MAX_PENDING, 1)
    await engine.perform(Ack(S, G, [entry_id(1)]))
    assert numbers(await engine.take(max_pending=2)) == [3]


# Acknowledging and giving back


async def test_anyone_may_ack_anything_once_unless_a_consumer_is_named(engine: Driver) -> None:
    await engine.start(1, 2, 3)
    await engine.take(b"a", 2)
    ids = [entry_id(1), entry_id(1), entry_id(9)]
    assert await engine.perform(Ack(S, G, ids)) == [
        Outcome.ACKED,
        Outcome.NOT_PENDING,
        Outcome.NOT_PENDING,
    ]
    assert await engine.perform(Ack(S, G, [entry_id(2)], consumer=b"b")) == [Outcome.CLAIMED]
    assert await engine.held_numbers() == [2]
    assert await engine.perform(Ack(S, G, [entry_id(2)], consumer=b"a")) == [Outcome.ACKED]


async def test_a_read_that_is_refused_has_acknowledged_nothing(engine: Driver) -> None:
    await engine.start(1)
    await engine.take(b"a")
    request = ReadGroup(G, b"a", [GroupCursor(S), GroupCursor(b"missing")])
    with pytest.raises(GroupNotFound):
        await engine.perform(replace(request, acked=[entry_id(1)]))
    assert await engine.held_numbers() == [1]


@pytest.mark.parametrize(
    ("mode", "count"), [(NackMode.SILENT, 0), (NackMode.FAIL, 1), (NackMode.FATAL, COUNT_MAX)]
)
async def test_a_nacked_entry_is_nobodys_and_counts_as_its_mode_says(
    engine: Driver, mode: NackMode, count: int
) -> None:
    await engine.start(1)
    await engine.take(b"a")
    assert await engine.perform(Nack(S, G, [entry_id(1)], mode=mode)) == [Outcome.RELEASED]
    (item,) = await engine.perform(ListPending(S, G, min_idle_ms=10**9))
    assert (item.consumer, item.idle_ms, item.delivery_count) == (None, None, count)
    assert numbers(await engine.take(b"a", after=MIN_ID)) == []
    summary = await engine.perform(SumPending(S, G))
    assert (summary.total, summary.min_id, summary.consumers) == (1, entry_id(1), [])
    assert (await engine.perform(DescribeGroup(S, G))).released_count == 1


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


async def test_a_consumer_cannot_give_back_or_keep_what_another_holds(engine: Driver) -> None:
    await engine.start(1, 2)
    await engine.take(b"a", 1)
    ids = [entry_id(1), entry_id(2)]
    refused = [Outcome.CLAIMED, Outcome.NOT_PENDING]
    assert await engine.perform(Nack(S, G, ids, mode=NackMode.FAIL, consumer=b"b")) == refused
    assert await engine.perform(Extend(S, G, ids, consumer=b"b")) == refused
    assert await engine.held_numbers(b"a") == [1]


async def test_extending_restarts_the_idle_clock_and_counts_no_delivery(engine: Driver) -> None:
    await engine.start(1)
    await engine.take(b"a")
    engine.clock.now_ms += 70
    assert await engine.perform(Extend(S, G, [entry_id(1)], consumer=b"a")) == [Outcome.EXTENDED]
    assert [(item.idle_ms, item.delivery_count) for item in await engine.held()] == [(0, 1)]
    await engine.perform(Nack(S, G, [entry_id(1)], mode=NackMode.FAIL))
    assert await engine.perform(Extend(S, G, [entry_id(1)], consumer=b"a")) == [Outcome.NOT_PENDING]


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


async def test_a_claim_of_too_young_an_entry_gets_nothing_but_is_seen(engine: Driver) -> None:
    await engine.start(1)
    await engine.take(b"b")
    claimed = await engine.perform(Claim(S, G, b"a", [entry_id(1), entry_id(9)], 1))
    assert (claimed.deliveries, claimed.deleted_ids) == ([], [])
    assert [consumer.name for consumer in await engine.perform(ListConsumers(S, G))] == [b"a", b"b"]
    assert await engine.held_numbers(b"b") == [1]


@pytest.mark.parametrize(("just_id", "count"), [(False, 2), (True, 1)])
async def test_a_forced_claim_of_what_is_not_pending_starts_at_one(
    engine: Driver, just_id: bool, count: int
) -> None:
    await engine.start(1)
    ids = [entry_id(1), entry_id(2)]
    claimed = await engine.perform(Claim(S, G, b"a", ids, 10**9, force=True, just_id=just_id))
    assert [delivery.id.ms for delivery in claimed.deliveries] == [1]
    assert [(item.id.ms, item.delivery_count) for item in await engine.held()] == [(1, count)]


async def test_a_claim_purges_what_is_no_longer_in_the_stream(engine: Driver) -> None:
    await engine.start(1, 2)
    await engine.take(b"b")
    await engine.perform(Delete(S, [entry_id(1)]))
    claimed = await engine.perform(Claim(S, G, b"a", [entry_id(2), entry_id(1)], 0))
    assert [delivery.id.ms for delivery in claimed.deliveries] == [2]
    assert claimed.deleted_ids == [entry_id(1)]
    assert await engine.held_numbers() == [2]


async def test_an_entry_claimed_twice_in_one_call_shows_what_the_first_made_of_it(
    engine: Driver,
) -> None:
    await engine.start(1, 2)
    await engine.take(b"b")
    ids = [entry_id(1), entry_id(2), entry_id(1)]
    claimed = await engine.perform(Claim(S, G, b"a", ids, 0, idle_ms=30))
    claimed_twice = [
        (d.id.ms, d.delivered_before, d.idle_ms, d.claimed_from) for d in claimed.deliveries
    ]
    assert claimed_twice == [(1, 1, 0, b"b"), (2, 1, 0, b"b"), (1, 2, 30, None)]
    assert [item.delivery_count for item in await engine.held()] == [3, 2]


async def test_a_claim_can_raise_the_position_but_not_lower_it(engine: Driver) -> None:
    await engine.start(1, 2, 3)
    for last_id in (entry_id(2), entry_id(1)):
        await engine.perform(Claim(S, G, b"a", [], 0, last_id=last_id))
        assert (await engine.perform(DescribeGroup(S, G))).last_id == entry_id(2)
    assert numbers(await engine.take()) == [3]


# XAUTOCLAIM


async def test_autoclaim_goes_page_by_page_and_deleted_ids_use_up_the_page(
    engine: Driver,
) -> None:
    await engine.start(1, 2, 3, 4)
    await engine.take(b"b")
    await engine.perform(Delete(S, [entry_id(1), entry_id(2)]))
    first = await engine.perform(Autoclaim(S, G, b"a", min_idle_ms=0, limit=2))
    assert (first.deliveries, first.deleted_ids) == ([], [entry_id(1), entry_id(2)])
    assert first.next_start == entry_id(3)
    second = await engine.perform(
        Autoclaim(S, G, b"a", min_idle_ms=0, start=first.next_start, limit=2)
    )
    assert [delivery.id.ms for delivery in second.deliveries] == [3, 4]
    assert second.next_start == MIN_ID


async def test_autoclaim_looks_at_ten_entries_for_each_it_may_return(engine: Driver) -> None:
    await engine.start(*range(1, 16))
    await engine.take(b"b")
    page = await engine.perform(Autoclaim(S, G, b"a", min_idle_ms=1, limit=1))
    assert (page.deliveries, page.next_start) == ([], entry_id(11))


async def test_autoclaim_by_id_only_counts_no_delivery(engine: Driver) -> None:
    await engine.start(1, 2)
    await engine.take(b"b")
    await engine.perform(Autoclaim(S, G, b"a", min_idle_ms=0, just_id=True, start=entry_id(2)))
    await engine.perform(Autoclaim(S, G, b"a", min_idle_ms=0, limit=1))
    counts = [(item.id.ms, item.delivery_count) for item in await engine.held(b"a")]
    assert counts == [(1, 2), (2, 1)]


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


async def test_the_summary_of_pending_entries_leaves_out_consumers_that_hold_none(
    engine: Driver,
) -> None:
    await engine.start(1, 2, 3)
    empty = await engine.perform(SumPending(S, G))
    assert (empty.total, empty.min_id, empty.max_id, empty.consumers) == (0, None, None, [])
    await engine.take(b"b", 2)
    await engine.take(b"a", 1)
    await engine.perform(CreateConsumer(S, G, b"c"))
    summary = await engine.perform(SumPending(S, G))
    assert summary == PendingSummary(3, entry_id(1), entry_id(3), [(b"a", 1), (b"b", 2)], 2)
