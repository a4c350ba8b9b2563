"""The end of a trim is known exactly, so a reader up to there is told of no gap."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from headgate.app.backends.redis.backend import RedisBackend
from headgate.engine.config import Patch, StreamConfig
from headgate.engine.entry import Draft, EntryId
from headgate.engine.requests import entries
from headgate.engine.requests.streams import CreateStream, DescribeStream, UpdateStream

S = b"orders"
ENTRIES = 3_500
"""More than one part of a trim looks at."""


def drafts(numbers: Sequence[int]) -> list[Draft]:
    return [Draft(EntryId(number, 0), (b"n", b"%d" % number)) for number in numbers]


async def filled(backend: RedisBackend, count: int = ENTRIES) -> None:
    """Append entries with ids at a distance of ten."""
    await backend.perform(entries.Add(S, drafts(range(10, 10 * count + 1, 10))))


async def check_gap(backend: RedisBackend, removed: int) -> None:
    """Check that so many of the oldest entries are gone, and what readers are told of it."""
    info = await backend.perform(DescribeStream(S))
    last = EntryId(10 * removed, 0)
    assert (info.trimmed_through, info.first_id) == (last, EntryId(10 * removed + 10, 0))
    cursors = [entries.StreamCursor(S, last), entries.StreamCursor(S, EntryId(last.ms - 1, 0))]
    whole, late = await backend.perform(entries.Read(cursors, limit=1))
    assert whole.gap is None
    assert late.gap == (EntryId(last.ms - 1, 0), last)


@pytest.mark.parametrize(
    ("to", "removed"),
    [
        (entries.TrimTo(max_length=3), ENTRIES - 3),
        (entries.TrimTo(max_length=1_700), ENTRIES - 1_700),
        (entries.TrimTo(max_length=ENTRIES - 7), 7),
        (entries.TrimTo(min_id=EntryId(20_005, 0)), 2_000),
        (entries.TrimTo(min_id=EntryId(20_010, 0)), 2_000),
        (entries.TrimTo(max_length=1_750, approximate=True), 1_700),
        (entries.TrimTo(max_length=5, approximate=True, limit=1_250), 1_200),
        (entries.TrimTo(min_id=EntryId(20_505, 0), approximate=True), 2_000),
        (entries.TrimTo(max_length=1_700, references=entries.References.DELETE), ENTRIES - 1_700),
        (entries.TrimTo(max_length=1_700, references=entries.References.ACKED), ENTRIES - 1_700),
        (entries.TrimTo(min_id=EntryId(20_005, 0), references=entries.References.DELETE), 2_000),
    ],
)
async def test_a_trim_knows_its_last_entry(
    backend: RedisBackend, to: entries.TrimTo, removed: int
) -> None:
    await filled(backend)
    assert await backend.perform(entries.Trim(S, to)) == removed
    await check_gap(backend, removed)


async def test_retention_by_length_knows_it_too(backend: RedisBackend) -> None:
    await backend.perform(CreateStream(S, StreamConfig(max_length=ENTRIES - 40)))
    await filled(backend)
    await check_gap(backend, 40)
    await backend.perform(entries.Add(S, drafts([10 * ENTRIES + 10])))
    await check_gap(backend, 41)
    await backend.perform(UpdateStream(S, Patch.of(StreamConfig, max_length=1_200)))
    await check_gap(backend, ENTRIES + 1 - 1_200)


async def test_retention_by_age_knows_it_too(backend: RedisBackend) -> None:
    await filled(backend, 9)
    await backend.perform(UpdateStream(S, Patch.of(StreamConfig, max_age_ms=1_000)))
    assert (await backend.perform(DescribeStream(S))).trimmed_through == EntryId(90, 0)
    await backend.perform(entries.Add(S, [Draft(EntryId(200, 0), (b"n", b"1"))]))
    info = await backend.perform(DescribeStream(S))
    assert (info.length, info.trimmed_through) == (0, EntryId(200, 0))
    assert await backend.perform(entries.Range(S)) == []
