"""Order by key: the next entry of a key comes when the one before is settled."""

import asyncio

import msgspec
import pytest

from headgate.app.backends.port import Ability, Backend
from headgate.engine.config import FieldName, GroupPolicy, Patch
from headgate.engine.entry import MIN_ID, Draft
from headgate.engine.replies import GroupState
from headgate.engine.requests.deliveries import (
    Ack,
    Autoclaim,
    GroupCursor,
    ListPending,
    Nack,
    NackMode,
    ReadGroup,
    Redrive,
)
from headgate.engine.requests.entries import Add, Delete, Trim, TrimTo
from headgate.engine.requests.groups import (
    CreateGroup,
    DeleteConsumer,
    DescribeGroup,
    GroupStart,
    UpdateGroup,
)
from headgate.engine.requests.streams import CreateStream
from tests.contract.calls import ANA, BEN, G, S, blocked, entry_id, got, held, ids, taken

pytestmark = pytest.mark.needs(Ability.POLICIES)

KEY = FieldName(b"key")
IN_ORDER = GroupPolicy(key_field=KEY)


def keyed(**ids_by_key: list[int]) -> list[Draft]:
    """Return entries with these ids, each with its key."""
    pairs = sorted((number, key) for key, numbers in ids_by_key.items() for number in numbers)
    return [Draft(entry_id(number), (b"key", key.encode())) for number, key in pairs]


def read(consumer: bytes, limit: int | None = None, *, by_policy: bool = True) -> ReadGroup:
    cursors = [GroupCursor(S)]
    return ReadGroup(G, consumer, cursors, limit, claim_released=True, by_policy=by_policy)


async def state(backend: Backend, request: ReadGroup) -> tuple[list[int], GroupState]:
    [reply] = await backend.perform(request)
    return [delivery.id.ms for delivery in reply.deliveries], reply.state


async def ordered(backend: Backend, drafts: list[Draft], policy: GroupPolicy = IN_ORDER) -> None:
    await backend.perform(CreateGroup(S, G, GroupStart(MIN_ID), create_stream=True, policy=policy))
    await backend.perform(Add(S, drafts))


async def ack(backend: Backend, *numbers: int) -> None:
    await backend.perform(Ack(S, G, ids(*numbers)))


async def change(backend: Backend, **changes: object) -> None:
    await backend.perform(UpdateGroup(S, G, policy=Patch.of(GroupPolicy, **changes)))


async def test_the_next_of_a_key_comes_when_the_one_before_is_settled(backend: Backend) -> None:
    await ordered(backend, keyed(a=[1, 2, 5], b=[3, 4]))
    assert await got(backend, read(ANA)) == [1, 3]
    assert await got(backend, read(BEN)) == []
    await ack(backend, 3)
    assert await got(backend, read(BEN)) == [4]
    await ack(backend, 1)
    assert await got(backend, read(BEN)) == [2]
    await ack(backend, 2, 4)
    [last] = await taken(backend, read(ANA))
    assert (last.id.ms, last.delivered_before, last.claimed_from) == (5, 0, None)


async def test_a_read_with_room_for_more_delivers_entries_without_the_field(
    backend: Backend,
) -> None:
    await ordered(backend, [Draft(entry_id(number), (b"n", b"1")) for number in range(1, 5)])
    assert await got(backend, read(ANA, 10)) == [1, 2, 3, 4]


async def test_what_is_sent_back_waits_for_its_turn(backend: Backend) -> None:
    policy = msgspec.structs.replace(IN_ORDER, max_deliveries=1, dead_letter_stream=b"dead")
    await backend.perform(CreateStream(b"dead"))
    await ordered(backend, keyed(a=[1, 2, 3]), policy)
    assert await got(backend, read(ANA)) == [1]
    await backend.perform(Nack(S, G, ids(1), mode=NackMode.FAIL))
    assert await got(backend, read(ANA)) == [2]
    while not (redriven := await backend.perform(Redrive(S, G))):
        await asyncio.sleep(0)
    assert [each.outcome for each in redriven] == ["released"]
    assert await got(backend, read(BEN)) == []
    await ack(backend, 2)
    assert await got(backend, read(BEN)) == [1]
    assert await got(backend, read(BEN)) == []
    await ack(backend, 1)
    assert await got(backend, read(BEN)) == [3]


