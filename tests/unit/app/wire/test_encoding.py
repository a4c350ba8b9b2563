"""Encoding: entries, deliveries and events have the form that the API declares, and come back."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from headgate.app.http import answers
from headgate.app.wire import encoding
from headgate.app.wire.events import change_events, delivery_events, entry_events
from headgate.app.wire.fields import FieldsRead, wire_fields
from headgate.app.wire.schemas.deliveries import Delivery as WireDelivery
from headgate.app.wire.schemas.entries import Entry as WireEntry
from headgate.app.wire.schemas.entries import EntryInput
from headgate.engine import threads
from headgate.engine.entry import MIN_ID, Entry, EntryId
from headgate.engine.limits import COUNT_MAX, U64_MAX
from headgate.engine.replies import Delivery, StreamRead

numbers = st.integers(0, U64_MAX)
ids = st.builds(EntryId, numbers, numbers)
parts = st.one_of(st.binary(max_size=4), st.text(max_size=4).map(str.encode), st.just(b"k"))
fields = st.lists(st.tuples(parts, parts), min_size=1, max_size=4).map(
    lambda pairs: tuple(part for pair in pairs for part in pair)
)
entries = st.lists(st.builds(Entry, ids, fields), max_size=4)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
deliveries = st.lists(
    st.builds(
        Delivery,
        id=ids,
        fields=fields,
        idle_ms=st.integers(0, 10**12),
        delivered_before=st.sampled_from([0, 1, U64_MAX]),
        claimed_from=st.none() | names.map(str.encode),
        count_set=st.none() | st.integers(0, 5),
    ),
    max_size=4,
)


ENTRY, DELIVERY = TypeAdapter(WireEntry), TypeAdapter(WireDelivery)


def read_of(entries: list[Entry], stream: bytes = b"s") -> StreamRead:
    return StreamRead(stream, entries, MIN_ID, MIN_ID, None, MIN_ID)


@given(entries)
def test_an_entry_is_what_its_model_says(drawn: list[Entry]) -> None:
    for entry in drawn:
        wire = encoding.entry_wire(entry)
        assert wire == {"id": str(entry.id), **wire_fields(entry.fields)}
        assert wire == ENTRY.validate_python(wire)


@given(deliveries)
def test_a_delivery_is_what_its_model_says(drawn: list[Delivery]) -> None:
    for delivery in drawn:
        wire = encoding.delivery_wire(delivery)
        assert wire["id"] == str(delivery.id)
        assert wire.items() >= wire_fields(delivery.fields or ()).items()
        assert wire["deliveries"] == min(delivery.delivery_count, COUNT_MAX)
        assert wire["idle_ms"] == delivery.idle_ms
        assert wire == DELIVERY.validate_python(wire)


def assert_events(sent: bytes, wires: Sequence[WireEntry]) -> None:
    """Check the events of entries: the id line, and the data."""
    events = [event.split("\n") for event in sent.decode().split("\n\n")[:-1]]
    for lines, wire in zip(events, wires, strict=True):
        fields = dict(line.split(": ", 1) for line in lines)
        assert (fields["event"], fields["id"]) == ("entry", wire["id"])
        assert json.loads(fields["data"]) == wire


@given(entries)
def test_events_of_a_stream(drawn: list[Entry]) -> None:
    wires = [encoding.entry_wire(entry) for entry in drawn]

    assert_events(entry_events(read_of(drawn)), wires)


@given(deliveries)
def test_events_of_a_group(drawn: list[Delivery]) -> None:
    wires = [encoding.delivery_wire(delivery) for delivery in drawn]

    assert_events(delivery_events(drawn), wires)


def test_streams_that_are_followed_in_turn_are_encoded_once_each() -> None:
    encoded: list[list[Entry]] = []

    def encode(read: StreamRead) -> bytes:
        encoded.append(read.entries)
        return b"%d" % len(encoded)

    batches = encoding.LastBatches(encode, len)
    drawn = [Entry(EntryId(1, 0), (b"k", b"v"))]

    texts = [batches.encoded(read_of(drawn, stream=name)) for name in [b"a", b"b"] * 3]

    assert texts == [b"1", b"2"] * 3


def test_a_follower_of_some_rows_goes_on_behind_its_own_read() -> None:
    entry = Entry(EntryId(1, 0), (b"sku", b"a"))
    fields = b"sku", b"deleted"
    places = [
        change_events(read_of([entry])._replace(next_after=EntryId(at, 0)), fields=fields)
        for at in (1, 9, 5)
    ]
    assert [text.count(b"id: ") for text in places] == [1, 2, 2]
    assert [text.rpartition(b"id: ")[2].strip() for text in places] == [b"1-0", b"9-0", b"5-0"]


async def test_others_come_between_large_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "TURN_MS_MAX", 0)
    encoding_it = asyncio.ensure_future(answers.array_in_turns(range(50), str))
    others = 0
    while not encoding_it.done():
        await asyncio.sleep(0)
        others += 1
    assert others >= 50
    assert json.loads(bytes(encoding_it.result())) == list(map(str, range(50)))


def as_sent(wire: FieldsRead) -> dict[str, Any]:
    """Return an entry that was read as one to append: `pairs` takes the place of `fields`."""
    return {name: part for name, part in wire.items() if name != "fields" or "pairs" not in wire}


@given(fields)
def test_any_bytes_come_back_as_they_went(flat: tuple[bytes, ...]) -> None:
    text = json.dumps(as_sent(wire_fields(flat)))

    assert EntryInput.model_validate_json(text).to_draft().fields == flat
