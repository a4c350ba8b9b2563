"""Framed fields are the drafts that they were, with the sizes and the digest of these."""

import itertools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.app.bulk.framed import FieldColumns
from headgate.engine.entry import Draft, Fields, size_in_chunk
from headgate.engine.limits import CHUNK_PARTS_MIN
from headgate.engine.packing import EncodedDrafts, encode_entries
from headgate.engine.requests.idempotency import Digest

lengths = st.sampled_from([0, 1, 3, 255, 256, 257])
parts = st.binary(max_size=3) | lengths.map(lambda length: b"\xc4" * length)
fields = st.lists(st.tuples(parts, parts), min_size=1, max_size=9).map(
    lambda pairs: tuple(itertools.chain.from_iterable(pairs))
)
many = st.lists(fields, max_size=9)
LONG: list[Fields] = [
    (b"n", b"v" * 2**16, b"m" * (2**16 - 1), b""),
    (b"", b"") * CHUNK_PARTS_MIN,
    (b"a", b"b") * 40_000,
]


def columns_of(many: Sequence[Fields]) -> FieldColumns:
    flat = list(itertools.chain.from_iterable(many))
    ends = np.cumsum([0, *(len(each) // 2 for each in many)])
    return FieldColumns(pa.array(flat[0::2], pa.binary()), pa.array(flat[1::2], pa.binary()), ends)


@given(many)
@example(LONG)
def test_framed_fields_are_packed_as_objects_are(many: list[Fields]) -> None:
    encoded = columns_of(many).encoded()

    assert list(encoded) == [Draft(None, each) for each in many]
    sizes = map(size_in_chunk, many)
    assert list(encoded.size_ends) == list(itertools.accumulate(sizes, initial=0))
    assert encoded.data == b"".join(map(encode_entries, many))


@given(many)
@example(LONG)
def test_framed_fields_have_the_digest_of_objects(many: list[Fields]) -> None:
    framed, digest = Digest(), Digest()
    columns_of(many).add_to(framed)
    for each in many:
        digest.add(each)
    assert framed.value() == digest.value()


@given(many, many, st.integers(0, 9), st.integers(0, 9))
def test_joined_drafts_have_places(
    before: list[Fields], after: list[Fields], low: int, high: int
) -> None:
    encoded = EncodedDrafts.joined([columns_of(before).encoded(), columns_of(after).encoded()])
    drafts = [Draft(None, each) for each in before + after]

    assert len(encoded) == len(drafts)
    assert list(encoded[low:high]) == drafts[low:high]
    assert [encoded[at] for at in range(-len(drafts), len(drafts))] == drafts * 2
    sizes = map(size_in_chunk, before + after)
    assert list(encoded.size_ends) == list(itertools.accumulate(sizes, initial=0))
