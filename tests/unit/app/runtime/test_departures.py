"""Departures: who leaves alone leaves at once; of many, some in each turn of the loop, in order."""

import asyncio
from functools import partial

from headgate.app.runtime.departures import LEAVERS_AT_ONCE_MAX, Departures


async def test_many_leave_in_turns_and_in_order() -> None:
    departures, gone, counts = Departures(), list[int](), list[int]()
    many = 5 * LEAVERS_AT_ONCE_MAX + 1
    for number in range(many):
        departures.add(partial(gone.append, number))
    while departures:
        counts.append(len(gone))
        await asyncio.sleep(0)
    counts.append(len(gone))

    assert gone == list(range(many))
    assert counts == [*range(LEAVERS_AT_ONCE_MAX, many, LEAVERS_AT_ONCE_MAX), many]


async def test_one_that_fails_does_not_hold_up_the_others() -> None:
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, what: reported.append(what["exception"])
    )
    departures, gone, error = Departures(), list[int](), ValueError()

    def fail() -> None:
        raise error

    for number in range(LEAVERS_AT_ONCE_MAX):
        departures.add(partial(gone.append, number))
    departures.add(fail)
    for number in range(2 * LEAVERS_AT_ONCE_MAX):
        departures.add(partial(gone.append, number))
    for _ in range(10):
        await asyncio.sleep(0)

    assert not departures
    assert reported == [error]
    assert len(gone) == 3 * LEAVERS_AT_ONCE_MAX
