"""A blocked read gets what comes, in order of arrival, and leaves nothing behind."""

import asyncio

import pytest

from headgate.app.backends.port import Backend
from headgate.engine.entry import MIN_ID
from headgate.engine.errors import GroupNotFound
from headgate.engine.requests.entries import Add
from headgate.engine.requests.streams import DeleteStream
from tests.contract.calls import (
    ANA,
    BEN,
    S,
    blocked,
    drafts,
    entry_id,
    filled,
    got,
    held,
    read_after,
    take,
)


async def test_every_reader_of_a_stream_gets_what_comes(backend: Backend) -> None:
    tasks = await blocked(backend, *(read_after(backend, MIN_ID, None) for _ in range(3)))
    await backend.perform(Add(S, drafts(1)))
    assert await asyncio.gather(*tasks) == [[1], [1], [1]]
    assert backend.waiter_count == 0


async def test_what_one_append_brings_comes_together(backend: Backend) -> None:
    [task] = await blocked(backend, read_after(backend, MIN_ID, None))
    await backend.perform(Add(S, drafts(1, 2, 3)))
    assert await task == [1, 2, 3]


async def test_consumers_are_served_in_order_of_arrival(backend: Backend) -> None:
    await filled(backend)
    first, second = await blocked(
        backend, got(backend, take(BEN, 1), None), got(backend, take(ANA, 1), None)
    )
    await backend.perform(Add(S, drafts(1)))
    assert await first == [1]
    assert not second.done()
    await backend.perform(Add(S, drafts(2)))
    assert await second == [2]
    assert await held(backend) == {1: BEN, 2: ANA}


async def test_who_comes_later_waits_behind_those_who_wait(backend: Backend) -> None:
    await filled(backend)
    [first] = await blocked(backend, got(backend, take(ANA, 1), None))
    append = asyncio.create_task(backend.perform(Add(S, drafts(1))))
    assert await got(backend, take(BEN, 1)) == []
    await append
    assert await first == [1]


async def test_a_wait_that_is_over_brings_nothing_and_leaves_nothing(backend: Backend) -> None:
    await filled(backend)
    assert await got(backend, take(ANA), 1) == []
    assert await read_after(backend, MIN_ID, 1) == []
    assert backend.waiter_count == 0
    await backend.perform(Add(S, drafts(1)))
    assert await held(backend) == {}


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


async def test_a_group_that_goes_ends_the_reads_that_wait_for_it(backend: Backend) -> None:
    await filled(backend)
    [task] = await blocked(backend, got(backend, take(ANA), None))
    await backend.perform(DeleteStream(S))
    with pytest.raises(GroupNotFound):
        await task


async def test_a_read_waits_until_an_entry_has_been_idle_for_so_long(backend: Backend) -> None:
    await filled(backend, 1)
    assert await got(backend, take(ANA)) == [1]
    async with asyncio.timeout(10):
        assert await got(backend, take(BEN, claim_idle_ms=20), None) == [1]
    assert await held(backend) == {1: BEN}
