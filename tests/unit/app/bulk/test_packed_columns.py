"""Columns of packed entries, and framed fields, are what the entries are, one by one."""

import itertools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.app.bulk.framed import FieldColumns
from headgate.app.bulk.packed_columns import columns_of
from headgate.engine.entry import Draft, Entry, EntryId, Fields, size_in_chunk
from headgate.engine.limits import CHUNK_PARTS_MIN, U64_MAX
from headgate.engine.packing import (
    EncodedDrafts,
    Unpacker,
    encode_entries,
    pack_entries,
    pack_fields,
)
from headgate.engine.replies import PackedEntries
from headgate.engine.requests.idempotency import Digest
from tests.packed_runs import entries_in

WIDTHS = [0, 127, 128, 255, 256, 2**16 - 1, 2**16, 2**32 - 1, 2**32, 2**63, U64_MAX - 17]
"""Numbers at which msgpack begins to write more bytes; the last has room for LENGTH_MAX more."""
LENGTH_MAX = 18

ids = st.builds(EntryId, st.sampled_from(WIDTHS), st.sampled_from(WIDTHS))
lengths = st.sampled_from([0, 1, 3, 31, 32, 255, 256, 257])
parts = st.one_of(st.binary(max_size=3), lengths.map(lambda length: b"\xc1\xc4\xc5"[:length]))
parts |= lengths.map(lambda length: b"\xc1" * length)
LIKE_ENTRIES = [encode_entries([(b"n", b"v")] * count) for count in (1, 2, 20)]
"""Values that look like entries: what they seem to begin is none."""
parts |= st.sampled_from([*LIKE_ENTRIES, *(like[1:] for like in LIKE_ENTRIES), b"\xdc\xff\xff\xc4"])
fields = st.lists(st.tuples(parts, parts), min_size=1, max_size=9).map(
    lambda pairs: tuple(itertools.chain.from_iterable(pairs))
)
many = st.lists(fields, min_size=1, max_size=LENGTH_MAX)


def run_of(first_id: EntryId, fields: list[Fields]) -> PackedEntries:
    return PackedEntries(len(fields), pack_fields(fields), first_id)


def with_ids(first_id: EntryId, fields: list[Fields]) -> PackedEntries:
    entries = [Entry(first_id._replace(seq=first_id.seq // 2 + n), f) for n, f in enumerate(fields)]
    return PackedEntries(len(entries), pack_entries(entries), None)


runs = st.lists(
    st.builds(run_of, ids, many) | st.builds(with_ids, ids, many), min_size=1, max_size=5
)
LONG = [
    with_ids(EntryId(1, 1), [(b"n" * 70_000, b"v" * 300), (b"", b"v" * 65_536)]),
    run_of(EntryId(1, 1), [(b"n", b"v" * 255, b"n" * 256, b""), (b"n", b"v") * 20_000]),
    run_of(EntryId(1, 1), [(b"n", b"")] * 70_000),
]
ALIKE = [
    make(EntryId(1, 1), [(b"n", like, b"m", like), (b"n", b"v"), (b"n", like)])
    for like in LIKE_ENTRIES
    for make in (run_of, with_ids)
]


def grown(runs: list[PackedEntries]) -> list[bytes]:
    unpacker = Unpacker()
    return [unpacker.grown(run.packed) for run in runs]


@given(runs)
@example(LONG)
@example(ALIKE[:1])
@example(ALIKE[1:2])
@example(ALIKE)
def test_columns_have_what_entries_have(packed: list[PackedEntries]) -> None:
    columns = columns_of(packed, grown(packed))

    data = columns.data.tobytes()
    pieces = [data[low:high] for low, high in columns.bounds.reshape(-1, 2).tolist()]
    rows = [
        Entry(EntryId(ms, seq), tuple(pieces[2 * low : 2 * high]))
        for ms, seq, (low, high) in zip(
            columns.ms.tolist(),
            columns.seq.tolist(),
            itertools.pairwise(columns.field_ends.tolist()),
            strict=True,
        )
    ]
    assert rows == entries_in(packed)


some = st.lists(fields, max_size=9)
LONG_FIELDS: list[Fields] = [
    *((b"n", b"v" * 2**16, b"m" * (2**16 - 1), b""), (b"", b"") * CHUNK_PARTS_MIN),
    (b"a", b"b") * 40_000,
]


def framed(many: Sequence[Fields]) -> FieldColumns:
    flat = list(itertools.chain.from_iterable(many))
    ends = np.cumsum([0, *(len(each) // 2 for each in many)])
    return FieldColumns(pa.array(flat[0::2], pa.binary()), pa.array(flat[1::2], pa.binary()), ends)


@given(some)
@example(LONG_FIELDS)
def test_framed_fields_are_packed_as_objects_are(many: list[Fields]) -> None:
    encoded = framed(many).encoded()

    assert list(encoded) == [Draft(None, each) for each in many]
    sizes = map(size_in_chunk, many)
    assert list(encoded.size_ends) == list(itertools.accumulate(sizes, initial=0))
    assert encoded.data == b"".join(map(encode_entries, many))


@given(some)
@example(LONG_FIELDS)
def test_framed_fields_have_the_digest_of_objects(many: list[Fields]) -> None:
    of_columns, digest = Digest(), Digest()
    framed(many).add_to(of_columns)
    for each in many:
        digest.add(each)
    assert of_columns.value() == digest.value()


@given(some, some, st.integers(0, 9), st.integers(0, 9))
def test_joined_drafts_have_places(
    before: list[Fields], after: list[Fields], low: int, high: int
) -> None:
    encoded = EncodedDrafts.joined([framed(before).encoded(), framed(after).encoded()])
    drafts = [Draft(None, each) for each in before + after]

    assert len(encoded) == len(drafts)
    assert list(encoded[low:high]) == drafts[low:high]
    assert [encoded[at] for at in range(-len(drafts), len(drafts))] == drafts * 2
    sizes = map(size_in_chunk, before + after)
    assert list(encoded.size_ends) == list(itertools.accumulate(sizes, initial=0))
