"""Paths, patterns and events of durable streams."""

from __future__ import annotations

import base64
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.app.durable_streams import events
from headgate.app.durable_streams.protocol import name_of, offset_of, parse_offset, path_of
from headgate.app.durable_streams.subscriptions.store import matches
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
    assert parse_offset(f"{place.ms:020d}_{place.seq:020d}", pointer="") == place


segments = st.sampled_from(["a", "b", "*", "**"])


@given(st.lists(segments, min_size=1, max_size=6), st.lists(st.sampled_from("ab"), max_size=8))
def test_it_is_what_an_expression_says(pattern: list[str], path: list[str]) -> None:
    path = path or ["a"]
    words = {"*": "[^/]+/", "**": "(?:[^/]+/)*"}
    expression = "".join(words.get(segment, f"{segment}/") for segment in pattern)
    expected = re.fullmatch(expression, "/".join(path) + "/") is not None
    assert matches("/".join(pattern), "/".join(path)) is expected


def test_many_stars_take_no_long_time() -> None:
    assert not matches("/".join(["**", "a"] * 60), "/".join(["a"] * 119 + ["b"]))


pieces = st.lists(st.sampled_from(["\r", "\n", "\r\n", " ", "  ", "a", "é", "data: x", ":"]))


def value_of(event: bytes) -> str:
    """Read an event as a browser does."""
    assert event.startswith(b"event: data\ndata:")
    assert event.endswith(b"\n\n")
    text = event.decode()
    assert "\r" not in text
    lines = text.removesuffix("\n\n").split("\n")[1:]
    assert all(line.startswith("data:") for line in lines)
    return "\n".join(line.removeprefix("data:").removeprefix(" ") for line in lines)


@pytest.mark.parametrize("size_bytes", [1, 2, 3, 5, 49_152])
@given(parts=pieces)
def test_a_text_comes_whole_in_pieces_of_any_size(size_bytes: int, parts: list[str]) -> None:
    text = "".join(parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(events, "_PIECE_BYTES", size_bytes)
        event = b"".join(events.text_event(text.encode()))
    assert value_of(event) == re.sub(r"\r\n|\r", "\n", text)


def test_line_ends_alone_come_in_small_pieces() -> None:
    made = [*events.text_event(b"\n" * 2**20)]
    assert max(map(len, made)) < 2**19
    assert value_of(b"".join(made)) == "\n" * 2**20


@given(st.binary(max_size=200))
def test_bytes_come_whole(body: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(events, "_PIECE_BYTES", 48)
        assert base64.b64decode(value_of(b"".join(events.base64_event(body)))) == body
