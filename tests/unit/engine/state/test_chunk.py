"""Chunks: sealing changes nothing a reader can see."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.engine.entry import MAX_ID, MIN_ID, Entry, EntryId
from headgate.engine.limits import U64_MAX
from headgate.engine.packing import pack_entries, pack_fields, packed_count
from headgate.engine.state.chunk import Chunk

ids = st.builds(
    EntryId,
    st.one_of(st.integers(0, 3), st.integers(0, U64_MAX), st.just(U64_MAX)),
    st.one_of(st.integers(0, 3), st.integers(0, U64_MAX), st.just(U64_MAX)),
)
names = st.sampled_from([b"a", b"a", b"b", b"", b"\xff\x00"])
pairs = st.tuples(names, st.binary(max_size=8))
fields = st.lists(pairs, min_size=1, max_size=4).map(lambda many: sum(many, ()))
entry_lists = st.dictionaries(ids, fields, min_size=1, max_size=8).map(
    lambda drawn: [Entry(entry_id, drawn[entry_id]) for entry_id in sorted(drawn)]
)


def chunk_of(entries: list[Entry], *, seal: bool) -> Chunk:
    chunk = Chunk()
    chunk.extend(entries, sum(entry.size_bytes for entry in entries))
    if seal:
        chunk.seal()
    return chunk


def numbered(count: int) -> list[Entry]:
    return [Entry(EntryId(number, 0), (b"n", b"%d" % number)) for number in range(1, count + 1)]


@settings(max_examples=300)
@given(entry_lists, st.data())
def test_dead_entries_are_seen_by_nobody(entries: list[Entry], data: st.DataObject) -> None:
    chunk, alive = chunk_of(entries, seal=data.draw(st.booleans())), list(entries)
    for entry in data.draw(st.lists(st.sampled_from(entries), unique=True)):
        position = chunk.position(entry.id)
        assert position is not None
        chunk.kill(position)
        alive.remove(entry)
        assert chunk.position(entry.id) is None
        assert chunk.live_count == len(alive)
        assert chunk.between(MIN_ID, MAX_ID) == alive
        if alive:
            assert (chunk.first_live(), chunk.last_live()) == (alive[0], alive[-1])


def test_neighbours_with_the_same_field_names_store_them_once() -> None:
    name = bytes(range(256)) * 4
    same = chunk_of([Entry(EntryId(n, 0), (name, b"%d" % n)) for n in range(50)], seal=True)
    assert len(same._packed) < 2 * len(name)


def test_a_mostly_dead_sealed_chunk_is_repacked_and_keeps_its_bounds() -> None:
    chunk = chunk_of(numbered(100), seal=True)
    packed_bytes = len(chunk._packed)
    for number in [*range(1, 50), *range(60, 101)]:
        position = chunk.position(EntryId(number, 0))
        assert position is not None
        chunk.kill(position)
    assert [entry.id.ms for entry in chunk.between(MIN_ID, MAX_ID)] == list(range(50, 60))
    assert chunk.count <= 2 * chunk.live_count
    assert len(chunk._packed) < packed_bytes / 2
    assert (chunk.first_id, chunk.last_id) == (EntryId(1, 0), EntryId(100, 0))
    assert chunk.between(EntryId(55, 0), MAX_ID)[0].fields == (b"n", b"55")


def test_a_sealed_chunk_keeps_no_more_memory_than_it_needs() -> None:
    chunk = chunk_of(numbered(100), seal=False)
    chunk_of(numbered(100), seal=True)  # makes what all chunks share
    tracemalloc.start()
    chunk.seal()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < len(chunk._packed) + 200


@pytest.mark.parametrize("count", [0, 1, 15, 16, 300, 65_535, 65_536])
def test_packed_entries_are_counted_without_unpacking_them(count: int) -> None:
    assert packed_count(pack_entries(numbered(count))) == count
    assert packed_count(pack_fields([entry.fields for entry in numbered(count)])) == count


@pytest.mark.parametrize("packed", [b"", b"\xc0", b"\xa3abc"])
def test_what_is_no_array_has_no_count(packed: bytes) -> None:
    with pytest.raises(ValueError, match="no array"):
        packed_count(packed)


@pytest.mark.parametrize("count", [1, 3, 100])
def test_few_entries_are_those_that_are_unpacked(count: int) -> None:
    entries = [Entry(EntryId(7, 5 + at), (b"f", b"%d" % at)) for at in range(count)]
    bounds = entries[0].id, entries[-1].id, count
    run = pack_fields([entry.fields for entry in entries])
    for chunk in (
        Chunk.sealed(*bounds, run, is_run=True),
        Chunk.sealed(*bounds, pack_entries(entries), is_run=False),
    ):
        few = chunk.few_entries()
        assert [few[at] for at in range(len(few))] == list(few[:]) == chunk.entries() == entries
        assert few[-1] == entries[-1]
