"""Tables: the types of columns, however the entries come."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headgate.client import tables

values = st.sampled_from(
    [None, b"1", b"-3", b"007", b"1.5", b"2.50", b"1e5", b"inf", b"true", b"false", b"abc", b"\xff"]
)
"""Of each kind, and those on the border: `1e5` is a number for Arrow, and a text for people."""

Pool = list[bytes | None]
pools: list[Pool] = [[b"1", b"7"], [b"1.5", b"2.50"], [b"inf", b"1.5"], [b"true"], [None]]
parts = st.lists(
    st.lists(values, max_size=3)
    | st.sampled_from(pools).flatmap(lambda pool: st.lists(st.sampled_from(pool)))
)


def batch(fields: Pool) -> pa.RecordBatch:
    """Return entries with a field `f`, or without one, as the gateway sends them."""
    count = len(fields)
    pairs = [[] if value is None else [(b"f", value)] for value in fields]
    return pa.RecordBatch.from_pydict(
        {
            "id": pa.array(["1-0"] * count, pa.string()),
            "ms": pa.array([1] * count, pa.int64()),
            "fields": pa.array(pairs, pa.map_(pa.binary(), pa.binary())),
        }
    )


@given(parts)
def test_types_do_not_depend_on_how_the_entries_were_divided(divided: list[Pool]) -> None:
    whole = [value for part in divided for value in part]
    table = tables.columns_of([batch(whole)], None)
    assert tables.columns_of(map(batch, divided), None).equals(table)
