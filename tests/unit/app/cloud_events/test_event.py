"""Event: entries as events, with nothing lost."""

import base64
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.app.cloud_events.event import PLAIN_BYTES_MAX, REQUIRED, Event, event_of, fault_in
from headgate.app.cloud_events.formats import parse_event, text_in_turns
from headgate.app.wire.fields import wire_fields
from headgate.engine.entry import Entry, EntryId, Fields

ID = EntryId(1_718_000_000_000, 7)
ATTRIBUTES = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "sold"}


def structured(event: Event) -> dict[str, Any]:
    members: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(event.structured()))
    return members


def read(*flat: bytes) -> dict[str, Any]:
    return structured(event_of("orders", Entry(ID, flat)))


def data_of(data: bytes, content_type: str | None) -> tuple[str, Any]:
    """Return the name and the value of the data in the JSON format."""
    members = structured(Event(ATTRIBUTES, content_type, data))
    [name] = members.keys() & {"data", "data_base64"}
    return name, members[name]


def test_an_event_comes_back_with_the_id_of_its_entry() -> None:
    event = Event({**ATTRIBUTES, "comment": "ä"}, "text/plain", b"hello")

    assert read(*event.to_fields()) == {
        **ATTRIBUTES,
        "comment": "ä",
        "datacontenttype": "text/plain",
        "data": "hello",
        "headgateid": "1718000000000-7",
    }


def test_an_entry_that_is_no_event_is_one_of_the_gateway() -> None:
    assert read(b"sku", b"42") == {
        "specversion": "1.0",
        "id": "1718000000000-7",
        "source": "/v1/streams/orders",
        "type": "headgate.entry",
        "time": "2024-06-10T06:13:20.000Z",
        "datacontenttype": "application/json",
        "data": {"sku": "42"},
        "headgateid": "1718000000000-7",
    }


@pytest.mark.parametrize(
    "flat",
    [
        *((b"a", b"\xff"), (b"a", b"1", b"a", b"2"), (b"\xff", b"1")),
        (*Event(ATTRIBUTES, None, None).to_fields(), b"ce-\xff", b"1"),
    ],
)
def test_fields_that_are_not_a_map_of_texts_are_all_there(flat: Fields) -> None:
    members = read(*flat)

    assert members["type"] == "headgate.entry.raw"
    assert members["data"] == wire_fields(flat)


@pytest.mark.parametrize(
    "more",
    [
        *((b"sku", b"42"), (b"ce-id", b"twice"), (b"ce-Upper", b"1")),
        *((b"content-type", b"a/b\r\nx: y"), (b"ce-time", b"noon"), (b"ce-subject", b"\n")),
    ],
)
def test_fields_that_are_no_event_alone_are_an_entry(more: Fields) -> None:
    members = read(*Event(ATTRIBUTES, None, None).to_fields(), *more)

    assert members["source"] == "/v1/streams/orders"
    assert members["type"].startswith("headgate.entry")


VALUES: list[tuple[bytes, str | None, Any]] = [
    *((b'{"a":1}', kind, {"a": 1}) for kind in ("application/json", None)),
    *((b"1", "text/json; charset=utf-8", 1), (b"null", "application/vnd.x+json", None)),
    *((b"{}", "text/plain", "{}"), ("ä".encode(), "text/plain;charset=UTF-8", "ä")),
    *((b"<a/>", kind, "<a/>") for kind in ("application/xml", "image/svg+xml")),
]
NO_VALUES: list[tuple[bytes, str | None]] = [
    *((b"abc", kind) for kind in ("application/octet-stream", "text/plain; charset=latin-1")),
    *((data, "application/json") for data in (b"{", b'"\xff"', b'"\\ud800"')),
    *((b"[" * 9999 + b"]" * 9999, "application/json"), (b"\xff", "text/plain")),
    *((b"NaN", None), (b"1" * (PLAIN_BYTES_MAX + 1), None)),
]


def test_data_are_a_value_or_a_text_or_else_base64() -> None:
    for data, kind, value in VALUES:
        assert data_of(data, kind) == ("data", value)
    for data, kind in NO_VALUES:
        assert data_of(data, kind) == ("data_base64", base64.b64encode(data).decode())


parts = st.one_of(
    st.binary(max_size=6),
    st.sampled_from([b"ce-id", b"ce-type", b"ce-source", b"ce-specversion", b"1.0", b"data"]),
    st.sampled_from([b"content-type", b"application/json", b"ce-time", b"{}"]),
)
entries = st.lists(st.tuples(parts, parts), min_size=1, max_size=8).map(
    lambda pairs: tuple(part for pair in pairs for part in pair)
)


@given(entries, st.text(max_size=4))
def test_any_entry_is_a_valid_event(flat: Fields, stream: str) -> None:
    event = event_of(stream.encode(errors="replace").decode(), Entry(ID, flat))

    assert fault_in(event.attributes, event.content_type) is None
    assert structured(event).keys() >= {*REQUIRED, "headgateid"}


# White space around a JSON text is no part of the value.
data = st.one_of(st.none(), st.binary(max_size=20).map(bytes.strip), st.just(b'{"a": [1, 2]}'))
types = st.sampled_from(
    [None, "application/json", "text/plain", "application/octet-stream", "text/x; charset=x"]
)


@given(data, types)
def test_what_is_read_may_be_appended_again(data: bytes | None, content_type: str | None) -> None:
    event = Event(ATTRIBUTES, content_type, data)
    again = event_of("orders", Entry(ID, event.to_fields()))

    assert parse_event(msgspec.json.encode(again.structured())) == event


async def test_long_data_are_the_same_in_portions_as_at_once() -> None:
    for size_bytes in (PLAIN_BYTES_MAX, PLAIN_BYTES_MAX + 1, 3 * PLAIN_BYTES_MAX + 2):
        event = Event(ATTRIBUTES, "image/png", b"\xff" * size_bytes)

        assert await text_in_turns(event) == msgspec.json.encode(event.structured())
