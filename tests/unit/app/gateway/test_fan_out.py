"""FanOut at the end of a stream wait by one read, and go on alone where they must."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import pairwise
from typing import Any, cast

import pytest

from headgate.app.gateway.fan_out import FanOut
from headgate.engine.entry import Draft
from headgate.engine.limits import SERVED_AT_ONCE_MAX
from headgate.engine.replies import StreamRead
from headgate.engine.requests import Request
from headgate.engine.requests.entries import Add, Read, StreamCursor, Trim, TrimTo
from headgate.engine.requests.streams import CloseStream, DeleteStream
from tests.conditions import until
from tests.unit.driver import Driver, S, entry_id


class Reader:
    """A recipient that takes so many reads."""

    def __init__(self, fan_out: FanOut, takes: int = 100) -> None:
        self.numbers: list[int] = []
        self._fan_out, self._left = fan_out, takes

    def take(self, read: StreamRead) -> bool:
        if self._left:
            self._left -= 1
            self.numbers += [entry.id.ms for entry in read.entries]
            return True
        return False

    def begin(self, after: int) -> asyncio.Task[None]:
        cursor = StreamCursor(S, entry_id(after))
        request = Read((cursor,), limit=3, wait_ms=None)
        return asyncio.create_task(self._fan_out.wait(self, request))


def _have(number: int, readers: list[Reader]) -> bool:
    return all(reader.numbers[-1:] == [number] for reader in readers)


async def following(engine: Driver) -> FanOut:
    await engine.put(1)
    return FanOut(cast("Any", engine))


async def test_all_get_what_comes_in_order_by_one_read() -> None:
    engine = Driver()
    fan_out = await following(engine)
    readers = [Reader(fan_out) for _ in range(5)]
    waiting = [reader.begin(1) for reader in readers]
    for number in (2, 3):
        await until(lambda: engine.waiter_count == 1)
        assert fan_out.waiter_count == 4
        await engine.put(number)
        await until(partial(_have, number, readers))
    assert [reader.numbers for reader in readers] == [[2, 3]] * 5

    for task in waiting:
        task.cancel()
    await until(lambda: not engine.waiter_count)
    assert fan_out.waiter_count == 0


async def test_who_cannot_take_goes_on_alone_and_may_come_back() -> None:
    engine = Driver()
    fan_out = await following(engine)
    slow, other = Reader(fan_out, takes=1), Reader(fan_out)
    waiting = slow.begin(1), other.begin(1)
    for number in (2, 3):
        await until(lambda: engine.waiter_count == 1)
        await engine.put(number)
        await until(partial(_have, number, [other]))
    await waiting[0]
    assert slow.numbers == [2]

    back = slow.begin(3)  # it has read 3 by itself
    await until(lambda: fan_out.waiter_count == 1)
    assert engine.waiter_count == 1
    for task in (back, waiting[1]):
        task.cancel()
    await until(lambda: not engine.waiter_count)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([DeleteStream(S)], id="the stream is deleted"),
        pytest.param([CloseStream(S)], id="the stream is closed"),
    ],
)
async def test_all_read_alone_if_more_is_to_be_told(changes: list[Request[Any]]) -> None:
    engine = Driver()
    fan_out = await following(engine)
    readers = [Reader(fan_out) for _ in range(3)]
    waiting = [reader.begin(1) for reader in readers]
    await until(lambda: engine.waiter_count == 1)
    for request in changes:
        await engine.perform(request)
    await asyncio.gather(*waiting)
    assert [reader.numbers for reader in readers] == [[]] * 3


@pytest.mark.parametrize("change", [DeleteStream(S), Add(S, [Draft(None, (b"n", b"2"))])])
async def test_few_read_by_themselves_in_one_turn(change: Request[Any]) -> None:
    engine = Driver()
    fan_out = await following(engine)
    waiting = [Reader(fan_out, takes=0).begin(1) for _ in range(3 * SERVED_AT_ONCE_MAX)]
    await until(lambda: engine.waiter_count == 1)
    changing = asyncio.create_task(engine.perform(change))
    ended = [0]
    while ended[-1] < len(waiting):
        await asyncio.sleep(0)
        ended.append(sum(task.done() for task in waiting))
    assert max(later - before for before, later in pairwise(ended)) <= SERVED_AT_ONCE_MAX
    await changing


async def test_what_is_more_than_one_read_is_read_alone() -> None:
    engine = Driver()
    fan_out = await following(engine)
    reader = Reader(fan_out)
    waiting = reader.begin(1)
    await until(lambda: engine.waiter_count == 1)
    await engine.put(2, 3, 4, 5)
    await waiting
    assert reader.numbers == []


async def test_what_was_trimmed_meanwhile_is_not_passed_over() -> None:
    engine = Driver()
    fan_out = await following(engine)
    await engine.put(2, 3)
    await engine.perform(Trim(S, TrimTo(max_length=1)))
    reader = Reader(fan_out)
    await reader.begin(1)
    assert reader.numbers == []
