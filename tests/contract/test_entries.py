"""Appends are whole and ordered, reads see them, and what is refused changes nothing."""

from array import array
from itertools import accumulate

import pytest

from headgate.app.backends.port import Backend
from headgate.engine.entry import Entry, EntryId, size_in_chunk
from headgate.engine.errors import StreamNotFound
from headgate.engine.limits import PACKED_COUNT_MIN
from headgate.engine.packing import EncodedDrafts, encode_entries
from headgate.engine.replies import Histogram
from headgate.engine.requests.entries import (
    Add,
    Delete,
    Range,
    RangePacked,
    Trim,
    TrimTo,
)
from headgate.engine.requests.histogram import CountByTime
from headgate.engine.requests.streams import CreateStream, DeleteStream, DescribeStream
from tests.contract.calls import S, drafts, entry_id, ids
from tests.packed_runs import entries_in


async def test_what_is_read_packed_is_what_is_read(backend: Backend) -> None:
    await backend.perform(Add(S, drafts(*range(1, 300))))
    await backend.perform(Delete(S, ids(7, 120)))
    await backend.perform(Trim(S, TrimTo(min_id=entry_id(4))))
    info = await backend.perform(DescribeStream(S))

    low, high = entry_id(2), entry_id(250)
    entries: list[Entry] = []
    while low <= high:
        page = await backend.perform(RangePacked(S, low, high, 150, 2**20))
        assert (page.epoch, page.trimmed_through) == (info.epoch, info.trimmed_through)
        assert sum(run.entry_count for run in page.runs) <= 150
        entries += entries_in(page.runs)
        low = page.last_id.next()

    assert entries == await backend.perform(Range(S, end=high))
    with pytest.raises(StreamNotFound):
        await backend.perform(RangePacked(b"none", low, high, 1, 1))


async def test_encoded_drafts_are_appended_as_drafts_are(backend: Backend) -> None:
    many = [(b"n", b"%d" % number) for number in range(PACKED_COUNT_MIN)]
    data = [encode_entries(fields) for fields in many]
    ends = array("Q", accumulate(map(len, data), initial=0))
    size_ends = array("Q", accumulate(map(size_in_chunk, many), initial=0))
    encoded = EncodedDrafts(b"".join(data), ends, size_ends)

    added = await backend.perform(Add(S, encoded))
    again = await backend.perform(Add(S, encoded))

    entries = await backend.perform(Range(S))
    assert [entry.fields for entry in entries] == many * 2
    assert [entry.id for entry in entries] == [*added.ids, *again.ids]


async def test_a_copy_of_a_stream_is_the_same_stream_to_its_readers(backend: Backend) -> None:
    copied = await backend.perform(CreateStream(S, epoch=12))
    assert (copied.is_new, copied.info.epoch) == (True, 12)
    await backend.perform(DeleteStream(S))
    await backend.perform(Add(S, drafts(1)))
    assert (await backend.perform(DescribeStream(S))).epoch != 12


async def test_a_stream_that_comes_again_is_another_one(backend: Backend) -> None:
    await backend.perform(Add(S, drafts(1)))
    before = (await backend.perform(DescribeStream(S))).epoch
    assert await backend.perform(DeleteStream(S))
    assert not await backend.perform(DeleteStream(S))
    await backend.perform(Add(S, drafts(1)))
    assert (await backend.perform(DescribeStream(S))).epoch > before


async def test_entries_are_counted_by_the_time_in_their_ids(backend: Backend) -> None:
    times = [1_000, 1_001, 1_030, 1_031, 1_059, 1_060, 1_099]
    await backend.perform(Add(S, drafts(*times)))
    await backend.perform(Delete(S, [entry_id(1_031)]))
    whole = await backend.perform(CountByTime(S, buckets_max=4))
    assert whole == Histogram(1_000, 1_099, 25, [2, 1, 2, 1])
    part = CountByTime(S, EntryId(1_001, 0), EntryId(1_060, 0), buckets_max=3)
    assert await backend.perform(part) == Histogram(1_001, 1_060, 20, [1, 1, 2])
    assert await backend.perform(CountByTime(S, end=entry_id(999))) == Histogram(1_000, 999, 1, [])


async def test_what_is_trimmed_is_not_counted(backend: Backend) -> None:
    await backend.perform(Add(S, drafts(*range(1, 301))))
    await backend.perform(Trim(S, TrimTo(max_length=120)))
    counted = await backend.perform(CountByTime(S, entry_id(1), buckets_max=3))
    assert counted == Histogram(1, 300, 100, [0, 20, 100])
    await backend.perform(Trim(S, TrimTo(max_length=0)))
    assert (await backend.perform(CountByTime(S))).counts == []
