"""Plans count the entries of streams, without reading them, and remember a reader's position."""

from __future__ import annotations

import random

import pytest

from headgate.app.backends.redis.backend import RedisBackend
from headgate.app.backends.redis.performing import bulk
from headgate.engine.entry import MIN_ID, Draft, EntryId
from headgate.engine.errors import Invalid
from headgate.engine.requests.bulk import BulkCursor, PlanRead
from headgate.engine.requests.entries import Add, CountByTime, Delete, Range
from headgate.engine.requests.streams import DeleteStream

S = b"orders"


async def filled(backend: RedisBackend, count: int, first: int = 1) -> None:
    numbers = range(first, first + count)
    await backend.perform(Add(S, [Draft(EntryId(number, 0), (b"n", b"1")) for number in numbers]))


async def test_a_reader_comes_to_the_end_in_plans(backend: RedisBackend) -> None:
    await filled(backend, 9_000)
    chance = random.Random(5)
    after, planned, added = MIN_ID, 0, 9_000
    while True:
        [portion] = await backend.perform(PlanRead([BulkCursor(S, after)], 1_700))
        live = [entry.id for entry in await backend.perform(Range(S, after.next()))]
        assert portion.backlog == len(live)
        assert (portion.after, portion.entries) == (after, min(1_700, len(live)))
        if not live:
            break
        assert portion.end == live[portion.entries - 1]
        planned += portion.entries
        after = portion.end
        if planned < 5_000:  # others go on meanwhile
            await filled(backend, 100, added + 1)
            added += 100
        if chance.random() < 0.5:
            await backend.perform(Delete(S, [chance.choice(live), live[-1]]))
    assert planned <= added


async def test_too_many_to_count_is_refused(
    backend: RedisBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "_COUNTED_MAX", 3_000)
    await filled(backend, 5_000)
    with pytest.raises(Invalid, match="more than 3000 entries, which this backend counts one by"):
        await backend.perform(CountByTime(S))
    part = await backend.perform(CountByTime(S, EntryId(2_001, 0), buckets_max=2))
    assert part.counts == [1_500, 1_500]


async def test_a_stream_that_comes_again_is_counted_anew(backend: RedisBackend) -> None:
    await filled(backend, 300)
    cursor = BulkCursor(S, EntryId(100, 0))
    [before] = await backend.perform(PlanRead([cursor], 10))
    await backend.perform(DeleteStream(S))
    [missing] = await backend.perform(PlanRead([cursor._replace(epoch=before.epoch)], 10))
    await filled(backend, 250)
    [anew] = await backend.perform(PlanRead([cursor], 10))
    [from_start] = await backend.perform(PlanRead([cursor._replace(epoch=before.epoch)], 10))
    assert (before.backlog, missing.backlog, anew.backlog) == (200, 0, 150)
    assert (from_start.after, from_start.backlog) == (MIN_ID, 250)
