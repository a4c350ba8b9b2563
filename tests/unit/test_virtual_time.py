"""The loop that the blocking tests stand on."""

import asyncio
import time

import pytest

from tests.virtual_time import DeadlockError, VirtualLoop, in_virtual_time, now_ms, settle


@in_virtual_time
async def test_an_hour_passes_at_once_and_exactly() -> None:
    began = time.monotonic()
    await asyncio.sleep(3_600)
    assert now_ms() == 3_600_000
    assert time.monotonic() - began < 5


@in_virtual_time
async def test_timers_fire_in_the_order_of_their_times_each_at_its_own() -> None:
    fired: list[int] = []
    loop = asyncio.get_running_loop()
    for delay_ms in (300, 100, 200):
        loop.call_later(delay_ms / 1000, lambda: fired.append(now_ms()))
    await asyncio.sleep(1)
    assert fired == [100, 200, 300]


@in_virtual_time
async def test_settling_lets_everything_happen_that_needs_no_time() -> None:
    steps: list[int] = []

    async def walk() -> None:
        for number in range(100):
            steps.append(number)
            await asyncio.sleep(0)

    task = asyncio.get_running_loop().create_task(walk())
    await settle()
    assert task.done()
    assert (steps, now_ms()) == (list(range(100)), 0)


def test_waiting_for_what_can_never_happen_is_an_error() -> None:
    async def wait_forever() -> None:
        await asyncio.get_running_loop().create_future()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner, pytest.raises(DeadlockError):
        runner.run(wait_forever())
