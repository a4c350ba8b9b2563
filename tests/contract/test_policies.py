"""The policy of a group about entries that fail."""

import asyncio

import pytest

from headgate.app.backends.port import Ability, Backend
from headgate.engine.config import GroupPolicy, Patch
from headgate.engine.entry import MIN_ID
from headgate.engine.errors import Invalid, StreamNotFound
from headgate.engine.requests.deliveries import (
    Ack,
    Autoclaim,
    Claim,
    GroupCursor,
    ListPending,
    Nack,
    NackMode,
    ReadGroup,
    Redrive,
)
from headgate.engine.requests.entries import Add, Range
from headgate.engine.requests.groups import (
    CreateGroup,
    DescribeGroup,
    DestroyGroup,
    GroupStart,
    ListGroups,
    UpdateGroup,
)
from tests.contract.calls import (
    ANA,
    BEN,
    G,
    S,
    drafts,
    filled,
    got,
    held,
    ids,
    numbers,
    take,
    taken,
)

pytestmark = pytest.mark.needs(Ability.POLICIES)

DEAD = b"orders-dead"
ONCE = GroupPolicy(max_deliveries=1, dead_letter_stream=DEAD)
TWICE = GroupPolicy(max_deliveries=2, dead_letter_stream=DEAD)


async def governed(backend: Backend, policy: GroupPolicy, *numbers: int) -> None:
    await backend.perform(Add(S, drafts(*numbers)))
    await backend.perform(CreateGroup(S, G, GroupStart(MIN_ID), policy=policy))


async def test_what_fails_too_often_becomes_a_dead_letter_in_one_step(backend: Backend) -> None:
    await governed(backend, TWICE, 1)
    for _ in range(2):
        assert await got(backend, take(ANA, claim_idle_ms=3_600_000)) == [1]
        await backend.perform(Nack(S, G, ids(1), mode=NackMode.FAIL))
    assert await held(backend) == {}
    [dead_letter] = await backend.perform(Range(DEAD))
    assert dead_letter.fields[:2] == (b"n", b"1")


async def test_what_is_claimed_too_often_becomes_a_dead_letter(backend: Backend) -> None:
    await governed(backend, TWICE, 1)
    assert await got(backend, take(ANA)) == [1]
    assert await got(backend, take(BEN, claim_idle_ms=0)) == [1]
    assert await got(backend, take(ANA, claim_idle_ms=0)) == []
    assert len(await numbers(backend, DEAD)) == 1


async def test_dead_letters_are_sent_back(backend: Backend) -> None:
    await governed(backend, TWICE, 1)
    await backend.perform(take(ANA))
    await backend.perform(Nack(S, G, ids(1), mode=NackMode.FATAL))
    [redriven] = await backend.perform(Redrive(S, G))
    assert await numbers(backend, DEAD) == []
    assert await got(backend, take(BEN, claim_idle_ms=3_600_000)) == [redriven.entry_id.ms]


async def test_what_failed_waits_for_its_delay(backend: Backend) -> None:
    await governed(backend, GroupPolicy(backoff_ms=(50,)), 1)
    await backend.perform(take(ANA))
    await backend.perform(Nack(S, G, ids(1), mode=NackMode.FAIL))
    assert await got(backend, take(BEN, claim_idle_ms=3_600_000)) == []
    async with asyncio.timeout(10):
        assert await got(backend, take(BEN, claim_idle_ms=3_600_000), None) == [1]


async def test_what_is_pending_says_how_long_nobody_gets_it(backend: Backend) -> None:
    await governed(backend, GroupPolicy(), 1, 2, 3)
    await backend.perform(take(ANA))
    await backend.perform(Nack(S, G, ids(1), mode=NackMode.FAIL, delay_ms=3_600_000))
    await backend.perform(Nack(S, G, ids(2), mode=NackMode.FAIL))
    delayed, released, owned = await backend.perform(ListPending(S, G))
    assert 3_000_000 < delayed.delay_ms <= 3_600_000
    assert (released.delay_ms, owned.delay_ms) == (0, 0)


