"""The rules of a group: pause, rate, filters, and the order of a key."""

import pytest
from msgspec.structs import replace

from headgate.app.backends.port import Ability, Backend
from headgate.engine.config import FieldName, GroupPolicy
from headgate.engine.entry import Draft
from headgate.engine.replies import GroupState
from headgate.engine.requests.deliveries import Ack, Nack, NackMode, ReadGroup
from headgate.engine.requests.entries import Add
from headgate.engine.requests.groups import DescribeGroup, UpdateGroup
from headgate.engine.requests.streams import CloseStream
from tests.contract.calls import (
    ANA,
    BEN,
    G,
    S,
    blocked,
    change,
    drafts,
    entry_id,
    got,
    ids,
    read,
    ruled,
)

pytestmark = pytest.mark.needs(Ability.POLICIES)

NEVER = 2**53
"""A unix time that does not come (ms)."""

LIMITS = GroupPolicy(rate_per_s=1, rate_burst=2)


async def read_by(backend: Backend, request: ReadGroup) -> tuple[list[int], GroupState]:
    [reply] = await backend.perform(request)
    return [delivery.id.ms for delivery in reply.deliveries], reply.state


def sales(*numbers: int) -> list[Draft]:
    """Return sales for the even numbers, and refunds for the odd ones."""
    kinds = b"sale", b"refund"
    return [
        Draft(entry_id(number), (b"kind", kinds[number % 2], b"n", b"%d" % number))
        for number in numbers
    ]


SALES = GroupPolicy(filters='{"exact":{"kind":"sale"}}')


async def test_redis_words_know_no_pause(backend: Backend) -> None:
    await ruled(backend, GroupPolicy(paused_until_ms=NEVER))
    by_rules, plain = await blocked(
        backend, got(backend, read(ANA), None), got(backend, read(BEN, by_policy=False), None)
    )
    await backend.perform(Add(S, drafts(1)))
    assert await plain == [1]
    await change(backend, paused_until_ms=None)
    await backend.perform(Add(S, drafts(2)))
    assert await by_rules == [2]


async def test_a_rate_lets_a_burst_come_and_then_less(backend: Backend) -> None:
    await ruled(backend, LIMITS, *drafts(1, 2, 3))
    assert await read_by(backend, read(ANA)) == ([1, 2], GroupState.RATE_LIMITED)
    assert await read_by(backend, read(BEN)) == ([], GroupState.RATE_LIMITED)
    assert await got(backend, read(BEN, by_policy=False)) == [3]


async def test_a_rate_counts_what_comes_again(backend: Backend) -> None:
    await ruled(backend, LIMITS, *drafts(1, 2, 3))
    assert await got(backend, read(ANA, 1)) == [1]
    await backend.perform(Nack(S, G, ids(1), mode=NackMode.SILENT))
    assert await got(backend, read(ANA)) == [1]
    assert await got(backend, read(ANA)) == []


async def test_a_reader_waits_for_its_turn_in_the_rate(backend: Backend) -> None:
    await ruled(backend, GroupPolicy(rate_per_s=20, rate_burst=1), *drafts(1, 2))
    assert await got(backend, read(ANA)) == [1]
    assert await got(backend, read(ANA), None) == [2]


async def test_many_that_do_not_match_are_passed_by_in_parts(backend: Backend) -> None:
    await ruled(backend, SALES)
    for first in range(1, 10_001, 2_000):
        await backend.perform(Add(S, sales(*range(first, first + 2_000, 2))))
    await backend.perform(Add(S, sales(10_002)))
    assert await read_by(backend, read(ANA)) == ([10_002], GroupState.CAUGHT_UP)


async def test_who_waits_passes_by_many(backend: Backend) -> None:
    await ruled(backend, SALES)
    [reading] = await blocked(backend, got(backend, read(ANA), None))
    for first in range(1, 20_001, 10_000):
        await backend.perform(Add(S, sales(*range(first, first + 10_000, 2))))
    await backend.perform(Add(S, sales(20_002)))
    assert await reading == [20_002]


KEY = FieldName(b"key")
IN_ORDER = GroupPolicy(key_field=KEY)


def keyed(**ids_by_key: list[int]) -> list[Draft]:
    """Return entries with these ids, each with its key."""
    pairs = sorted((number, key) for key, numbers in ids_by_key.items() for number in numbers)
    return [Draft(entry_id(number), (b"key", key.encode())) for number, key in pairs]


async def ack(backend: Backend, *numbers: int) -> None:
    await backend.perform(Ack(S, G, ids(*numbers)))


async def test_fewer_of_a_key_may_be_pending_from_now_on(backend: Backend) -> None:
    policy = GroupPolicy(key_field=KEY, key_pending_max=3)
    # So many are held that servers do not look at all keys at once.
    await ruled(backend, policy, *keyed(a=[1, 2, 3, 4, 5], B=[*range(100, 1_000)]))
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
    await ruled(
        backend, IN_ORDER, *[Draft(entry_id(at), (b"key", key)) for at, key in keys.items()]
    )
    assert await got(backend, read(ANA)) == [1, 2, 4, 5]
    await ack(backend, 1)
    assert await got(backend, read(BEN)) == [3]


async def test_an_entry_that_is_passed_by_takes_no_turn_of_a_key(backend: Backend) -> None:
    policy = GroupPolicy(filters='{"not":{"suffix":{"key":"b"}}}', key_field=KEY, key_pending_max=2)
    await ruled(backend, policy, *keyed(a=[1, 3, 4], b=[2]))
    assert await got(backend, read(ANA)) == [1, 3]


async def held_with_one_idle(backend: Backend) -> None:
    """Let a held entry have its turn by now, and another entry be idle with a consumer."""
    await ruled(backend, IN_ORDER, *keyed(a=[1, 3], b=[2]))
    assert await got(backend, read(ANA)) == [1, 2]
    await ack(backend, 1)


async def test_a_turn_that_begins_and_what_is_idle_have_one_room(backend: Backend) -> None:
    await held_with_one_idle(backend)
    reading = replace(read(BEN), claim_idle_ms=0, size_bytes_max=1)
    assert await got(backend, reading) == [3]
    assert await got(backend, reading) == [2]


async def test_a_turn_that_begins_is_not_claimed_by_the_same_read(backend: Backend) -> None:
    await held_with_one_idle(backend)
    assert await got(backend, replace(read(BEN), claim_idle_ms=0, claim_own=True)) == [3, 2]


async def test_a_delay_ends_when_the_entry_is_delivered_as_new(backend: Backend) -> None:
    await ruled(backend, GroupPolicy(), *drafts(1, 2))
    assert await got(backend, read(ANA)) == [1, 2]
    await backend.perform(Nack(S, G, ids(2), NackMode.FAIL, delay_ms=3_600_000))
    await backend.perform(UpdateGroup(S, G, entry_id(1)))
    assert await got(backend, read(BEN)) == [2]
    group = await backend.perform(DescribeGroup(S, G))
    assert (group.released_count, group.delayed_count) == (0, 0)


async def test_a_pause_does_not_hide_the_end_whatever_the_counters_say(backend: Backend) -> None:
    await ruled(backend, GroupPolicy(), *drafts(1, 2))
    await backend.perform(UpdateGroup(S, G, entry_id(2), 1))
    await change(backend, paused_until_ms=NEVER)
    await backend.perform(CloseStream(S))
    assert await read_by(backend, read(ANA)) == ([], GroupState.CLOSED)
