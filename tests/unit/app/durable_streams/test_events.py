"""Events carry what a stream has, however its lines and characters fall."""

from __future__ import annotations

import base64
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.app.durable_streams import events

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