async def test_what_is_read_without_acknowledgement_takes_no_turn(backend: Backend) -> None:
    await ordered(backend, keyed(a=[1, 2], b=[3]))
    without = msgspec.structs.replace(read(ANA), no_ack=True)
    assert await state(backend, without) == ([1, 2, 3], GroupState.CAUGHT_UP)
    assert await backend.perform(ListPending(S, G)) == []


async def test_entries_without_the_field_have_no_bound(backend: Backend) -> None:
    entries = [*keyed(a=[1, 2]), Draft(entry_id(3), (b"n", b"3")), Draft(entry_id(4), (b"n", b"4"))]
    await ordered(backend, entries)
    assert await got(backend, read(ANA)) == [1, 3, 4]


async def test_an_entry_given_back_keeps_its_turn(backend: Backend) -> None:
    await ordered(backend, keyed(a=[1, 2]))
    assert await got(backend, read(ANA)) == [1]
    await backend.perform(Nack(S, G, ids(1), mode=NackMode.FAIL, delay_ms=3_600_000))
    assert await got(backend, read(BEN)) == []
    await backend.perform(Nack(S, G, ids(1), mode=NackMode.FAIL, delay_ms=0))
    assert await got(backend, read(BEN)) == [1]
    assert await got(backend, read(BEN)) == []


async def test_a_dead_letter_ends_its_turn(backend: Backend) -> None:
    policy = GroupPolicy(key_field=KEY, max_deliveries=1, dead_letter_stream=b"dead")
    await ordered(backend, keyed(a=[1, 2]), policy)
    assert await got(backend, read(ANA)) == [1]
    await backend.perform(Nack(S, G, ids(1), mode=NackMode.FAIL))
    assert await got(backend, read(BEN)) == [2]


async def test_a_deleted_entry_ends_its_turn(backend: Backend) -> None:
    await ordered(backend, keyed(a=[1, 2, 3, 4]))
    assert await got(backend, read(ANA)) == [1]
    await backend.perform(Delete(S, ids(2)))
    await backend.perform(Delete(S, ids(1)))
    assert await got(backend, read(BEN)) == [3]
    await backend.perform(Trim(S, TrimTo(min_id=entry_id(4))))
    assert await got(backend, read(BEN)) == [4]


async def test_a_consumer_that_is_deleted_gives_up_turns_or_releases_them(backend: Backend) -> None:
    await ordered(backend, keyed(a=[1, 2, 3]))
    assert await got(backend, read(ANA)) == [1]
    await backend.perform(DeleteConsumer(S, G, ANA, release=True))
    assert await got(backend, read(ANA)) == [1]
    await backend.perform(DeleteConsumer(S, G, ANA, release=False))
    assert await got(backend, read(ANA)) == [2]


async def test_who_takes_over_has_the_turn(backend: Backend) -> None:
    await ordered(backend, keyed(a=[1, 2]))
    assert await got(backend, read(ANA)) == [1]
    [claimed] = await taken(
        backend, ReadGroup(G, BEN, [GroupCursor(S)], claim_idle_ms=0, by_policy=True)
    )
    assert (claimed.id.ms, claimed.claimed_from) == (1, ANA)
    assert await got(backend, read(ANA)) == []


async def test_several_of_a_key_may_be_pending(backend: Backend) -> None:
    policy = GroupPolicy(key_field=KEY, key_pending_max=2)
    await ordered(backend, keyed(a=[1, 2, 3, 4], b=[5]), policy)
    assert await got(backend, read(ANA)) == [1, 2, 5]
    await ack(backend, 2)
    assert await got(backend, read(BEN)) == [3]
    assert await got(backend, read(BEN)) == []


