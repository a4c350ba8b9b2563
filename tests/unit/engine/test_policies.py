"""The policy of a group: delays, dead letters and their return, consumers that vanish."""

import asyncio
from typing import Any

import pytest

from headgate.engine.config import GroupPolicy
from headgate.engine.entry import MIN_ID, Draft, EntryId
from headgate.engine.errors import GroupNotFound
from headgate.engine.limits import (
    AUTOCLAIM_MAX,
    COUNT_MAX,
    DEAD_LETTERS_AT_ONCE_MAX,
    GROUP_READ_MAX,
)
from headgate.engine.requests.deliveries import (
    Ack,
    AckThrough,
    Autoclaim,
    Claim,
    Nack,
    NackMode,
    Redrive,
)
from headgate.engine.requests.entries import Add, Range, Read, StreamCursor
from headgate.engine.requests.groups import CreateGroup, DestroyGroup, GroupStart, ListConsumers
from headgate.engine.requests.keyspace import ExpireStream, RenameStream
from headgate.engine.requests.streams import DeleteStream
from tests.changes import acting_by
from tests.journals.records import reloaded, replayed
from tests.lengths import length_of
from tests.model.snapshot import snapshot as everything_in
from tests.unit.driver import Driver, G, S, deliveries, entry_id, kept, numbers
from tests.virtual_time import VirtualClock, now_ms, settle

D = b"d"
TWICE = GroupPolicy(max_deliveries=2, dead_letter_stream=D)
ONCE = GroupPolicy(max_deliveries=1, dead_letter_stream=D)


class TickingClock:
    """A clock that moves whenever somebody looks at it."""

    def __init__(self) -> None:
        self.ticks = 1_000

    def wall_ms(self) -> int:
        self.ticks += 1
        return self.ticks

    def monotonic_ms(self) -> int:
        return self.ticks


@pytest.fixture
def engine() -> Driver:
    return Driver()


async def under(engine: Driver, policy: GroupPolicy, *added: int) -> None:
    """Add entries and create the group under a policy."""
    await engine.start(*added)
    await engine.perform(acting_by(S, G, policy))


async def nack(
    engine: Driver, *chosen: int, mode: NackMode = NackMode.FAIL, delay_ms: int | None = None
) -> None:
    ids = [entry_id(number) for number in chosen]
    await engine.perform(Nack(S, G, ids, mode=mode, delay_ms=delay_ms))


async def dead_letters(engine: Driver) -> list[dict[bytes, bytes]]:
    """Return the dead letters as maps of their fields."""
    if engine.keyspace.find(D) is None:
        return []
    entries = await engine.perform(Range(D))
    return [dict(zip(entry.fields[0::2], entry.fields[1::2], strict=True)) for entry in entries]


async def dead_numbers(engine: Driver) -> list[int]:
    return [int(dead_letter[b"n"]) for dead_letter in await dead_letters(engine)]


async def taken(engine: Driver, consumer: bytes = b"b", claim: int | None = 0) -> list[int]:
    return numbers(await engine.take(consumer, claim=claim))


# Rests


async def test_a_failed_entry_rests_by_its_deliveries_and_the_last_repeats(engine: Driver) -> None:
    await under(engine, GroupPolicy(backoff_ms=(10, 30)), 1)
    for rest_ms in (10, 30, 30, 30):
        assert numbers(await engine.take(b"b", released=True)) == [1]
        await nack(engine, 1)
        engine.clock.now_ms += rest_ms - 1
        assert await taken(engine) == []
        engine.clock.now_ms += 1


async def test_a_rest_without_end_is_none_that_overflows(engine: Driver) -> None:
    await engine.start(1)
    await engine.take()
    await nack(engine, 1, delay_ms=COUNT_MAX)
    assert everything_in(replayed(engine)) == everything_in(engine.keyspace)
    assert await taken(engine) == []


# Dead letters


