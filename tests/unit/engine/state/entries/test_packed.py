"""A long batch is packed before it is appended: it is what a short one would be, and no stall."""

from __future__ import annotations

import asyncio
import itertools
from array import array
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.engine.entry import (
    MIN_ID,
    Draft,
    EntryId,
    Fields,
    IdRequest,
    PartialId,
    Timing,
    size_in_chunk,
)
from headgate.engine.errors import EntryTooLarge, IdNotGreater, Invalid
from headgate.engine.journal.records import Block
from headgate.engine.journal.snapshot import load, pieces
from headgate.engine.limits import COMMIT_STREAMS_MAX, COMPRESSED_BYTES_MAX, U64_MAX
from headgate.engine.packing import EncodedDrafts, encode_entries, pack_fields
from headgate.engine.requests.bulk import CommitBatch
from headgate.engine.requests.entries import Add, Range
from headgate.engine.requests.streams import ListStreams
from headgate.engine.state.defaults import Defaults
from headgate.engine.state.entries import packed as packing
from headgate.engine.state.entries.packed import (
    NodeLimits,
    Packed,
    PackedDrafts,
    is_worth_packing,
    pack,
)
from headgate.engine.state.keyspace import Keyspace
from tests.model.snapshot import snapshot
from tests.unit.driver import Driver, S, entry_id

PAIR = (b"k", b"v")
SMALL = Defaults(node_limits=NodeLimits(4, 4096))


@pytest.fixture(autouse=True)
def _little_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "PACKED_COUNT_MIN", 3)
    monkeypatch.setattr(packing, "PACKED_AT_ONCE_MAX", 6)


def driver() -> Driver:
    engine = Driver()
    engine.keyspace.defaults = SMALL
    return engine


def batch(count: int, first: int = 0) -> list[Draft]:
    return [Draft(None, (b"n", b"%d" % number)) for number in range(first, first + count)]


def encoded(many: Sequence[Fields]) -> EncodedDrafts:
    data = [encode_entries(fields) for fields in many]
    ends = array("Q", itertools.accumulate(map(len, data), initial=0))
    size_ends = array("Q", itertools.accumulate(map(size_in_chunk, many), initial=0))
    return EncodedDrafts(b"".join(data), ends, size_ends)


async def numbers(engine: Driver) -> list[int]:
    return [int(entry.fields[1]) for entry in await engine.perform(Range(S))]


