"""Entries: packed, encoded, counted, appended once under a key; and streams that expire."""

import asyncio
from array import array
from itertools import accumulate

import pytest

from headgate.app.backends.port import Ability, Backend
from headgate.engine.entry import Draft, Entry, EntryId, size_in_chunk
from headgate.engine.errors import IdNotGreater, StreamNotFound
from headgate.engine.limits import IDEMPOTENCY_ID_BYTES_MAX, PACKED_COUNT_MIN
from headgate.engine.packing import EncodedDrafts, encode_entries
from headgate.engine.replies import Histogram
from headgate.engine.requests.bulk import CommitBatch, LastCommit
from headgate.engine.requests.entries import (
    Add,
    CountByTime,
    Delete,
    Range,
    RangePacked,
    Trim,
    TrimTo,
)
from headgate.engine.requests.idempotency import Idempotent
from headgate.engine.requests.keyspace import (
    CountStreams,
    ExpireStream,
    GetExpiry,
    PersistStream,
    PickName,
    RememberKey,
)
from headgate.engine.requests.streams import CreateStream, DeleteStream, DescribeStream, ListStreams
from tests.contract.calls import S, drafts, entry_id, filled, ids, numbers
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


FAR_MS = 40_000_000_000_123


async def test_a_stream_expires_at_a_time(backend: Backend) -> None:
    await filled(backend, 1)
    assert await backend.perform(GetExpiry(S)) is None
    assert await backend.perform(ExpireStream(S, 0, at_ms=FAR_MS))
    assert await backend.perform(GetExpiry(S)) == FAR_MS
    assert await backend.perform(PersistStream(S))
    assert await backend.perform(GetExpiry(S)) is None
    assert await backend.perform(ExpireStream(S, 0, at_ms=1))
    assert await backend.perform(CountStreams([S])) == 0


async def test_some_name_is_picked(backend: Backend) -> None:
    assert await backend.perform(PickName(5)) is None
    await filled(backend, 1)
    assert await backend.perform(PickName(5)) == S


ENTRY = [Draft(None, (b"n", b"1"))]
LEFT, RIGHT = b"{batch}left", b"{batch}right"  # in one slot, where there are slots
KEY = Idempotent(b"producer", b"key", b"digest")


@pytest.mark.parametrize("place", ["producer", "key"])
async def test_ids_may_be_long(backend: Backend, place: str) -> None:
    key = KEY._replace(**{place: b"\xff" * IDEMPOTENCY_ID_BYTES_MAX})
    first = await backend.perform(Add(S, ENTRY, key))
    again = await backend.perform(Add(S, ENTRY, key))
    assert (again.is_repeat, again.ids) == (True, first.ids)
    await backend.perform(RememberKey(S, key.producer, key.key, first.ids[0]))
    other = await backend.perform(Add(S, ENTRY, key._replace(**{place: b"\xfe" * 65_536})))
    assert not other.is_repeat


async def test_repeats_at_the_same_time_append_once(backend: Backend) -> None:
    replies = await asyncio.gather(*(backend.perform(Add(S, ENTRY, KEY)) for _ in range(20)))
    assert len({tuple(reply.ids) for reply in replies}) == 1
    assert len(await numbers(backend)) == 1


@pytest.mark.needs(Ability.BULK)
async def test_a_batch_is_appended_once_and_as_a_whole(backend: Backend) -> None:
    batch = {LEFT: ENTRY, RIGHT: ENTRY * 2}
    first = await backend.perform(CommitBatch(b"writer", 3, batch))
    again = await backend.perform(CommitBatch(b"writer", 3, batch))
    older = await backend.perform(CommitBatch(b"writer", 2, batch))
    assert (first.is_repeat, again.is_repeat, older.is_repeat) == (False, True, True)
    assert {each.stream: each.entries for each in first.streams} == {LEFT: 1, RIGHT: 2}
    last = await backend.perform(LastCommit(b"writer"))
    assert last is not None
    assert last.batch == 3


@pytest.mark.needs(Ability.BULK)
async def test_a_batch_with_a_wrong_entry_appends_nothing(backend: Backend) -> None:
    await backend.perform(Add(LEFT, drafts(5)))
    with pytest.raises(IdNotGreater) as refused:
        await backend.perform(CommitBatch(b"writer", 1, {RIGHT: ENTRY, LEFT: drafts(4)}))
    assert refused.value.stream == LEFT
    assert [info.name for info in await backend.perform(ListStreams())] == [LEFT]
    assert await backend.perform(LastCommit(b"writer")) is None
