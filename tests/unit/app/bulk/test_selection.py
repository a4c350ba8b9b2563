"""Selection: a filter and names leave as much as an obvious implementation leaves."""

import itertools
import json
import math
import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.app.bulk.encoder import Encoder
from headgate.app.wire.filters import Selection
from headgate.engine.entry import Entry, EntryId
from headgate.engine.packing import pack_entries, pack_fields
from headgate.engine.replies import PackedEntries

NAMES = ["a", "b", "price"]
VALUES = ["", "x", "xy", "yx", "1", "2.5", "-3", "1e3", "1e999", "+7", ".5", "0x1", " 1", "nan"]

names = st.sampled_from(NAMES)
parts = st.sampled_from(VALUES).map(str.encode) | st.just(b"\xff")
fields = st.lists(st.tuples(names.map(str.encode), parts), min_size=1, max_size=4).map(
    lambda pairs: tuple(itertools.chain.from_iterable(pairs))
)
alike = st.lists(names, min_size=1, max_size=4).flatmap(
    lambda names: st.lists(
        st.tuples(*(st.tuples(st.just(name.encode()), parts) for name in names)).map(
            lambda pairs: tuple(itertools.chain.from_iterable(pairs))
        ),
        min_size=1,
        max_size=5,
    )
)
"""Runs of entries with the same names at the same places."""
runs = alike.map(lambda run: [run]) | st.lists(
    st.lists(fields, min_size=1, max_size=5), min_size=1, max_size=4
)

members = st.dictionaries(names, st.sampled_from(VALUES), min_size=1, max_size=2)
numbers = st.sampled_from([-3, 0, 1, 2.5, 1000, 2**70])
lower = st.dictionaries(st.sampled_from(["gt", "ge"]), numbers, max_size=1)
upper = st.dictionaries(st.sampled_from(["lt", "le"]), numbers, max_size=1)
bounds = st.builds(lambda low, high: low | high, lower, upper)
leaves: st.SearchStrategy[Any] = st.one_of(
    st.builds(lambda kind, of: {kind: of}, st.sampled_from(["exact", "prefix", "suffix"]), members),
    st.builds(lambda of: {"present": of}, names | st.lists(names, min_size=1, max_size=2)),
    st.builds(lambda of: {"range": of}, st.dictionaries(names, bounds, min_size=1, max_size=2)),
)
filters = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.builds(lambda of: {"all": of}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda of: {"any": of}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda of: {"not": of}, inner),
    ),
    max_leaves=6,
)


def holds(condition: Any, entry: dict[bytes, bytes]) -> bool:
    """Tell whether a filter holds, step by step."""
    if isinstance(condition, list):
        return all(holds(each, entry) for each in condition)
    [(dialect, of)] = condition.items()
    match dialect:
        case "all":
            return all(holds(each, entry) for each in of)
        case "any":
            return any(holds(each, entry) for each in of)
        case "not":
            return not holds(of, entry)
        case "present":
            return all(name.encode() in entry for name in ([of] if isinstance(of, str) else of))
        case "range":
            return all(is_within(entry.get(name.encode()), span) for name, span in of.items())
    tests: dict[str, Any] = {
        "exact": bytes.__eq__,
        "prefix": bytes.startswith,
        "suffix": bytes.endswith,
    }
    return all(
        name.encode() in entry and tests[dialect](entry[name.encode()], text.encode())
        for name, text in of.items()
    )


def is_within(value: bytes | None, span: dict[str, float]) -> bool:
    if value is None or not re.fullmatch(rb"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", value):
        return False
    number = float(value)
    return (
        number > span.get("gt", -math.inf) or ("gt" not in span and number == -math.inf)
    ) and all(
        {"ge": number >= bound, "lt": number < bound, "le": number <= bound}.get(key, True)
        for key, bound in span.items()
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
def test_what_is_sent_is_what_is_asked_for(
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


def test_names_with_commas_are_written_as_a_list() -> None:
    rows = selected([[(b"a,b", b"1", b"a", b"2")]], Selection.parse(None, '["a,b"]'))

    assert rows == [("1-0", [(b"a,b", b"1")])]


def test_no_column_leaves_the_ids() -> None:
    assert selected([[(b"a", b"1")]], Selection.parse(None, "")) == [("1-0", [])]


@pytest.mark.parametrize("kind", ["exact", "prefix", "suffix"])
def test_a_long_text_is_matched(kind: str) -> None:
    text = "v" * 70_000
    selection = Selection.parse(None, None)._replace(
        filter=Selection.parse(json.dumps({kind: {"n": text[:3000]}}), None).filter
    )

    rows = selected([[(b"n", text.encode())]], selection)

    assert len(rows) == (kind != "exact")
