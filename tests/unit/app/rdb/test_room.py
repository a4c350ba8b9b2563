"""Room: what all readers take together has a bound, and is given back."""

import pytest

from headgate.app.rdb.payload import read_payload
from headgate.app.rdb.room import GivenUp, RoomTaken, TooMuch, UnpackingRoom
from tests.unit.app.rdb.bombs import BOMBS, Bomb


def test_shares_have_one_bound_together() -> None:
    room = UnpackingRoom(100, 10)
    with room.share() as first, room.share() as second:
        first.take(60, 6)
        for size_bytes, elements in ((41, 0), (0, 5)):
            with pytest.raises(RoomTaken):
                second.take(size_bytes, elements)
        for size_bytes, elements in ((101, 0), (0, 11)):
            with pytest.raises(TooMuch):
                second.take(size_bytes, elements)
        first.give_back(20)
        second.take(60, 4)
    assert (room.size_bytes, room.elements) == (0, 0)
    with pytest.raises(GivenUp):
        second.take(0)
    second.give_back(5)
    second.close()
    assert (room.size_bytes, room.elements) == (0, 0)


@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: bomb.name)
def test_a_payload_is_refused_while_it_is_read(bomb: Bomb) -> None:
    steps = 0

    def count_steps() -> None:
        nonlocal steps
        steps += 1

    room = UnpackingRoom(2**20, 20_000, count_steps)
    with room.share() as share, pytest.raises(TooMuch):
        read_payload(bomb.payload, share)
    assert room.size_bytes == room.elements == 0
    assert steps <= 100
