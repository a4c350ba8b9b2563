"""A large batch is read in pieces, and comes out as if it had been read at once."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from fastapi.exceptions import RequestValidationError
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from headgate.app.bulk import pieces
from headgate.app.bulk.batch import drafts_of
from headgate.app.runtime import turns
from headgate.app.wire.problems import GatewayError
from headgate.app.wire.schemas.entries import EntryInput
from headgate.engine.entry import Draft

_model = TypeAdapter(list[EntryInput])

texts = st.one_of(
    st.text(alphabet='ab"\\{}[],: \n', max_size=12),
    st.sampled_from(['},{"', '"},{"fields":{"', "},{", "}]", "\\", '\\"', "]"]),
)
fields = st.dictionaries(texts, texts, min_size=1, max_size=3)
pairs = st.lists(st.tuples(texts, texts).map(list), min_size=1, max_size=3)
entries = st.one_of(
    st.fixed_dictionaries({"fields": fields}),
    st.fixed_dictionaries({"fields": fields, "id": st.sampled_from(["*", "7-*", "9-1"])}),
    st.fixed_dictionaries({"pairs": pairs}),
)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", 40)
    monkeypatch.setattr(pieces, "WHOLE_BYTES", 60)


def read(body: bytes, *, is_lines: bool = False, entries_max: int = 1000) -> list[Draft]:
    return asyncio.run(drafts_of(body, is_lines=is_lines, entries_max=entries_max))


@given(st.lists(entries, min_size=1, max_size=12), st.sampled_from([(",", ":"), (", ", ": ")]))
def test_an_array_in_pieces_is_what_it_is_at_once(
    given_entries: list[dict[str, Any]], separators: tuple[str, str]
) -> None:
    expected = [entry.to_draft() for entry in _model.validate_python(given_entries)]
    body = json.dumps(given_entries, separators=separators).encode()
    assert read(body) == expected
    assert read(b" \n" + json.dumps(given_entries, indent=1).encode() + b"\n ") == expected
    lines = b"\n".join(json.dumps(entry).encode() for entry in given_entries)
    assert read(lines, is_lines=True) == expected
    assert read(lines + b"\n", is_lines=True) == expected


@given(st.data())
def test_an_array_that_is_damaged_is_refused_or_as_it_is_at_once(data: st.DataObject) -> None:
    body = json.dumps(data.draw(st.lists(entries, min_size=4, max_size=12))).encode()
    at = data.draw(st.integers(0, len(body) - 1))
    cut = data.draw(st.integers(0, 3))
    damaged = body[:at] + data.draw(st.sampled_from([b"", b"[", b"}", b'"', b",", b"\\", b"\xff"]))
    damaged += body[at + cut :]

    try:
        expected = [entry.to_draft() for entry in _model.validate_json(damaged)]
    except (ValueError, GatewayError):
        with pytest.raises((GatewayError, RequestValidationError)):
            read(damaged)
    else:
        assert read(damaged) == expected


@pytest.mark.parametrize("is_lines", [True, False])
def test_what_is_wrong_is_named_by_its_place_in_the_body(is_lines: bool) -> None:
    parts = [b'{"fields":{"a":"1"}}'] * 100
    parts[77] = b'{"fields":{"a":1}}'
    body = b"\n".join(parts) if is_lines else b"[" + b",".join(parts) + b"]"
    with pytest.raises(RequestValidationError) as refused:
        read(body, is_lines=is_lines)
    assert refused.value.errors()[0]["loc"] == ("body", 77, "fields", "a")

    parts[77] = b'{"id":"x","fields":{"a":"1"}}'
    body = b"\n".join(parts) if is_lines else b"[" + b",".join(parts) + b"]"
    with pytest.raises(GatewayError) as wrong:
        read(body, is_lines=is_lines)
    assert wrong.value.pointer == "/body/77/id"


@pytest.mark.parametrize("is_lines", [True, False])
def test_a_batch_has_so_many_entries(is_lines: bool) -> None:
    parts = [b'{"fields":{"a":"1"}}'] * 100
    body = b"\n".join(parts) if is_lines else b"[" + b",".join(parts) + b"]"
    assert len(read(body, is_lines=is_lines, entries_max=100)) == 100
    with pytest.raises(GatewayError, match="at most 99"):
        read(body, is_lines=is_lines, entries_max=99)


async def test_others_come_between_while_many_items_are_let_go() -> None:
    items = list(range(7_000))
    counts = []
    letting_go = asyncio.ensure_future(turns.let_go(items))
    while not letting_go.done():
        await asyncio.sleep(0)
        counts.append(len(items))
    assert counts[:4] == [5_000, 3_000, 1_000, 0]