@pytest.mark.parametrize(
    ("policy", "delays_ms", "read", "expected"),
    [
        (GroupPolicy(), {1: 250, 2: 100}, {"released": True}, [(2, 100), (1, 250)]),
        (GroupPolicy(), {2: 100}, {"claim": 500}, [(2, 100), (1, 500)]),
        (GroupPolicy(claim_idle_ms=300), {}, {}, [(1, 300), (2, 300)]),
    ],
    ids=["rested", "rested before idle", "idle by the policy"],
)
async def test_readers_wait_exactly_until_they_may_have_an_entry(
    policy: GroupPolicy,
    delays_ms: dict[int, int],
    read: dict[str, Any],
    expected: list[tuple[int, int]],
) -> None:
    engine = Driver(VirtualClock())
    await under(engine, policy, 1, 2)
    await engine.take()
    blocked = asyncio.create_task(engine.take(b"b", 1, wait_ms=None, **read))
    await settle()
    for number, delay_ms in delays_ms.items():
        await nack(engine, number, delay_ms=delay_ms)
    came = [(*numbers(await blocked), now_ms())]
    came.append((*numbers(await engine.take(b"b", 1, wait_ms=None, **read)), now_ms()))
    assert came == expected


async def test_an_entry_is_kept_if_the_dead_letter_stream_takes_none(engine: Driver) -> None:
    await engine.perform(Add(D, [Draft(EntryId(2**64 - 1, 2**64 - 1), (b"f", b"v"))]))
    await under(engine, ONCE, 1)
    await engine.take()
    await nack(engine, 1)
    assert await engine.held_numbers() == [1]
    assert await length_of(engine, D) == 1


async def test_a_read_that_is_refused_moves_nothing(engine: Driver) -> None:
    await under(engine, ONCE, 1, 2)
    await engine.put(1, stream=b"other")
    await engine.take()
    engine.clock.now_ms += 10
    before = everything_in(engine.keyspace)
    with pytest.raises(GroupNotFound):
        await engine.take(b"b", claim=10, streams=(S, b"other"), acked=(entry_id(1),))
    assert everything_in(engine.keyspace) == before


async def test_the_house_is_kept_with_nobody_reading() -> None:
    engine = Driver(VirtualClock())
    policy = GroupPolicy(claim_idle_ms=5_000, max_deliveries=1, dead_letter_stream=D)
    await under(engine, policy, 1)
    await engine.take()
    async with kept(engine):
        request = Read([StreamCursor(D, MIN_ID)], wait_ms=None, missing_ok=True)
        [read] = await engine.perform(request)
    assert [entry.fields[:2] for entry in read.entries] == [(b"n", b"1")]
    assert 5_000 <= now_ms() <= 6_000
    assert await engine.held() == []


async def test_without_an_idle_time_only_what_was_given_back_is_dead_with_nobody_reading() -> None:
    engine = Driver(VirtualClock())
    await under(engine, ONCE, 1, 2)
    await engine.take()
    await nack(engine, 1, delay_ms=3_000)  # as if under a policy that lets it rest
    async with kept(engine):
        await asyncio.sleep(10)
    assert await dead_numbers(engine) == [1]
    assert await engine.held_numbers() == [2]


async def test_whoever_reads_dead_letters_is_woken_even_by_a_read_that_gets_nothing() -> None:
    engine = Driver(clock := VirtualClock())
    await under(engine, ONCE, 1)
    await engine.take()
    reader = asyncio.create_task(engine.follow(D, after=MIN_ID, missing_ok=True))
    blocked = asyncio.create_task(engine.take(b"b", claim=900, wait_ms=100))
    await settle()
    clock.step(900)  # no timer notices
    assert numbers(await blocked) == []
    await settle()
    assert reader.done()
    await reader


async def test_whoever_waits_for_room_is_woken_when_what_it_held_is_dead() -> None:
    engine = Driver(VirtualClock())
    await under(engine, ONCE, 1, 2)
    await engine.take(limit=1)
    blocked = asyncio.create_task(engine.take(wait_ms=None, max_pending=1))
    await settle()
    await engine.perform(Nack(S, G, [entry_id(1)], mode=NackMode.FAIL))
    assert numbers(await blocked) == [2]