fields: st.SearchStrategy[Fields] = st.lists(st.binary(max_size=3), min_size=2, max_size=4).map(
    lambda parts: tuple(parts[: len(parts) // 2 * 2])
)
wanted: st.SearchStrategy[IdRequest] = (
    st.none()
    | st.builds(EntryId, st.integers(900, 1100), st.integers(0, 3))
    | st.builds(PartialId, st.integers(900, 1100))
)
timings = st.none() | st.integers(0, 9).map(Timing)
drafts = st.lists(st.builds(Draft, wanted, fields, timings), min_size=3, max_size=40)


async def outcome(engine: Driver, many: Sequence[Draft]) -> object:
    try:
        return (await engine.perform(Add(S, many))).ids
    except IdNotGreater as error:
        return type(error)


@given(drafts, drafts)
def test_a_packed_batch_is_as_its_entries_one_by_one(
    first: list[Draft], second: list[Draft]
) -> None:
    async def both() -> None:
        packed, plain = driver(), driver()
        for many in (first, second):
            replies = [await outcome(packed, many)]
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(packing, "PACKED_COUNT_MIN", 1000)
                replies.append(await outcome(plain, many))
            assert replies[0] == replies[1]
        [ours, theirs] = [[*item.keyspace.streams.values()] for item in (packed, plain)]
        assert [our.log.range(MIN_ID, our.last_id) for our in ours] == [
            their.log.range(MIN_ID, their.last_id) for their in theirs
        ]
        assert [(our.last_id, our.entries_added) for our in ours] == [
            (their.last_id, their.entries_added) for their in theirs
        ]
        assert [our.deadlines and our.deadlines.by_id for our in ours] == [
            their.deadlines and their.deadlines.by_id for their in theirs
        ]
        assert again(packed.keyspace) == snapshot(packed.keyspace)

    asyncio.run(both())


@given(st.lists(fields.filter(bool), min_size=3, max_size=40))
def test_an_encoded_batch_is_what_its_drafts_are(many: list[Fields]) -> None:
    limits = NodeLimits(4, 8)

    [cut] = pack(encoded(many), limits)

    drafts = [Draft(None, each) for each in many]
    runs = [[draft.fields for draft in run.entries] for run in limits.runs(None, drafts)[1:]]
    assert cut == [Packed(len(run), pack_fields(run), None) for run in runs]


def again(keyspace: Keyspace) -> dict[str, object]:
    """Return the state once it is written down and read."""
    _, *written = pieces(keyspace, 1)
    blocks = []
    at = 0
    for piece in written:
        blocks.append(Block(0, at, 0, piece[32:]))
        at += 4096
    return snapshot(load(blocks, "snapshot"))


async def test_others_have_their_turn_while_a_batch_is_packed() -> None:
    engine = driver()
    appending = asyncio.ensure_future(engine.perform(Add(S, batch(30, 1))))
    await asyncio.sleep(0)

    await engine.perform(Add(S, batch(1)))

    assert not appending.done()
    await appending
    assert await numbers(engine) == [*range(31)]


async def test_where_ids_run_out_a_batch_takes_what_neighbours_there_are() -> None:
    engine = driver()
    await engine.perform(Add(S, [Draft(EntryId(5000, U64_MAX - 3), PAIR)]))

    ids = (await engine.perform(Add(S, batch(5)))).ids

    assert ids == [
        *(EntryId(5000, U64_MAX - left) for left in (2, 1, 0)),
        EntryId(5001, 0),
        EntryId(5001, 1),
    ]


@pytest.mark.parametrize("faulty", [(), (b"k",)])
async def test_a_batch_with_a_faulty_entry_names_its_place(faulty: Fields) -> None:
    engine = driver()

    with pytest.raises(Invalid) as refused:
        await engine.perform(Add(S, [*batch(9), Draft(None, faulty)]))

    assert refused.value.location == ("drafts", 9, "fields")
    assert engine.keyspace.find(S) is None


async def test_an_id_in_a_batch_that_is_too_small_is_named_with_its_place() -> None:
    engine = driver()
    await engine.put(5)
    many = [Draft(entry_id(number), PAIR) for number in (6, 7, 7, 8)]

    with pytest.raises(IdNotGreater) as refused:
        await engine.perform(Add(S, many))

    assert refused.value.location == ("drafts", 2, "id")
    assert refused.value.last_id == entry_id(7)


def test_many_empty_names_and_values_are_packed_some_at_a_time() -> None:
    drafts = [Draft(None, (b"", b"") * 9_000)] * 7
    assert is_worth_packing(drafts)
    assert [len(packed) for packed in pack(drafts, NodeLimits(100, 4096))] == [3, 3, 1]


def test_few_small_drafts_are_not_packed() -> None:
    assert not is_worth_packing(batch(2))
    assert is_worth_packing(batch(3))
    assert is_worth_packing([Draft(None, (b"k", b"x" * 200_000))] * 2)


def test_what_is_large_is_kept_as_it_is_and_read_again() -> None:
    value = b"x" * (COMPRESSED_BYTES_MAX + 1)
    [[item, other]] = pack([Draft(None, (b"k", value))] * 2, NodeLimits(100, 4096))

    assert len(item.data) > COMPRESSED_BYTES_MAX
    assert isinstance(PackedDrafts([], [item, other]), PackedDrafts)


async def test_a_batch_of_too_many_streams_is_refused() -> None:
    engine = driver()
    names = {b"%d" % number: batch(1) for number in range(COMMIT_STREAMS_MAX + 1)}

    with pytest.raises(Invalid, match=f"at most {COMMIT_STREAMS_MAX} streams"):
        await engine.perform(CommitBatch(b"w", 1, names))

    assert await engine.perform(ListStreams()) == []


def test_chunks_of_encoded_drafts_are_bounded_where_those_of_a_stream_are_not() -> None:
    drafts = encoded([PAIR] * 20)
    chunks = [chunk for part in pack(drafts, NodeLimits(0, 0)) for chunk in part]
    assert [chunk.entry_count for chunk in chunks] == [6, 6, 6, 2]


def test_an_encoded_draft_is_as_small_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "ENTRY_BYTES_MAX", 100)
    with pytest.raises(EntryTooLarge) as refused:
        list(pack(encoded([PAIR, PAIR, (b"k", b"v" * 100), PAIR]), NodeLimits(1, 0)))
    assert refused.value.location == ("drafts", 2, "fields")


def test_encoded_drafts_are_made_into_objects_whatever_they_hold() -> None:
    many = [PAIR, (b"k", b"v" * 200_000), *[(b"", b"") * 3_000] * 30, *[PAIR] * 2_000]
    assert [draft.fields for draft in encoded(many)] == many