async def test_an_error_is_kept_until_the_entry_is_settled(backend: Backend) -> None:
    await filled(backend, 1, 2)
    await backend.perform(take(ANA))
    await backend.perform(Nack(S, G, ids(1), NackMode.FAIL, error=b"timeout"))
    await backend.perform(Nack(S, G, ids(2), NackMode.FAIL))
    assert await errors(backend) == [b"timeout", None]

    deliveries = await taken(backend, take(BEN, claim_idle_ms=3_600_000))
    assert [delivery.last_error for delivery in deliveries] == [b"timeout", None]
    again = await taken(backend, ReadGroup(G, BEN, [GroupCursor(S, MIN_ID)]))
    assert [delivery.last_error for delivery in again] == [b"timeout", None]
    claimed = await backend.perform(Claim(S, G, ANA, ids(1, 2), 0))
    assert [delivery.last_error for delivery in claimed.deliveries] == [b"timeout", None]
    page = await backend.perform(Autoclaim(S, G, BEN, 0))
    assert [delivery.last_error for delivery in page.deliveries] == [b"timeout", None]

    await backend.perform(Nack(S, G, ids(1, 2), NackMode.FAIL, error=b"refused"))
    await backend.perform(Nack(S, G, ids(1, 2), NackMode.SILENT))
    assert await errors(backend) == [b"refused", b"refused"]

    await backend.perform(Ack(S, G, ids(1, 2)))
    await backend.perform(Nack(S, G, ids(1, 2), NackMode.FAIL, force=True))
    assert await errors(backend) == [None, None]


async def errors(backend: Backend) -> list[bytes | None]:
    return [item.last_error for item in await backend.perform(ListPending(S, G))]


@pytest.mark.parametrize("mode", [NackMode.FAIL, NackMode.FATAL])
async def test_a_dead_letter_says_the_last_error_and_is_sent_back(
    backend: Backend, mode: NackMode
) -> None:
    await governed(backend, ONCE, 1)
    await backend.perform(take(ANA))
    await backend.perform(Nack(S, G, ids(1), mode, error=b"timeout"))
    [dead_letter] = await backend.perform(Range(DEAD))
    assert dead_letter.fields[-2:] == (b"_error", b"timeout")

    assert len(await backend.perform(Redrive(S, G))) == 1
    [delivery] = await taken(backend, take(BEN, claim_idle_ms=3_600_000))
    assert (delivery.fields, delivery.last_error) == ((b"n", b"1"), None)


async def test_an_error_goes_with_its_group(backend: Backend) -> None:
    await filled(backend, 1)
    await backend.perform(take(ANA))
    await backend.perform(Nack(S, G, ids(1), NackMode.FAIL, error=b"timeout"))
    await backend.perform(DestroyGroup(S, G))
    await backend.perform(CreateGroup(S, G, GroupStart(MIN_ID)))
    await backend.perform(take(ANA))
    assert await errors(backend) == [None]


async def test_a_policy_that_contradicts_itself_changes_nothing(backend: Backend) -> None:
    await governed(backend, TWICE, 1)
    with pytest.raises(Invalid):
        await backend.perform(
            CreateGroup(S, b"other", GroupStart(MIN_ID), policy=GroupPolicy(max_deliveries=2))
        )
    assert [info.name for info in await backend.perform(ListGroups(S))] == [G]
    assert (await backend.perform(DescribeGroup(S, G))).policy == TWICE


async def test_dead_letters_need_a_stream(backend: Backend) -> None:
    await governed(backend, GroupPolicy(), 1)
    with pytest.raises(Invalid):
        await backend.perform(Redrive(S, G))


async def test_a_policy_may_have_to_name_a_stream_that_exists(backend: Backend) -> None:
    await backend.perform(Add(S, drafts(1)))
    patch = Patch.of(GroupPolicy, max_deliveries=1, dead_letter_stream=DEAD)
    bound = CreateGroup(S, G, GroupStart(MIN_ID), policy=ONCE, targets_exist=True)
    with pytest.raises(StreamNotFound) as missing:
        await backend.perform(bound)
    assert missing.value.stream == DEAD
    await backend.perform(CreateGroup(S, b"other", GroupStart(MIN_ID), targets_exist=True))
    with pytest.raises(StreamNotFound):
        await backend.perform(UpdateGroup(S, b"other", policy=patch, targets_exist=True))
    await backend.perform(Add(DEAD, drafts(1)))
    await backend.perform(bound)
    await backend.perform(UpdateGroup(S, b"other", policy=patch, targets_exist=True))
