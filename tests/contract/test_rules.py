"""The rules of a group: pause, rate and filters."""

import pytest

from headgate.app.backends.port import Ability, Backend
from headgate.engine.config import GroupPolicy, Patch
from headgate.engine.entry import MIN_ID, Draft
from headgate.engine.replies import GroupState
from headgate.engine.requests.deliveries import GroupCursor, Nack, NackMode, ReadGroup
from headgate.engine.requests.entries import Add
from headgate.engine.requests.groups import CreateGroup, GroupStart, UpdateGroup
from tests.contract.calls import ANA, BEN, G, S, blocked, drafts, entry_id, got, ids

pytestmark = pytest.mark.needs(Ability.POLICIES)

NEVER = 2**53
"""A unix time that does not come (ms)."""

LIMITS = GroupPolicy(rate_per_s=1, rate_burst=2)


def read(consumer: bytes, limit: int | None = None, *, by_policy: bool = True) -> ReadGroup:
    return ReadGroup(G, consumer, [GroupCursor(S)], limit, claim_released=True, by_policy=by_policy)


async def read_by(backend: Backend, request: ReadGroup) -> tuple[list[int], GroupState]:
    [reply] = await backend.perform(request)
    return [delivery.id.ms for delivery in reply.deliveries], reply.state


async def ruled(backend: Backend, policy: GroupPolicy, *numbers: int) -> None:
    await backend.perform(CreateGroup(S, G, GroupStart(MIN_ID), create_stream=True, policy=policy))
    if numbers:
        await backend.perform(Add(S, drafts(*numbers)))


async def change(backend: Backend, **changes: object) -> None:
    await backend.perform(UpdateGroup(S, G, policy=Patch.of(GroupPolicy, **changes)))


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
    await ruled(backend, LIMITS, 1, 2, 3)
    assert await read_by(backend, read(ANA)) == ([1, 2], GroupState.RATE_LIMITED)
    assert await read_by(backend, read(BEN)) == ([], GroupState.RATE_LIMITED)
    assert await got(backend, read(BEN, by_policy=False)) == [3]


async def test_a_rate_counts_what_comes_again(backend: Backend) -> None:
    await ruled(backend, LIMITS, 1, 2, 3)
    assert await got(backend, read(ANA, 1)) == [1]
    await backend.perform(Nack(S, G, ids(1), mode=NackMode.SILENT))
    assert await got(backend, read(ANA)) == [1]
    assert await got(backend, read(ANA)) == []


async def test_a_reader_waits_for_its_turn_in_the_rate(backend: Backend) -> None:
    await ruled(backend, GroupPolicy(rate_per_s=20, rate_burst=1), 1, 2)
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
