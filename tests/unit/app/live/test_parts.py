"""Parts of a connection: its outbox, the sources that it merges, and what it holds."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

import pytest

from headgate.app.live.followed import Held
from headgate.app.live.outbox import Outbox
from headgate.app.live.subscription import merged
from headgate.engine.entry import EntryId
from headgate.engine.replies import Delivery, Outcome
from tests.conditions import WITHIN_S
from tests.virtual_time import in_virtual_time, now_ms


class SlowSocket:
    """A client that takes each frame after so many seconds."""

    def __init__(self, *delays_s: float) -> None:
        self.taken: list[str] = []
        self._delays_s = list(delays_s)

    def send_at_once(self, text: str) -> bool:
        return False

    async def send_text(self, text: str) -> None:
        await asyncio.sleep(self._delays_s.pop(0))
        self.taken.append(text)


@pytest.mark.parametrize(
    ("delays_s", "closes", "stuck_at_ms"),
    [
        ([0.5, 0, 0.2], False, []),
        ([0.9] * 5, False, []),  # a slow client that takes every frame in time
        ([0.4, 5, 0], False, [1400]),
        ([0.4, 5, 0], True, []),  # nothing is noticed any more once it is closed
    ],
)
@in_virtual_time
async def test_frames_go_one_after_the_other_each_in_its_time(
    delays_s: list[float], closes: bool, stuck_at_ms: list[int]
) -> None:
    socket, stuck = SlowSocket(*delays_s), list[int]()
    outbox = Outbox(cast(Any, socket), patience_ms=1000, on_stuck=lambda: stuck.append(now_ms()))
    texts = list("abcde"[: len(delays_s)])
    sending = [asyncio.create_task(outbox.send(text)) for text in texts]
    await asyncio.sleep(0.5)
    if closes:
        outbox.close()
    await asyncio.gather(*sending)
    await asyncio.sleep(5)

    assert (socket.taken, stuck) == (texts, stuck_at_ms)


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

    async with asyncio.timeout(WITHIN_S):
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

    async with asyncio.timeout(WITHIN_S):
        taking = asyncio.create_task(take())
        await reading.wait()
        taking.cancel()
        await asyncio.wait([taking])
    assert order == ["source", "reader"]


ID_1, ID_2, ID_3 = (EntryId(ms, 0) for ms in (1, 2, 3))


def delivery(entry_id: EntryId, count: int = 1) -> Delivery:
    return Delivery(entry_id, (b"k", b"v"), 0, count - 1, None)


def holding(*ids: EntryId) -> Held:
    held = Held()
    held.add([delivery(entry_id) for entry_id in ids])
    return held


@pytest.mark.parametrize(
    "outcome", [Outcome.ACKED, Outcome.RELEASED, Outcome.CLAIMED, Outcome.NOT_PENDING]
)
def test_what_is_settled_lost_or_settled_elsewhere_is_held_no_more(outcome: Outcome) -> None:
    held = holding(ID_2, ID_3, EntryId(4, 0))
    held.add([delivery(ID_1)])

    held.keep([ID_1, ID_2, ID_3, EntryId(9, 0)])
    assert held.up_to(ID_2) == [ID_2, ID_1]  # in the order of sending
    assert held.settle([ID_2, ID_1], [outcome, outcome]) == 2
    assert list(held.counts) == [ID_3]


def test_what_another_consumer_took_over_is_held_no_more_unless_it_came_back() -> None:
    held = holding(ID_1, ID_2, ID_3)
    held.add([delivery(ID_2, 2)])  # it is told late that another took it: it is ours again

    assert held.take_away({ID_3: 1, ID_1: 1, ID_2: 1, EntryId(9, 0): 1}) == [ID_3, ID_1]

    assert held.take_away({ID_1: 1}) == []
    assert held.counts == {ID_2: 2}
