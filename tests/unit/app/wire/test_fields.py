"""Fields: bytes to the wire and back, never with loss."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headgate.app.wire.fields import FieldsRead, wire_fields
from headgate.app.wire.schemas.entries import EntryInput

parts = st.one_of(st.binary(max_size=6), st.text(max_size=4).map(str.encode), st.just(b"k"))
fields = st.lists(st.tuples(parts, parts), min_size=1, max_size=6).map(
    lambda pairs: tuple(part for pair in pairs for part in pair)
)


def as_sent(wire: FieldsRead) -> dict[str, Any]:
    """Return an entry that was read as one to append: `pairs` takes the place of `fields`."""
    return {name: part for name, part in wire.items() if name != "fields" or "pairs" not in wire}


@given(fields)
def test_any_bytes_come_back_as_they_went(flat: tuple[bytes, ...]) -> None:
    text = json.dumps(as_sent(wire_fields(flat)))

    assert EntryInput.model_validate_json(text).to_draft().fields == flat
