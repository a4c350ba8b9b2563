"""Turns: the held entries that have room, and the memory of all."""

from __future__ import annotations

from itertools import islice

import pytest

from headgate.engine.entry import EntryId
from headgate.engine.state.memory import Memory
from headgate.engine.state.turns import Turns

COUNT = 5_000


def entry_id(number: int) -> EntryId:
    return EntryId(number, 0)


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def turns(memory: Memory) -> Turns:
    """Return the turns of many keys: each has one entry that is delivered, and one that is held."""
    turns = Turns(memory)
    turns.change(1)
    keys = [b"%d" % number for number in range(COUNT)]
    turns.take_all([entry_id(number) for number in range(COUNT)], keys)
    for number, key in enumerate(keys, COUNT):
        turns.hold(entry_id(number), key)
    return turns


def ready(turns: Turns, count: int = 2 * COUNT) -> list[int]:
    return [each.ms for each in islice(turns.ready(), count)]


def test_all_that_is_held_becomes_free_when_the_bound_is_raised(turns: Turns) -> None:
    assert not turns.has_ready
    turns.change(2)

    assert turns.has_ready
    while len(numbers := ready(turns)) < COUNT:
        assert numbers == sorted(numbers)
    assert numbers == list(range(COUNT, 2 * COUNT))


def test_what_turns_take_is_gone_with_them(turns: Turns, memory: Memory) -> None:
    assert memory.pending_bytes == turns.memory_bytes > 0
    turns.end_all([entry_id(number) for number in range(2 * COUNT)])

    assert memory.pending_bytes == turns.memory_bytes == 0
    assert turns.are_free([b"3"])


def test_a_value_that_comes_twice_is_not_free(turns: Turns) -> None:
    assert turns.are_free([b"new", b"other"])
    assert not turns.are_free([b"new", b"new"])
    assert not turns.are_free([b"new", None])
    assert not turns.are_free([b"3"])
