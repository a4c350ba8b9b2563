"""The origin of a dead letter stands behind its fields, and is found there again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.engine.entry import EntryId
from headgate.engine.origin import Origin, parted

some_bytes = st.binary(max_size=4)
origins = st.builds(
    Origin, some_bytes, some_bytes, some_bytes, some_bytes, some_bytes, st.none() | some_bytes
)
entries = st.lists(st.tuples(some_bytes, some_bytes), max_size=3).map(
    lambda pairs: tuple(part for pair in pairs for part in pair)
)


@given(entries, origins, origins)
def test_what_is_behind_fields_is_found_again(
    fields: tuple[bytes, ...], first: Origin, second: Origin
) -> None:
    once = first.behind(fields)
    assert parted(once) == (fields, first)
    assert parted(second.behind(once)) == (once, second)


@given(entries)
def test_other_fields_are_left_together(fields: tuple[bytes, ...]) -> None:
    assert parted(fields) == (fields, None)
    assert parted((*fields, b"_error", b"e")) == ((*fields, b"_error", b"e"), None)


@pytest.mark.parametrize(("text", "entry_id"), [(b"5-6", EntryId(5, 6)), (b"x", None)])
def test_an_id_is_one_or_is_not(text: bytes, entry_id: EntryId | None) -> None:
    assert Origin(b"s", text, b"g", b"1", b"fatal").entry_id == entry_id
