"""Entries as Arrow, and Arrow as entries to append; filters and names leave what was asked for."""

import itertools
import json
import os
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute  # now, and not within the deadline of a first example
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.app.bulk import arrow
from headgate.app.bulk.arrow_body import ArrowBounds
from headgate.app.bulk.encoder import Encoder
from headgate.app.wire.filters import EVERYTHING, Selection
from headgate.app.wire.problems import GatewayError
from headgate.engine.entry import Draft, Entry, EntryId, Fields
from headgate.engine.limits import U64_MAX
from headgate.engine.packing import pack_entries, pack_fields
from headgate.engine.replies import PackedEntries
from tests import filter_cases
from tests.arrow_bodies import arrow_of, body_of, rows, shown_over_and_over
from tests.filter_cases import NAMES, filters, holds, names

LOADING = "from headgate.app.bulk.arrow import library; library(); "
POOL = LOADING + "import pyarrow; print(pyarrow.default_memory_pool().backend_name)"
BOUNDS = ArrowBounds(rows_max=1000, size_bytes_max=2**20)
ROOT = Path(__file__).parents[4]

INT64_MAX = 2**63 - 1
numbers = st.one_of(st.integers(0, 9), st.sampled_from([INT64_MAX, INT64_MAX + 1, U64_MAX]))
parts = st.one_of(st.sampled_from([b"a", b"b", b""]), st.binary(max_size=5))
fields = st.lists(st.tuples(parts, parts), min_size=1, max_size=4).map(
    lambda pairs: tuple(itertools.chain.from_iterable(pairs))
)
entries = st.lists(st.builds(Entry, st.builds(EntryId, numbers, numbers), fields), max_size=6)


def encoded(
    *batches: list[Entry], compression: str | None = None, selection: Selection = EVERYTHING
) -> bytes:
    encoder = Encoder("orders", 7, compression, selection)
    parts = [
        encoder.encode([PackedEntries(len(batch), pack_entries(batch), None)]) for batch in batches
    ]
    pieces = itertools.chain(*(part.pieces for part in parts), encoder.finish())
    return b"".join(pieces)


def flat(pairs: list[tuple[bytes, bytes]]) -> Fields:
    return tuple(itertools.chain.from_iterable(pairs))


@given(entries, entries, st.sampled_from([None, "zstd"]))
def test_entries_come_out_as_they_went_in(
    first: list[Entry], second: list[Entry], compression: str | None
) -> None:
    table = pa.ipc.open_stream(encoded(first, second, compression=compression)).read_all()

    rows = [Entry(EntryId.parse(row["id"]), flat(row["fields"])) for row in table.to_pylist()]
    assert rows == first + second
    for row, entry in zip(table.to_pylist(), rows, strict=True):
        assert row["ms"] == min(entry.id.ms, INT64_MAX)
        assert row["seq"] == (entry.id.seq if entry.id.seq <= INT64_MAX else None)


def test_the_schema_says_what_is_never_null_and_whose_entries_they_are() -> None:
    schema = pa.ipc.open_stream(encoded()).schema

    assert [(column.name, column.type, column.nullable) for column in schema] == [
        *(("id", pa.string(), False), ("ms", pa.int64(), False), ("seq", pa.int64(), True)),
        ("fields", pa.map_(pa.binary(), pa.binary()), False),
    ]
    assert schema.metadata == {b"headgate.stream": b"orders", b"headgate.epoch": b"7"}


PAIRS = pa.struct([("name", pa.string()), ("value", pa.binary())])


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.map_(pa.string(), pa.string()), pa.map_(pa.binary(), pa.large_binary())),
        pa.map_(pa.large_string(), pa.large_string()),
        *(pa.map_(pa.string_view(), pa.binary_view()), pa.list_(PAIRS), pa.large_list(PAIRS)),
        pa.list_(pa.struct([("name", pa.large_binary()), ("value", pa.string_view())])),
    ],
    ids=str,
)
def test_fields_are_taken_in_any_of_their_types(kind: pa.DataType) -> None:
    pairs: list[Any] = [[("a", "1"), ("a", "2")], [("b", "")]]
    if not pa.types.is_map(kind):
        pairs = [[{"name": name, "value": value} for name, value in row] for row in pairs]
    column = pa.array([pairs[1], *pairs], kind).slice(1)

    drafts = arrow.decode(arrow_of({"fields": column}), BOUNDS).drafts

    assert list(drafts) == [Draft(None, (b"a", b"1", b"a", b"2")), Draft(None, (b"b", b""))]


def test_rows_may_name_their_streams_where_that_is_asked_for() -> None:
    body = arrow_of({"fields": rows("a", "b"), "stream": pa.array(["x", None])})

    assert arrow.decode(body, BOUNDS._replace(may_name_streams=True)).streams == ["x", None]
    with pytest.raises(GatewayError, match="unknown column") as refused:
        arrow.decode(body, BOUNDS)
    assert (refused.value.code, refused.value.pointer) == ("invalid_request", "/body/stream")


