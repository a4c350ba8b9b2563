"""Selection: a filter and names leave as much as an obvious implementation leaves."""

import itertools
import json
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headgate.app.bulk.encoder import Encoder
from headgate.app.wire.filters import Selection
from headgate.engine.entry import Entry, EntryId
from headgate.engine.packing import pack_entries, pack_fields
from headgate.engine.replies import PackedEntries
from tests.filter_cases import NAMES, fields, filters, holds, names, parts

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
