"""A path is a name, and back; no two paths are one name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.app.durable_streams.offsets import offset_of, parse_offset
from headgate.app.durable_streams.paths import name_of, path_of
from headgate.app.wire.name_rule import NAME_BYTES_MAX
from headgate.app.wire.problems import GatewayError
from headgate.engine.entry import EntryId
from headgate.engine.limits import U64_MAX

PAIRS = [
    *(("orders", b"orders"), ("chat/42", b"chat:42"), ("a/b/c", b"a:b:c"), ("a:b", b"a%3Ab")),
    *(("100%", b"100%25"), ("a//b", b"a::b"), ("{tenant}/x", b"{tenant}:x")),
    ("é ü", "é ü".encode()),
]


@pytest.mark.parametrize(("path", "name"), PAIRS)
def test_the_table(path: str, name: bytes) -> None:
    assert name_of(path) == name
    assert path_of(name) == path


@given(st.text(alphabet="ab/:%3A25é", min_size=1, max_size=20))
def test_a_path_comes_back(path: str) -> None:
    assert path_of(name_of(path)) == path


@pytest.mark.parametrize(
    "path", ["", "__ds", "__ds/x", "a\x00b", "a\nb", "x" * (NAME_BYTES_MAX + 1)]
)
def test_what_is_no_stream_is_refused(path: str) -> None:
    with pytest.raises(GatewayError):
        name_of(path)


@pytest.mark.parametrize("name", [b"50%", b"__ds:s", b"\xff"])
def test_a_name_without_a_path_has_none(name: bytes) -> None:
    assert path_of(name) is None


numbers = st.integers(0, U64_MAX)


@given(st.builds(EntryId, numbers, numbers), st.builds(EntryId, numbers, numbers))
def test_offsets_sort_as_the_places_do_and_come_back(place: EntryId, other: EntryId) -> None:
    assert (offset_of(place) < offset_of(other)) == (place < other)
    assert parse_offset(offset_of(place), pointer="") == place
