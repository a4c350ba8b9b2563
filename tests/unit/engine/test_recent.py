"""Recent: the newest values stay, within both bounds."""

from __future__ import annotations

from headgate.engine.limits import RECENT_BYTES_MAX, RECENT_COUNT_MAX
from headgate.engine.recent import Recent


def left(recent: Recent[int, int], count: int) -> list[int]:
    return [number for number in range(count) if recent.get(number) is not None]


def test_so_many_stay_and_one_that_is_put_again_is_the_newest() -> None:
    recent: Recent[int, int] = Recent()
    for number in range(RECENT_COUNT_MAX):
        recent.put(number, number, 1)
    recent.put(0, 7, 1)
    recent.put(RECENT_COUNT_MAX, 1, 1)
    assert left(recent, 99) == [0, *range(2, RECENT_COUNT_MAX + 1)]
    assert recent.get(0) == 7


def test_large_ones_leave_less_room_and_the_newest_stays_in_any_case() -> None:
    recent: Recent[int, int] = Recent()
    for number in range(4):
        recent.put(number, number, RECENT_BYTES_MAX // 2)
    assert left(recent, 9) == [2, 3]
    recent.put(4, 4, 2 * RECENT_BYTES_MAX)
    assert left(recent, 9) == [4]
    recent.put(5, 5, 1)
    assert left(recent, 9) == [5]
    recent.clear()
    assert left(recent, 9) == []