def test_the_row_that_is_wrong_is_named_over_batches() -> None:
    sink = pa.BufferOutputStream()
    good = pa.record_batch({"fields": rows("a", "b")})
    bad = pa.record_batch({"fields": pa.array([[("v", b"")], []], good.schema.field(0).type)})
    with pa.ipc.new_stream(sink, good.schema) as writer:
        writer.write_batch(good)
        writer.write_batch(bad)

    with pytest.raises(GatewayError, match="at least one field") as refused:
        arrow.decode(sink.getvalue().to_pybytes(), BOUNDS)
    assert refused.value.pointer == "/body/3/fields"


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view()], ids=str)
def test_views_count_as_often_as_they_show_the_same_bytes(kind: pa.DataType) -> None:
    names = pa.array(["v"] * 300, pa.string())
    values = shown_over_and_over(b"x" * (8 * 2**20), 300, kind)
    fields = pa.MapArray.from_arrays(pa.array(range(301), pa.int32()), names, values)
    body = arrow_of({"fields": fields})
    assert len(body) < 2**24

    with pytest.raises(GatewayError, match="2516582700 bytes") as refused:
        arrow.decode(body, ArrowBounds(10_000, 2**24))
    assert refused.value.code == "too_large"


def test_views_may_not_be_shorter_than_nothing() -> None:
    lengths = struct.pack("<iiii", -1, 0, 0, 0) * 2
    values = pa.Array.from_buffers(pa.binary_view(), 2, [None, pa.py_buffer(lengths)])
    fields = pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.array(["v"] * 2), values)
    with pytest.raises(GatewayError, match="not an Arrow stream"):
        arrow.decode(arrow_of({"fields": fields}), BOUNDS)


@pytest.mark.parametrize(
    "column",
    [
        *(rows("a").dictionary_encode, lambda: pa.array([b"a"], pa.binary(1))),
        *(lambda: pa.array([1], pa.int64()), lambda: pa.nulls(1)),
        lambda: pa.array([[["v"]]], pa.list_(pa.list_(pa.string()))),
        lambda: pa.array([["v"]], pa.list_view(pa.string())),
        lambda: pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array(["v"])),
    ],
    ids=range(7),
)
def test_types_that_nobody_sends_are_refused(column: Any) -> None:
    try:
        body = arrow_of({"fields": column()})
    except pa.ArrowNotImplementedError:
        body = arrow_of({"fields": pa.array(["v"]).dictionary_encode()})
    with pytest.raises(GatewayError, match="should be a map of binary or utf8"):
        arrow.decode(body, BOUNDS)


@given(st.data())
def test_no_bytes_do_more_than_be_refused(data: st.DataObject) -> None:
    body = bytearray(body_of("a", "b", ids=[None, "5-1"]))
    for place in data.draw(st.lists(st.integers(0, len(body) - 1), max_size=4)):
        body[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.just(len(body)), st.integers(0, len(body))))
    with suppress(GatewayError):
        drafts = arrow.decode(bytes(body[:cut]), BOUNDS).drafts
        assert cut == len(body)
        assert all(draft.fields for draft in drafts)


def test_its_memory_comes_from_where_all_else_comes_from() -> None:
    env = {name: text for name, text in os.environ.items() if not name.startswith("ARROW_")}
    words = [sys.executable, "-c", POOL]
    assert subprocess.check_output(words, cwd=ROOT, env=env, text=True).strip() == "system"


alike = st.lists(names, min_size=1, max_size=4).flatmap(
    lambda names: st.lists(
        st.tuples(*(st.tuples(st.just(name.encode()), filter_cases.parts) for name in names)).map(
            lambda pairs: tuple(itertools.chain.from_iterable(pairs))
        ),
        min_size=1,
        max_size=5,
    )
)
"""Runs of entries with the same names at the same places."""
runs = alike.map(lambda run: [run]) | st.lists(
    st.lists(filter_cases.fields, min_size=1, max_size=5), min_size=1, max_size=4
)


def selected(drawn: list[list[tuple[bytes, ...]]], selection: Selection) -> list[Any]:
    """Return the rows that are sent of runs: some with ids of their own, others without."""
    packed = []
    for index, run in enumerate(drawn):
        first = EntryId(index + 1, 0)
        if index % 2:
            packed.append(PackedEntries(len(run), pack_fields(run), first))
        else:
            own = [Entry(EntryId(first.ms, seq), each) for seq, each in enumerate(run)]
            packed.append(PackedEntries(len(run), pack_entries(own), None))
    encoder = Encoder("s", 1, None, selection)
    part = encoder.encode(packed)
    table = pa.ipc.open_stream(b"".join([*part.pieces, *encoder.finish()])).read_all()
    table.validate(full=True)
    rows: list[Any] = [(row["id"], row["fields"]) for row in table.to_pylist()]
    assert part.entry_count == len(rows)
    return rows


@given(runs, filters, st.none() | st.lists(st.sampled_from([*NAMES, "absent"]), max_size=3))
def test_what_is_asked_for_is_sent(
    drawn: list[list[tuple[bytes, ...]]], condition: Any, columns: list[str] | None
) -> None:
    text = None if columns is None else json.dumps(columns)
    selection = Selection.parse(json.dumps(condition), text)

    wanted = None if columns is None else {name.encode() for name in columns}
    expected = [
        (f"{index + 1}-{seq}", [(n, v) for n, v in pairs if wanted is None or n in wanted])
        for index, run in enumerate(drawn)
        for seq, flat in enumerate(run)
        if holds(condition, dict(pairs := list(zip(flat[::2], flat[1::2], strict=True))))
    ]
    assert selected(drawn, selection) == expected
