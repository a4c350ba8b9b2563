"""When garbage is collected, and when what is free is given back."""

import asyncio
import gc
from collections.abc import Iterator

import pytest

from headgate.app.runtime import collector
from headgate.app.runtime.collector import (
    FREE_BYTES_MIN,
    GROWTH_BYTES_MIN,
    UNACCOUNTED_BYTES_MIN,
    UNACCOUNTED_LOOKS,
    Keeper,
    MemoryUse,
)
from tests.virtual_time import in_virtual_time

MIB = 2**20


def test_it_is_collected_once_memory_has_grown_by_a_share_and_by_so_much() -> None:
    keeper = Keeper(MemoryUse(60 * MIB, 0))
    assert not keeper.must_collect(MemoryUse(60 * MIB + GROWTH_BYTES_MIN - 1, 0))
    assert keeper.must_collect(MemoryUse(60 * MIB + GROWTH_BYTES_MIN, 0))
    assert not keeper.must_collect(MemoryUse(60 * MIB + GROWTH_BYTES_MIN, 0))
    keeper = Keeper(MemoryUse(1000 * MIB, 0))
    assert not keeper.must_collect(MemoryUse(1249 * MIB, 0))
    assert keeper.must_collect(MemoryUse(1250 * MIB, 0))


def look_at_all(keeper: Keeper, usage: MemoryUse, count: int = UNACCOUNTED_LOOKS) -> list[bool]:
    return [keeper.must_look_at_all(usage) for _ in range(count)]


def test_all_is_looked_at_once_far_more_stays_than_streams_account_for() -> None:
    keeper = Keeper(MemoryUse(100 * MIB, 10 * MIB))
    edge = 90 * MIB + UNACCOUNTED_BYTES_MIN
    assert not any(look_at_all(keeper, MemoryUse(edge - 1, 0)))
    assert not any(look_at_all(keeper, MemoryUse(edge + 50 * MIB, 51 * MIB)))
    assert not any(look_at_all(keeper, MemoryUse(edge + 1300 * MIB, 0, 1001 * MIB)))
    *before, last = look_at_all(keeper, MemoryUse(edge, 0))
    assert last
    assert not any(before)
    assert not any(look_at_all(keeper, MemoryUse(edge, 0)))


def test_it_is_given_back_once_enough_was_freed() -> None:
    keeper = Keeper(MemoryUse(0, 2 * MIB))
    assert not keeper.must_give_back(MemoryUse(0, 2 * MIB + FREE_BYTES_MIN - 1))
    assert keeper.must_give_back(MemoryUse(0, 2 * MIB + FREE_BYTES_MIN))


@pytest.fixture
def _new_only() -> Iterator[None]:
    thresholds = gc.get_threshold()
    collector.look_at_the_new_only()
    yield
    gc.callbacks.remove(collector._spare)
    gc.set_threshold(*thresholds)
    gc.unfreeze()


@pytest.mark.usefixtures("_new_only")
def test_however_much_there_is_only_what_is_new_is_looked_at() -> None:
    new, often, _ = gc.get_threshold()
    count = 20 * new * often

    kept: list[list[int]] = [[] for _ in range(count)]

    assert len(kept) == count
    assert len(gc.get_objects()) < 2 * new * (often + 1)


@pytest.mark.usefixtures("_new_only")
@in_virtual_time
async def test_new_objects_in_the_place_of_frozen_ones_do_not_add_up() -> None:
    new, often, _ = gc.get_threshold()
    kept: list[list[int]] = [[] for _ in range(20 * new)]
    gc.freeze()
    counting = asyncio.create_task(collector.keep_few_new())
    counts = []
    for start in range(0, len(kept), new):
        for index in range(start, start + new):
            kept[index] = []
        await asyncio.sleep(0.1)
        counts.append(len(gc.get_objects(generation=0)) + len(gc.get_objects(generation=1)))
    counting.cancel()
    assert max(counts) < 2 * new * (often + 1)
