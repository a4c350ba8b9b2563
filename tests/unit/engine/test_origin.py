"""The origin of a dead letter stands behind its fields, and is found there again."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from headgate.engine.limits import ENTRY_FIELDS_MAX
from headgate.engine.origin import Origin, origins, parted

some_bytes = st.binary(max_size=4)
some_origins = st.builds(
    Origin, some_bytes, some_bytes, some_bytes, some_bytes, some_bytes, st.none() | some_bytes
)
entries = st.lists(st.tuples(some_bytes, some_bytes), max_size=3).map(
    lambda pairs: tuple(part for pair in pairs for part in pair)
)


@given(entries, some_origins, some_origins)
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


def test_as_many_origins_as_an_entry_has_room_for_are_looked_at_without_a_copy() -> None:
    origin = Origin(b"s", b"5-6", b"g", b"1", b"fatal")
    count = ENTRY_FIELDS_MAX // 5
    fields = origin.behind(()) * count
    tracemalloc.start()
    try:
        assert all(each == origin for _, each in origins(fields))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert sum(1 for _ in origins(fields)) == count
    assert peak_bytes < 10_000
