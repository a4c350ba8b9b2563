"""Deliveries, acknowledgements, fencing, claims, and what is given back."""

import pytest
from msgspec.structs import replace

from headgate.app.backends.port import Ability, Backend
from headgate.engine.config import GroupPolicy, Patch
from headgate.engine.entry import MIN_ID
from headgate.engine.errors import GroupNotFound, StreamNotFound
from headgate.engine.replies import Outcome
from headgate.engine.requests.deliveries import (
    AckThrough,
    Autoclaim,
    Claim,
    GiveBack,
    GroupCursor,
    Nack,
    NackMode,
)
from headgate.engine.requests.entries import Add
from headgate.engine.requests.groups import (
    CreateConsumer,
    CreateGroup,
    GroupStart,
    ListConsumers,
    ListGroups,
    UpdateGroup,
)
from tests.contract.calls import ANA, BEN, G, S, drafts, entry_id, filled, held, ids, take, taken

DEAD = b"orders-dead"


async def test_an_ack_reaches_as_far_as_what_was_seen(backend: Backend) -> None:
    await filled(backend, 1, 2, 3)
    await backend.perform(take(ANA))
    await backend.perform(AckThrough(S, G, ANA, entry_id(2)))
    assert await held(backend) == {3: ANA}


async def test_a_claim_ends_before_what_is_too_much(backend: Backend) -> None:
    await filled(backend, 1, 2, 3)  # of two bytes each
    await backend.perform(take(ANA))
    for size_bytes_max, claimed in [(0, [1]), (3, [1]), (4, [1, 2]), (6, [1, 2, 3])]:
        request = Claim(S, G, BEN, ids(1, 2, 3), 0, size_bytes_max=size_bytes_max)
        deliveries = (await backend.perform(request)).deliveries
        assert [delivery.id.ms for delivery in deliveries] == claimed
        assert await held(backend, BEN) == dict.fromkeys(claimed, BEN)
    request = Claim(S, G, ANA, ids(1, 2, 3), 0, just_id=True, size_bytes_max=0)
    assert len((await backend.perform(request)).deliveries) == 3


async def test_a_page_of_claims_ends_before_what_is_too_much(backend: Backend) -> None:
    await filled(backend, 1, 2, 3)
    await backend.perform(take(ANA))
    page = await backend.perform(Autoclaim(S, G, BEN, 0, size_bytes_max=3))
    assert ([each.id.ms for each in page.deliveries], page.next_start) == ([1], entry_id(2))
    page = await backend.perform(Autoclaim(S, G, BEN, 0, page.next_start, size_bytes_max=4))
    assert ([each.id.ms for each in page.deliveries], page.next_start) == ([2, 3], MIN_ID)


async def test_a_delivery_nobody_received_was_none(backend: Backend) -> None:
    await filled(backend, 1)
    await backend.perform(take(ANA))
    await backend.perform(GiveBack(S, G, ANA, {entry_id(1): 1}))
    [delivery] = await taken(backend, take(BEN, claim_idle_ms=3_600_000))
    assert delivery.delivered_before == 0
    await backend.perform(GiveBack(S, G, ANA, {entry_id(1): 1}))  # it is another's by now
    assert await held(backend) == {1: BEN}


async def test_only_the_delivery_that_failed_is_given_back(backend: Backend) -> None:
    await filled(backend, 1, 2, 3)
    await backend.perform(take(ANA, 3))
    await backend.perform(Claim(S, G, ANA, ids(2), min_idle_ms=0))  # over another connection
    hour_ms = 3_600_000
    await backend.perform(Nack(S, G, ids(3), NackMode.FAIL, delay_ms=hour_ms, consumer=ANA))
    counts = dict.fromkeys(ids(1, 2, 3), 1)
    nack = Nack(S, G, ids(1, 2, 3), NackMode.FAIL, consumer=ANA, counts=counts)
    outcomes = [Outcome.RELEASED, Outcome.CLAIMED, Outcome.CLAIMED]
    assert await backend.perform(nack) == outcomes
    assert await held(backend) == {1: None, 2: ANA, 3: None}
    again = take(BEN, 3, claim_idle_ms=hour_ms)  # 3 still has its delay
    assert [each.id for each in await taken(backend, again)] == ids(1)


async def test_a_read_of_two_streams_fails_as_a_whole(backend: Backend) -> None:
    await filled(backend, 1)
    await backend.perform(Add(b"other", drafts(1)))
    request = replace(take(ANA), cursors=[GroupCursor(S), GroupCursor(b"other")])
    with pytest.raises(GroupNotFound):
        await backend.perform(request)
    assert await held(backend) == {}
    await backend.perform(CreateGroup(b"other", G, GroupStart(MIN_ID)))
    assert [len(read.deliveries) for read in await backend.perform(request)] == [1, 1]


async def test_groups_and_consumers_are_listed_a_page_at_a_time(backend: Backend) -> None:
    await backend.perform(Add(S, drafts(1)))
    for name in (b"c", b"a", b"b"):
        await backend.perform(CreateGroup(S, name, GroupStart(MIN_ID)))
        await backend.perform(CreateConsumer(S, b"c", name)) if name != b"c" else None
    first = [info.name for info in await backend.perform(ListGroups(S, limit=2))]
    assert first == [b"a", b"b"]
    assert [
        info.name for info in await backend.perform(ListGroups(S, after=first[-1], limit=2))
    ] == [b"c"]
    assert [info.name for info in await backend.perform(ListConsumers(S, b"c", after=b"a"))] == [
        b"b"
    ]


@pytest.mark.needs(Ability.POLICIES)
async def test_a_policy_may_have_to_name_a_stream_that_exists(backend: Backend) -> None:
    await backend.perform(Add(S, drafts(1)))
    patch = Patch.of(GroupPolicy, max_deliveries=1, dead_letter_stream=DEAD)
    bound = CreateGroup(
        S,
        G,
        GroupStart(MIN_ID),
        policy=GroupPolicy(max_deliveries=1, dead_letter_stream=DEAD),
        targets_exist=True,
    )
    with pytest.raises(StreamNotFound) as missing:
        await backend.perform(bound)
    assert missing.value.stream == DEAD
    await backend.perform(CreateGroup(S, b"other", GroupStart(MIN_ID), targets_exist=True))
    with pytest.raises(StreamNotFound):
        await backend.perform(UpdateGroup(S, b"other", policy=patch, targets_exist=True))
    await backend.perform(Add(DEAD, drafts(1)))
    await backend.perform(bound)
    await backend.perform(UpdateGroup(S, b"other", policy=patch, targets_exist=True))