# Redrive


async def test_dead_letters_are_sent_back_by_id_or_the_oldest_first(engine: Driver) -> None:
    await under(engine, ONCE, 1, 2, 3, 4)
    await engine.take()
    await nack(engine, 4, 3, 2, 1)
    ids = [entry.id for entry in await engine.perform(Range(D))]

    chosen = await engine.perform(Redrive(S, G, [ids[2], EntryId(5, 5), ids[2]]))
    oldest = await engine.perform(Redrive(S, G, limit=2))

    assert [outcome.entry_id.ms for outcome in chosen] == [2]
    assert [outcome.entry_id.ms for outcome in oldest] == [4, 3]
    assert await dead_numbers(engine) == [1]


async def test_the_letters_of_others_are_left_alone(engine: Driver) -> None:
    await under(engine, ONCE, 1)
    await engine.perform(CreateGroup(S, b"h", GroupStart(MIN_ID), policy=ONCE))
    await engine.perform(Add(D, [Draft(None, (b"n", b"99"))]))
    origin = (b"_stream", S, b"_id", b"x", b"_group", G, b"_deliveries", b"", b"_reason", b"")
    await engine.perform(Add(D, [Draft(None, (b"n", b"98", *origin)), Draft(None, origin)]))
    await engine.take()
    await nack(engine, 1)
    ids = [entry.id for entry in await engine.perform(Range(D))]

    assert await engine.perform(Redrive(S, b"h")) == []
    assert await engine.perform(Redrive(S, b"h", ids)) == []
    assert await length_of(engine, D) == 4
    assert [outcome.entry_id.ms for outcome in await engine.perform(Redrive(S, G, ids))] == [1]
    assert await length_of(engine, D) == 3


# Consumers that vanish


async def test_a_consumer_that_waits_is_not_gone() -> None:
    engine = Driver(VirtualClock())
    await under(engine, GroupPolicy(consumer_ttl_ms=5_000), 1)
    await engine.take(b"a")
    await engine.perform(Ack(S, G, [entry_id(1)]))
    async with kept(engine):
        blocked = asyncio.create_task(engine.take(b"a", wait_ms=20_000))
        await asyncio.sleep(15)
        await engine.put(2)
        assert numbers(await blocked) == [2]
    assert [consumer.name for consumer in await engine.perform(ListConsumers(S, G))] == [b"a"]


# Policies as part of the state


async def test_what_acts_by_time_is_known_by_name(engine: Driver) -> None:
    governed = engine.keyspace.governed
    await under(engine, GroupPolicy(claim_idle_ms=5, backoff_ms=(1,), max_pending=2), 1)
    assert governed == set()
    await engine.perform(acting_by(S, G, ONCE))
    await engine.perform(
        CreateGroup(S, b"h", GroupStart(None), policy=GroupPolicy(consumer_ttl_ms=5))
    )
    assert governed == {S}

    await engine.perform(DestroyGroup(S, G))
    assert governed == {S}
    await engine.perform(RenameStream(S, b"new"))
    assert governed == {b"new"}
    assert replayed(engine).governed == reloaded(engine.keyspace).governed == {b"new"}
    await engine.perform(acting_by(b"new", b"h", GroupPolicy()))
    assert governed == set()

    await engine.perform(acting_by(b"new", b"h", TWICE))
    await engine.perform(RenameStream(b"new", b"newer"))
    await engine.perform(DeleteStream(b"newer"))
    assert governed == set()
    assert replayed(engine).governed == set()


async def test_a_stream_that_expires_is_governed_no_more() -> None:
    engine = Driver(VirtualClock())
    await under(engine, ONCE, 1)
    await engine.perform(ExpireStream(S, 2_500))
    async with kept(engine):
        await asyncio.sleep(5)
    assert engine.keyspace.governed == set()


