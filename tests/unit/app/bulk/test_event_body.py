"""A batch of events is read in pieces, and comes out as if each had come alone."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from fastapi.exceptions import RequestValidationError
from hypothesis import given
from hypothesis import strategies as st

from headgate.app.bulk import pieces
from headgate.app.bulk.event_body import EventBody, event_body
from headgate.app.cloud_events.event import BATCH
from headgate.app.cloud_events.json_format import parse_event
from headgate.app.wire.problems import GatewayError

REQUIRED = {"specversion": "1.0", "source": "/shop", "type": "sold"}

texts = st.sampled_from(["},{", '"},{"', "}]", "\\", '\\"', "]", "[", "ä", "{"])
values = st.recursive(
    texts | st.integers(-9, 9) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=12,
)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", 40)
    monkeypatch.setattr(pieces, "WHOLE_BYTES", 60)


def read(body: bytes, *, events_max: int = 1000) -> EventBody:
    return asyncio.run(event_body([], BATCH, body, timing=None, events_max=events_max))


def events_with(data: list[Any]) -> list[dict[str, Any]]:
    return [{**REQUIRED, "id": str(number), "data": each} for number, each in enumerate(data)]


@given(st.lists(values, min_size=1, max_size=8))
def test_a_batch_in_pieces_is_its_events(data: list[Any]) -> None:
    events = events_with(data)
    expected = [parse_event(json.dumps(event).encode()).to_fields() for event in events]

    assert [draft.fields for draft in read(json.dumps(events).encode()).drafts] == expected
    indented = json.dumps(events, indent=1).encode()
    assert len(read(b" \n" + indented + b"\n ").drafts) == len(expected)


@given(st.data())
def test_a_damaged_batch_is_refused_or_what_it_is_at_once(data: st.DataObject) -> None:
    drawn = data.draw(st.lists(values, min_size=2, max_size=8))
    body = json.dumps(events_with(drawn)).encode()
    at, cut = data.draw(st.integers(0, len(body) - 1)), data.draw(st.integers(0, 3))
    damaged = body[:at] + data.draw(st.sampled_from([b"", b"[", b"}", b'"', b",", b"\xff"]))
    damaged += body[at + cut :]
    try:
        items = json.loads(damaged)
    except ValueError:
        items = None
    try:
        drafts = read(damaged).drafts
    except (GatewayError, RequestValidationError):
        return

    assert isinstance(items, list)
    assert len(drafts) == len(items)


def test_an_event_of_another_batch_makes_another_identity() -> None:
    first = read(json.dumps(events_with([1, 2])).encode()).identity
    again = read(json.dumps(events_with([1, 2]), indent=1).encode()).identity
    other = read(json.dumps(events_with([1, 2, 3])).encode()).identity

    assert first == again
    assert first != other
