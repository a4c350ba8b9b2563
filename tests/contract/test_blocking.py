"""A blocked read gets what comes, in order of arrival, and leaves nothing behind."""

import asyncio

import pytest

from headgate.app.backends.port import Backend
from headgate.engine.requests.entries import Add
from tests.contract.calls import ANA, BEN, S, blocked, drafts, entry_id, filled, got, held, take


async def test_who_comes_later_waits_behind_those_who_wait(backend: Backend) -> None:
    await filled(backend)
    [first] = await blocked(backend, got(backend, take(ANA, 1), None))
    append = asyncio.create_task(backend.perform(Add(S, drafts(1))))
    assert await got(backend, take(BEN, 1)) == []
    await append
    assert await first == [1]


async def test_a_reader_that_is_cancelled_leaves_what_comes_to_the_next(backend: Backend) -> None:
    await filled(backend)
    first, second = await blocked(
        backend, got(backend, take(ANA), None), got(backend, take(BEN), None)
    )
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await backend.perform(Add(S, drafts(1)))
    assert await second == [1]
    assert (await held(backend), backend.waiter_count) == ({1: BEN}, 0)


async def test_what_came_in_the_moment_of_a_cancel_goes_back(backend: Backend) -> None:
    await filled(backend)
    [task] = await blocked(backend, got(backend, take(ANA), None))
    append = asyncio.create_task(backend.perform(Add(S, drafts(1))))
    await asyncio.sleep(0)  # the append is decided, and nobody has been answered
    task.cancel()
    await asyncio.gather(task, append, return_exceptions=True)
    async with asyncio.timeout(10):  # a server may have answered the reader that has gone
        while ANA in (await held(backend)).values():
            await asyncio.sleep(0)
    [delivery] = (await backend.perform(take(BEN, claim_idle_ms=0)))[0].deliveries
    assert (delivery.id, delivery.delivered_before) == (entry_id(1), 0)
