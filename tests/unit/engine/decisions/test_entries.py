"""Decisions about entries: a range that is read whole, or refused."""

from __future__ import annotations

import pytest

from headgate.engine.entry import EntryId
from headgate.engine.errors import ReplyTooLarge, StreamNotFound
from headgate.engine.requests.entries import Range
from tests.unit.driver import Driver, S, entry_id

COUNT = 5
SIZE_BYTES = len(b"n") + len(b"1")

either_way = pytest.mark.parametrize("reverse", [False, True])


@pytest.fixture
async def engine() -> Driver:
    engine = Driver()
    await engine.put(*range(1, COUNT + 1))
    return engine


async def whole(
    engine: Driver,
    *,
    start: EntryId = entry_id(1),  # noqa: B008 it is a value
    limit: int | None = None,
    size_bytes_max: int | None = None,
    entries_max: int | None = None,
    reverse: bool = False,
) -> list[int]:
    """Read a range of the stream as a whole; returns its numbers, the lowest first."""
    request = Range(
        S,
        start,
        limit=limit,
        size_bytes_max=size_bytes_max,
        entries_max=entries_max,
        reverse=reverse,
        whole=True,
    )
    numbers = [entry.id.ms for entry in await engine.perform(request)]
    assert numbers == sorted(numbers, reverse=reverse)
    return sorted(numbers)


@either_way
@pytest.mark.parametrize("entries_max", [None, COUNT, COUNT + 1])
@pytest.mark.parametrize("size_bytes_max", [None, COUNT * SIZE_BYTES])
async def test_a_whole_range_that_fits_is_read(
    engine: Driver, reverse: bool, entries_max: int | None, size_bytes_max: int | None
) -> None:
    numbers = await whole(
        engine, entries_max=entries_max, size_bytes_max=size_bytes_max, reverse=reverse
    )
    assert numbers == [1, 2, 3, 4, 5]


@either_way
async def test_a_whole_range_of_too_many_entries_is_refused(engine: Driver, reverse: bool) -> None:
    with pytest.raises(ReplyTooLarge) as refused:
        await whole(engine, entries_max=COUNT - 1, reverse=reverse)
    assert refused.value.limit == COUNT - 1


@either_way
async def test_a_whole_range_of_too_many_bytes_is_refused(engine: Driver, reverse: bool) -> None:
    with pytest.raises(ReplyTooLarge):
        await whole(engine, size_bytes_max=COUNT * SIZE_BYTES - 1, reverse=reverse)


async def test_a_whole_range_ends_with_its_limit(engine: Driver) -> None:
    assert await whole(engine, limit=2, entries_max=2, size_bytes_max=2 * SIZE_BYTES) == [1, 2]
    assert await whole(engine, limit=2, entries_max=2, reverse=True) == [4, 5]
    with pytest.raises(ReplyTooLarge):
        await whole(engine, limit=3, entries_max=2)


async def test_one_large_entry_is_a_whole_range(engine: Driver) -> None:
    assert await whole(engine, start=entry_id(COUNT), size_bytes_max=1) == [COUNT]
    with pytest.raises(ReplyTooLarge):
        await whole(engine, start=entry_id(COUNT - 1), size_bytes_max=1)


async def test_a_whole_range_without_entries_is_read(engine: Driver) -> None:
    assert await whole(engine, start=entry_id(COUNT + 1), entries_max=0) == []
    with pytest.raises(StreamNotFound):
        await engine.perform(Range(b"missing", whole=True))
