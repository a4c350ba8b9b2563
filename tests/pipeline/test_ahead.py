"""Parts that are prepared while others are used: in order, one ahead, and errors in their place."""

import threading
from collections.abc import Generator

import pytest

from headgate.pipeline.rows.ahead import ahead


def test_one_part_is_made_while_another_is_used() -> None:
    made = [threading.Event() for _ in range(4)]

    def parts() -> Generator[int]:
        for number, event in enumerate(made):
            event.set()
            yield number

    used = []
    for number in ahead(parts()):
        used.append(number)
        if number < 3:
            assert made[number + 1].wait(10)
        if number < 2:
            assert not made[number + 2].is_set()
    assert used == [0, 1, 2, 3]


def test_what_the_making_raises_comes_behind_the_parts_before_it() -> None:
    def parts() -> Generator[int]:
        yield 1
        raise ValueError("no second part")

    coming = ahead(parts())
    assert next(coming) == 1
    with pytest.raises(ValueError, match="no second part"):
        next(coming)


def test_parts_that_nobody_wants_any_more_are_closed() -> None:
    closed = threading.Event()

    def parts() -> Generator[int]:
        try:
            yield from range(10)
        finally:
            closed.set()

    coming = ahead(parts())
    assert next(coming) == 0
    del coming
    assert closed.wait(10)
