"""Decisions about entries: a range that is read whole, or refused."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.engine.errors import ReplyTooLarge, StreamNotFound
from headgate.engine.requests.entries import Range
from tests.unit.driver import Driver, S, entry_id

COUNT = 5
SIZE_BYTES = len(b"n") + len(b"1")


@pytest.fixture
async def engine() -> Driver:
    engine = Driver()
    await engine.put(*range(1, COUNT + 1))
    return engine


ALL = [*range(1, COUNT + 1)]
WHOLE_BYTES = COUNT * SIZE_BYTES


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({}, ALL),
        ({"entries_max": COUNT, "size_bytes_max": WHOLE_BYTES}, ALL),
        ({"entries_max": COUNT - 1}, None),
        ({"size_bytes_max": WHOLE_BYTES - 1}, None),
        ({"limit": COUNT, "entries_max": COUNT - 1}, None),
        ({"start": entry_id(COUNT), "limit": 2, "entries_max": 1, "size_bytes_max": 1}, [COUNT]),
        ({"start": entry_id(COUNT - 1), "size_bytes_max": 1}, None),
        ({"start": entry_id(COUNT + 1), "entries_max": 0}, []),
    ],
)
async def test_a_whole_range_is_read_or_refused(
    engine: Driver, bounds: dict[str, Any], expected: list[int] | None, reverse: bool
) -> None:
    request = Range(S, **bounds, reverse=reverse, whole=True)
    if expected is None:
        with pytest.raises(ReplyTooLarge):
            await engine.perform(request)
    else:
        numbers = [entry.id.ms for entry in await engine.perform(request)]
        assert numbers == sorted(expected, reverse=reverse)


async def test_a_whole_range_ends_with_its_limit(engine: Driver) -> None:
    for reverse, expected in ((False, [1, 2]), (True, [5, 4])):
        request = Range(S, limit=2, entries_max=2, reverse=reverse, whole=True)
        assert [entry.id.ms for entry in await engine.perform(request)] == expected
    with pytest.raises(StreamNotFound):
        await engine.perform(Range(b"missing", whole=True))
