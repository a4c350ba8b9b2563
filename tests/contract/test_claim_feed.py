"""A consumer learns what others take over from it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import pytest

from headgate.app.backends.port import Ability, Backend
from headgate.engine.replies import Takeover
from headgate.engine.requests import deliveries
from tests.conditions import WITHIN_S, eventually
from tests.contract.calls import ANA, BEN, G, S, entry_id, filled, ids, take

pytestmark = pytest.mark.needs(Ability.CLAIM_FEED)

CEM = b"cem"


def claims(
    backend: Backend, consumer: bytes
) -> AbstractAsyncContextManager[AsyncIterator[Takeover]]:
    assert backend.claim_feed is not None
    return backend.claim_feed.claims(S, G, consumer)


async def claim(backend: Backend, consumer: bytes, *numbers: int) -> None:
    await backend.perform(deliveries.Claim(S, G, consumer, ids(*numbers), 0))


async def next_takeover(takeovers: AsyncIterator[Takeover]) -> tuple[dict[int, int], bytes]:
    """Return the next takeover: numbers with their delivery counts, and the new owner."""
    async with asyncio.timeout(WITHIN_S):
        takeover = await anext(takeovers)
    return {entry_id.ms: count for entry_id, count in takeover.counts.items()}, takeover.by


async def idle(backend: Backend) -> None:
    """Return once all pending entries have been idle for a while."""
    listing = deliveries.ListPending(S, G)
    await eventually(
        lambda: backend.perform(listing), lambda items: all(item.idle_ms for item in items)
    )


async def test_who_held_an_entry_is_told_who_has_it(backend: Backend) -> None:
    await filled(backend, 1, 2, 3)
    async with claims(backend, ANA) as takeovers:
        await backend.perform(take(ANA))
        await idle(backend)  # a backend may know times in milliseconds only
        await claim(backend, BEN, 1, 3)
        assert await next_takeover(takeovers) == ({1: 1, 3: 1}, BEN)
        await backend.perform(take(CEM, 1, claim_idle_ms=0))  # as the longest idle
        assert await next_takeover(takeovers) == ({2: 1}, CEM)
        await backend.perform(deliveries.Autoclaim(S, G, ANA, min_idle_ms=0))
        await claim(backend, BEN, 2)
        assert await next_takeover(takeovers) == ({2: 3}, BEN)


async def test_nobody_else_is_told(backend: Backend) -> None:
    await filled(backend, 1, 2)
    async with claims(backend, ANA) as takeovers:
        await backend.perform(take(BEN, 1))
        await backend.perform(take(ANA, 1))
        await claim(backend, CEM, 1)  # was another's
        await claim(backend, ANA, 2)  # is its own
        await claim(backend, CEM, 2)
        assert await next_takeover(takeovers) == ({2: 2}, CEM)


async def test_what_is_settled_or_given_back_is_taken_over_from_nobody(backend: Backend) -> None:
    await filled(backend, 1, 2, 3, 4)
    await backend.perform(take(ANA))
    async with claims(backend, ANA) as takeovers:
        await backend.perform(deliveries.Ack(S, G, ids(1)))
        await backend.perform(deliveries.Nack(S, G, ids(2), mode=deliveries.NackMode.SILENT))
        await backend.perform(deliveries.GiveBack(S, G, ANA, {entry_id(3): 1}))
        await claim(backend, BEN, 1, 2, 3)
        await claim(backend, BEN, 4)
        assert await next_takeover(takeovers) == ({4: 1}, BEN)


async def test_what_one_takes_step_by_step_may_be_told_at_once(backend: Backend) -> None:
    await filled(backend, *range(1, 11))
    await backend.perform(take(ANA))
    async with claims(backend, ANA) as takeovers:
        for number in range(1, 11):
            await claim(backend, BEN if number % 2 else CEM, number)
        by_taker: dict[bytes, dict[int, int]] = {BEN: {}, CEM: {}}
        while sum(map(len, by_taker.values())) < 10:
            counts, by = await next_takeover(takeovers)
            by_taker[by] |= counts
    assert {by: sorted(counts) for by, counts in by_taker.items()} == {
        BEN: [1, 3, 5, 7, 9],
        CEM: [2, 4, 6, 8, 10],
    }


async def test_each_who_asks_is_told(backend: Backend) -> None:
    await filled(backend, 1, 2)
    await backend.perform(take(ANA))
    async with claims(backend, ANA) as first:
        async with claims(backend, ANA) as other:
            await claim(backend, BEN, 1)
            assert await next_takeover(first) == await next_takeover(other) == ({1: 1}, BEN)
        await claim(backend, CEM, 2)
        assert await next_takeover(first) == ({2: 1}, CEM)


async def test_the_end_of_the_context_ends_the_iteration(backend: Backend) -> None:
    await filled(backend, 1)
    async with claims(backend, ANA) as takeovers:
        waiting = asyncio.ensure_future(anext(takeovers))
        await asyncio.sleep(0)
    with pytest.raises(StopAsyncIteration):
        await waiting
    with pytest.raises(StopAsyncIteration):
        await anext(takeovers)
