"""Merging: several sources in one."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from headgate.app.live.merging import merged


async def endless() -> AsyncGenerator[int, None]:
    while True:
        yield 0
        await asyncio.sleep(0)


async def test_a_reader_that_is_cancelled_ends_though_there_is_always_more() -> None:
    taken = 0

    async def take() -> None:
        nonlocal taken
        async with aclosing(merged(endless())) as parts:
            async for _ in parts:
                taken += 1
                if taken == 10:
                    taking.cancel()
                assert taken < 1000

    async with asyncio.timeout(10):
        taking = asyncio.create_task(take())
        await asyncio.wait([taking])
    assert taking.cancelled()


async def test_a_source_that_always_has_more_does_not_keep_others_from_their_turn() -> None:
    async def failing() -> AsyncGenerator[int, None]:
        yield 1
        raise ValueError("over")

    taken: list[int] = []

    async def take() -> None:
        async with aclosing(merged(endless(), failing())) as parts:
            async for part in parts:
                taken.append(part)
                assert len(taken) < 100

    with pytest.raises(ValueError, match="over"):
        await take()
    assert 1 in taken


async def test_a_source_has_ended_before_who_read_it_goes_on() -> None:
    order: list[str] = []
    reading = asyncio.Event()

    async def source() -> AsyncGenerator[int, None]:
        try:
            reading.set()
            await asyncio.Event().wait()
            yield 0
        finally:
            await asyncio.sleep(0)
            order.append("source")

    async def take() -> None:
        try:
            async with aclosing(merged(source())) as parts:
                async for _ in parts:
                    pass
        finally:
            order.append("reader")

    async with asyncio.timeout(10):
        taking = asyncio.create_task(take())
        await reading.wait()
        taking.cancel()
        await asyncio.wait([taking])
    assert order == ["source", "reader"]