async def test_fewer_of_a_key_may_be_pending_from_now_on(backend: Backend) -> None:
    policy = GroupPolicy(key_field=KEY, key_pending_max=3)
    # So many are held that servers do not look at all keys at once.
    await ordered(backend, keyed(a=[1, 2, 3, 4, 5], B=[*range(100, 1_000)]), policy)
    assert await got(backend, read(ANA)) == [1, 2, 3, 100, 101, 102]
    await ack(backend, 1)
    await change(backend, key_pending_max=1)
    assert await got(backend, read(BEN)) == []
    await ack(backend, 2)
    assert await got(backend, read(BEN)) == []
    await ack(backend, 3)
    assert await got(backend, read(BEN)) == [4]


async def test_long_keys_are_told_apart_by_their_ends(backend: Backend) -> None:
    first, second = b"x" * 100_000 + b"1", b"x" * 100_000 + b"2"
    keys = {1: first, 2: second, 3: first, 4: b"x" * 64, 5: b"x" * 65}
    await ordered(backend, [Draft(entry_id(at), (b"key", key)) for at, key in keys.items()])
    assert await got(backend, read(ANA)) == [1, 2, 4, 5]
    await ack(backend, 1)
    assert await got(backend, read(BEN)) == [3]


async def test_a_group_holds_back_so_many(backend: Backend) -> None:
    policy = GroupPolicy(key_field=KEY, key_ahead_max=2)
    await ordered(backend, keyed(a=[1, 2, 3, 4], b=[5]), policy)
    assert await state(backend, read(ANA)) == ([1], GroupState.KEY_BLOCKED)
    assert await state(backend, read(BEN)) == ([], GroupState.KEY_BLOCKED)
    await ack(backend, 1)
    assert await got(backend, read(BEN)) == [2, 5]


async def test_a_reader_waits_for_a_turn(backend: Backend) -> None:
    await ordered(backend, keyed(a=[1, 2]))
    assert await got(backend, read(ANA)) == [1]
    [reading] = await blocked(backend, got(backend, read(BEN), None))
    await ack(backend, 1)
    assert await reading == [2]


async def test_held_entries_are_pending_and_tell_what_they_wait_for(backend: Backend) -> None:
    await ordered(backend, keyed(a=[1, 2]))
    await backend.perform(read(ANA))
    assert await held(backend) == {1: ANA, 2: None}
    first, second = await backend.perform(ListPending(S, G))
    assert (first.waits_for, second.waits_for) == (None, entry_id(1))
    assert (second.delivery_count, second.delay_ms) == (0, 0)
    group = await backend.perform(DescribeGroup(S, G))
    assert (group.pending_count, group.lag) == (2, 0)


async def test_nobody_claims_what_is_held(backend: Backend) -> None:
    await ordered(backend, keyed(a=[1, 2]))
    await backend.perform(read(ANA))
    claimed = await backend.perform(Autoclaim(S, G, BEN, 0, MIN_ID, 10))
    assert [delivery.id.ms for delivery in claimed.deliveries] == [1]


async def test_redis_words_know_no_keys(backend: Backend) -> None:
    await ordered(backend, keyed(a=[1, 2]))
    assert await got(backend, read(ANA, by_policy=False)) == [1, 2]


async def test_without_the_rule_all_held_entries_come(backend: Backend) -> None:
    await ordered(backend, keyed(a=[1, 2, 3]))
    assert await got(backend, read(ANA)) == [1]
    await change(backend, key_pending_max=2)
    assert await got(backend, read(ANA)) == [2]
    await change(backend, key_field=None)
    assert await got(backend, read(ANA)) == [3]


async def test_filters_and_keys_go_together(backend: Backend) -> None:
    policy = GroupPolicy(key_field=KEY, filters='{"not":{"exact":{"key":"b"}}}', max_pending=2)
    await ordered(backend, keyed(a=[1, 3], b=[2, 4], c=[5, 6], d=[7]), policy)
    assert await got(backend, read(ANA)) == [1, 5]
    assert await got(backend, read(BEN)) == [7]
    await ack(backend, 1)
    assert await got(backend, read(BEN)) == [3]