async def test_a_stream_may_expire_while_the_house_is_kept() -> None:
    for left_ms in range(40):
        engine = Driver(TickingClock())
        await under(engine, ONCE, 1)
        await engine.start(1, stream=b"t")
        await engine.perform(acting_by(b"t", G, ONCE))
        await engine.perform(ExpireStream(b"t", left_ms))
        async with kept(engine):
            await asyncio.sleep(1.5)


async def test_what_is_spent_is_still_given_to_who_claims_it_by_id(engine: Driver) -> None:
    """An operator who asks for this very entry gets it, as from Redis."""
    await engine.start(1)
    await engine.perform(acting_by(S, G, GroupPolicy(max_deliveries=1, dead_letter_stream=D)))
    await engine.take()
    engine.clock.now_ms += 100

    claimed = await engine.perform(Claim(S, G, b"b", [entry_id(1)], min_idle_ms=100))

    assert [delivery.id for delivery in claimed.deliveries] == [entry_id(1)]
    assert await engine.held_numbers(b"b") == [1]


# Dead letters that would go round


async def test_a_stream_renamed_onto_its_dead_letter_stream_has_none(engine: Driver) -> None:
    await under(engine, ONCE, 1, 2)
    await engine.take()
    await nack(engine, 1)
    assert await dead_numbers(engine) == [1]
    await engine.perform(RenameStream(S, D))
    for _ in range(5):
        reads = await engine.take(claim=0, streams=(D,))
        assert numbers(reads) == [2]
        ids = [delivery.id for delivery in deliveries(reads)]
        await engine.perform(Nack(D, G, ids, mode=NackMode.FATAL))
    assert await length_of(engine, D) == 2


async def test_letters_do_not_go_round_between_two_groups(engine: Driver) -> None:
    await under(engine, ONCE, 1)
    await engine.perform(
        CreateGroup(
            D,
            G,
            GroupStart(MIN_ID),
            create_stream=True,
            policy=GroupPolicy(max_deliveries=1, dead_letter_stream=S),
        )
    )
    for _ in range(5):
        for stream in (S, D):
            await engine.take(claim=0, streams=(stream,))
            await engine.take(claim=0, streams=(stream,))
    assert (await length_of(engine, S), await length_of(engine, D)) == (2, 1)
    [held] = await engine.held()
    [entry] = await engine.perform(Range(S, held.id))
    assert entry.fields.count(b"_group") == 2
    claimed = await engine.perform(Claim(S, G, b"z", [held.id], 0))
    assert [delivery.id for delivery in claimed.deliveries] == [held.id]


# Much at once


async def test_a_read_makes_few_dead_letters_and_the_next_ones_the_others(engine: Driver) -> None:
    await under(engine, ONCE, *range(1, 3 * DEAD_LETTERS_AT_ONCE_MAX + 1))
    await engine.take()
    lengths = []
    for _ in range(4):
        assert await taken(engine) == []
        lengths.append(await length_of(engine, D))
    assert lengths == [
        DEAD_LETTERS_AT_ONCE_MAX,
        2 * DEAD_LETTERS_AT_ONCE_MAX,
        3 * DEAD_LETTERS_AT_ONCE_MAX,
        3 * DEAD_LETTERS_AT_ONCE_MAX,
    ]


async def test_whatever_is_asked_for_one_call_delivers_and_claims_so_much(engine: Driver) -> None:
    await engine.start(*range(1, 5_001))
    read = [len(numbers(await engine.take(limit=10_000))) for _ in range(5)]
    assert read == [GROUP_READ_MAX, GROUP_READ_MAX, 5_000 - 2 * GROUP_READ_MAX, 0, 0]
    assert len(await taken(engine)) == GROUP_READ_MAX
    cursor, pages = MIN_ID, list[int]()
    while not pages or cursor != MIN_ID:
        page = await engine.perform(Autoclaim(S, G, b"z", min_idle_ms=0, start=cursor, limit=10**6))
        cursor = page.next_start
        pages.append(len(page.deliveries))
    assert pages == [AUTOCLAIM_MAX] * 5
    await engine.perform(AckThrough(S, G, b"z", entry_id(4_999)))
    assert await engine.held_numbers() == [5_000]
