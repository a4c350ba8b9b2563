"""Deliveries, acknowledgements, fencing, claims, and what is given back."""

import pytest
from msgspec.structs import replace

from headgate.app.backends.port import Backend
from headgate.engine.entry import MIN_ID
from headgate.engine.errors import GroupNotFound
from headgate.engine.replies import GroupState, Outcome
from headgate.engine.requests.deliveries import (
    Ack,
    AckThrough,
    Autoclaim,
    Claim,
    Extend,
    GiveBack,
    GroupCursor,
    Nack,
    NackMode,
    ReadGroup,
    SumPending,
)
from headgate.engine.requests.entries import Add, Delete
from headgate.engine.requests.groups import CreateGroup, GroupStart
from tests.contract.calls import (
    ANA,
    BEN,
    G,
    S,
    drafts,
    entry_id,
    filled,
    got,
    held,
    ids,
    take,
    taken,
)


async def test_each_entry_goes_to_one_consumer(backend: Backend) -> None:
    await filled(backend, 1, 2, 3)
    assert await got(backend, take(ANA, 2)) == [1, 2]
    assert await got(backend, take(BEN, 2)) == [3]
    assert await held(backend) == {1: ANA, 2: ANA, 3: BEN}


async def test_a_consumer_reads_its_own_again(backend: Backend) -> None:
    await filled(backend, 1, 2, 3)
    await backend.perform(take(ANA, 2))
    history = ReadGroup(G, ANA, [GroupCursor(S, MIN_ID)])
    assert await got(backend, history) == [1, 2]
    assert await got(backend, replace(history, consumer=BEN)) == []


async def test_what_is_read_without_acks_is_not_pending(backend: Backend) -> None:
    await filled(backend, 1)
    assert await got(backend, replace(take(ANA), no_ack=True)) == [1]
    assert await held(backend) == {}


async def test_a_consumer_that_holds_enough_gets_no_more(backend: Backend) -> None:
    await filled(backend, 1, 2, 3)
    request = replace(take(ANA), max_pending=2)
    assert await got(backend, request) == [1, 2]
    [read] = await backend.perform(request)
    assert (read.deliveries, read.state) == ([], GroupState.MAX_PENDING)
    await backend.perform(Ack(S, G, ids(1)))
    assert await got(backend, request) == [3]


async def test_an_ack_settles_once(backend: Backend) -> None:
    await filled(backend, 1)
    await backend.perform(take(ANA))
    assert await backend.perform(Ack(S, G, ids(1, 9))) == [Outcome.ACKED, Outcome.NOT_PENDING]
    assert await backend.perform(Ack(S, G, ids(1))) == [Outcome.NOT_PENDING]


async def test_what_somebody_else_holds_is_not_settled(backend: Backend) -> None:
    await filled(backend, 1)
    await backend.perform(take(ANA))
    assert await backend.perform(Ack(S, G, ids(1), consumer=BEN)) == [Outcome.CLAIMED]
    outcomes = await backend.perform(Nack(S, G, ids(1), mode=NackMode.FAIL, consumer=BEN))
    assert outcomes == [Outcome.CLAIMED]
    assert await backend.perform(Extend(S, G, ids(1), consumer=BEN)) == [Outcome.CLAIMED]
    assert await backend.perform(Extend(S, G, ids(1), consumer=ANA)) == [Outcome.EXTENDED]
    assert await held(backend) == {1: ANA}


async def test_a_read_acknowledges_first_what_it_was_told_to(backend: Backend) -> None:
    await filled(backend, 1, 2)
    await backend.perform(take(ANA, 1))
    await backend.perform(replace(take(ANA, 1), acked=ids(1)))
    assert await held(backend) == {2: ANA}


async def test_an_ack_reaches_as_far_as_what_was_seen(backend: Backend) -> None:
    await filled(backend, 1, 2, 3)
    await backend.perform(take(ANA))
    await backend.perform(AckThrough(S, G, ANA, entry_id(2)))
    assert await held(backend) == {3: ANA}


async def test_a_claim_takes_what_is_idle_enough(backend: Backend) -> None:
    await filled(backend, 1, 2)
    await backend.perform(take(ANA))
    nothing = await backend.perform(Claim(S, G, BEN, ids(1), 3_600_000))
    assert nothing.deliveries == []
    claimed = await backend.perform(Claim(S, G, BEN, ids(1, 9), 0))
    [delivery] = claimed.deliveries
    assert (delivery.id, delivery.claimed_from, delivery.delivery_count) == (entry_id(1), ANA, 2)
    assert await held(backend) == {1: BEN, 2: ANA}


async def test_idle_entries_are_claimed_a_page_at_a_time(backend: Backend) -> None:
    await filled(backend, 1, 2, 3)
    await backend.perform(take(ANA))
    first = await backend.perform(Autoclaim(S, G, BEN, min_idle_ms=0, limit=2))
    assert [delivery.id.ms for delivery in first.deliveries] == [1, 2]
    second = await backend.perform(Autoclaim(S, G, BEN, min_idle_ms=0, start=first.next_start))
    assert ([delivery.id.ms for delivery in second.deliveries], second.next_start) == ([3], MIN_ID)


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


async def test_what_is_gone_from_the_stream_leaves_the_pending_ones_when_claimed(
    backend: Backend,
) -> None:
    await filled(backend, 1, 2)
    await backend.perform(take(ANA))
    await backend.perform(Delete(S, ids(1)))
    claimed = await backend.perform(Autoclaim(S, G, BEN, min_idle_ms=0))
    assert claimed.deleted_ids == ids(1)
    assert await held(backend) == {2: BEN}


async def test_what_is_given_back_comes_first_to_the_next(backend: Backend) -> None:
    await filled(backend, 1, 2, 3)
    await backend.perform(take(ANA, 2))
    assert await backend.perform(Nack(S, G, ids(2), mode=NackMode.FAIL)) == [Outcome.RELEASED]
    assert await held(backend) == {1: ANA, 2: None}
    [delivery] = await taken(backend, take(BEN, 1, claim_idle_ms=3_600_000))
    assert (delivery.id, delivery.delivered_before) == (entry_id(2), 1)


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


async def test_pending_entries_are_summed_up(backend: Backend) -> None:
    await filled(backend, 1, 2, 3)
    await backend.perform(take(BEN, 1))
    await backend.perform(take(ANA, 2))
    summary = await backend.perform(SumPending(S, G))
    assert (summary.total, summary.min_id, summary.max_id) == (3, entry_id(1), entry_id(3))
    assert summary.consumers == [(ANA, 2), (BEN, 1)]
