"""Turn: all long work together has a bounded part of each turn of the event loop."""

from __future__ import annotations

import asyncio

import pytest

from headgate.engine.threads import turn
from headgate.engine.threads.turn import this_turn


@pytest.fixture(autouse=True)
def used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the time of each turn be used up at once."""
    monkeypatch.setattr(turn, "TURN_MS_MAX", 0)


async def turns_of(count: int, *, begins: bool) -> list[int]:
    """Return the turn of the loop in which each of many goes on, in order of arrival."""
    at: list[int] = []
    number = 0

    async def go_on() -> None:
        await (this_turn().begin() if begins else this_turn().pause())
        at.append(number)

    tasks = [asyncio.create_task(go_on()) for _ in range(count)]
    while len(at) < count:
        await asyncio.sleep(0)
        number += 1
    await asyncio.gather(*tasks)
    return at


@pytest.mark.parametrize("begins", [True, False])
async def test_many_who_find_the_time_used_up_go_on_one_in_each_turn(begins: bool) -> None:
    at = await turns_of(50, begins=begins)

    assert len(set(at)) == 50
    assert at == sorted(at)


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
    given_up = [asyncio.create_task(this_turn().begin()) for _ in range(3)]
    waiting = asyncio.create_task(this_turn().begin())
    await asyncio.sleep(0)
    for task in given_up:
        task.cancel()
    await waiting


async def test_there_is_no_wait_while_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "TURN_MS_MAX", 10_000)
    others = asyncio.create_task(asyncio.sleep(0))
    await this_turn().begin()
    await this_turn().pause()
    assert not others.done()
    await this_turn().end()
    await others
