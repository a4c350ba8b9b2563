"""A large batch, of entries or of events, is read in pieces, and is what it is at once."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from fastapi.exceptions import RequestValidationError
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from headgate.app.bulk import batch
from headgate.app.bulk.batch import EventBody, drafts_of, event_body
from headgate.app.cloud_events.event import BATCH
from headgate.app.cloud_events.formats import parse_event
from headgate.app.runtime import loop_delay
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
    monkeypatch.setattr(batch, "PIECE_BYTES", 40)
    monkeypatch.setattr(batch, "WHOLE_BYTES", 60)


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


def damaged(data: st.DataObject, body: bytes) -> bytes:
    """Put something into a body, or leave something out."""
    at, cut = data.draw(st.integers(0, len(body) - 1)), data.draw(st.integers(0, 3))
    more = data.draw(st.sampled_from([b"", b"[", b"}", b'"', b",", b"\\", b"\xff"]))
    return body[:at] + more + body[at + cut :]


@given(st.data())
def test_an_array_that_is_damaged_is_refused_or_as_it_is_at_once(data: st.DataObject) -> None:
    body = damaged(data, json.dumps(data.draw(st.lists(entries, min_size=4, max_size=12))).encode())
    try:
        expected = [entry.to_draft() for entry in _model.validate_json(body)]
    except (ValueError, GatewayError):
        with pytest.raises((GatewayError, RequestValidationError)):
            read(body)
    else:
        assert read(body) == expected


def of(parts: list[bytes], *, is_lines: bool) -> bytes:
    return b"\n".join(parts) if is_lines else b"[" + b",".join(parts) + b"]"


@pytest.mark.parametrize("is_lines", [True, False])
def test_what_is_wrong_or_too_much_is_named_by_its_place_in_the_body(is_lines: bool) -> None:
    parts = [b'{"fields":{"a":"1"}}'] * 100
    body = of(parts, is_lines=is_lines)
    assert len(read(body, is_lines=is_lines, entries_max=100)) == 100
    with pytest.raises(GatewayError, match="at most 99"):
        read(body, is_lines=is_lines, entries_max=99)
    parts[77] = b'{"fields":{"a":1}}'
    with pytest.raises(RequestValidationError) as refused:
        read(of(parts, is_lines=is_lines), is_lines=is_lines)
    assert refused.value.errors()[0]["loc"] == ("body", 77, "fields", "a")
    parts[77] = b'{"id":"x","fields":{"a":"1"}}'
    with pytest.raises(GatewayError) as wrong:
        read(of(parts, is_lines=is_lines), is_lines=is_lines)
    assert wrong.value.pointer == "/body/77/id"


async def test_others_come_between_while_many_items_are_let_go() -> None:
    items = list(range(7_000))
    counts = []
    letting_go = asyncio.ensure_future(loop_delay.let_go(items))
    while not letting_go.done():
        await asyncio.sleep(0)
        counts.append(len(items))
    assert counts[:4] == [5_000, 3_000, 1_000, 0]


REQUIRED = {"specversion": "1.0", "source": "/shop", "type": "sold"}

event_texts = st.sampled_from(["},{", '"},{"', "}]", "\\", '\\"', "]", "[", "ä", "{"])
values = st.recursive(
    event_texts | st.integers(-9, 9) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(event_texts, inner, max_size=3),
    max_leaves=12,
)


def read_events(body: bytes) -> EventBody:
    return asyncio.run(event_body([], BATCH, body, timing=None, events_max=1000))


def events_with(data: list[Any]) -> list[dict[str, Any]]:
    return [{**REQUIRED, "id": str(number), "data": each} for number, each in enumerate(data)]


@given(st.lists(values, min_size=1, max_size=8))
def test_a_batch_in_pieces_is_its_events(data: list[Any]) -> None:
    events = events_with(data)
    expected = [parse_event(json.dumps(event).encode()).to_fields() for event in events]

    assert [draft.fields for draft in read_events(json.dumps(events).encode()).drafts] == expected
    indented = json.dumps(events, indent=1).encode()
    assert len(read_events(b" \n" + indented + b"\n ").drafts) == len(expected)


@given(st.data())
def test_a_damaged_batch_is_refused_or_what_it_is_at_once(data: st.DataObject) -> None:
    drawn = data.draw(st.lists(values, min_size=2, max_size=8))
    body = damaged(data, json.dumps(events_with(drawn)).encode())
    try:
        drafts = read_events(body).drafts
    except (GatewayError, RequestValidationError):
        return

    items = json.loads(body)
    assert isinstance(items, list)
    assert len(drafts) == len(items)


def test_an_event_of_another_batch_makes_another_identity() -> None:
    first = read_events(json.dumps(events_with([1, 2])).encode()).identity
    again = read_events(json.dumps(events_with([1, 2]), indent=1).encode()).identity
    other = read_events(json.dumps(events_with([1, 2, 3])).encode()).identity

    assert first == again
    assert first != other
