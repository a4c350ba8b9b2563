"""Turn: all long work together has a bounded part of each turn of the event loop."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from headgate.engine import threads
from headgate.engine.threads import this_turn


@pytest.fixture(autouse=True)
def used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the time of each turn be used up at once."""
    monkeypatch.setattr(threads, "TURN_MS_MAX", 0)


async def turns_of(count: int, *, begins: bool) -> list[tuple[int, int]]:
    """Return the turns of the loop in which many go on, with their numbers."""
    at: list[tuple[int, int]] = []
    number = 0

    async def go_on(who: int) -> None:
        await (this_turn().begin() if begins else this_turn().pause())
        at.append((number, who))

    tasks = [asyncio.create_task(go_on(who)) for who in range(count)]
    while len(at) < count:
        await asyncio.sleep(0)
        number += 1
    await asyncio.gather(*tasks)
    return at


@pytest.mark.parametrize("begins", [True, False])
async def test_many_who_find_no_time_go_on_one_in_each_turn_in_order(begins: bool) -> None:
    at = await turns_of(50, begins=begins)

    assert len({number for number, _ in at}) == 50
    assert [who for _, who in at] == [*range(50)]


async def test_who_comes_back_at_once_does_not_come_before_others() -> None:
    turns = Counter[int]()

    async def work(who: int) -> None:
        while turns.total() < 400:
            await this_turn().begin()
            turns[who] += 1

    await asyncio.gather(*(work(who) for who in range(40)))

    assert set(turns.values()) <= {10, 11}


async def test_who_begins_and_who_goes_on_have_a_part_each() -> None:
    began: list[str] = []

    async def work(name: str) -> None:
        await (this_turn().begin() if name == "begins" else this_turn().pause())
        began.append(name)

    await asyncio.gather(*(work(name) for name in ["goes on"] * 20 + ["begins"] * 20))

    assert 8 <= began[:20].count("begins") <= 12


async def test_a_callback_comes_in_a_later_turn() -> None:
    called = asyncio.Event()
    this_turn().call_later(called.set)

    assert not called.is_set()
    await called.wait()


async def test_one_who_gives_up_keeps_nobody_waiting() -> None:
    given_up = [asyncio.create_task(this_turn().begin()) for _ in range(40)]
    waiting = asyncio.create_task(this_turn().begin())
    await asyncio.sleep(0)
    for task in given_up:
        task.cancel()
    await waiting


async def test_there_is_no_wait_while_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "TURN_MS_MAX", 10_000)
    others = asyncio.create_task(asyncio.sleep(0))
    await this_turn().begin()
    await this_turn().pause()
    assert not others.done()
    await this_turn().end()
    await others
