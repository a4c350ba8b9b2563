"""Binary mode: attributes between headers and text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.app.cloud_events.attributes import fault_in
from headgate.app.cloud_events.binary_mode import parse_message
from headgate.app.cloud_events.event import Event
from headgate.app.wire.problems import GatewayError

HEADERS = [
    *((b"host", b"localhost"), (b"ce-specversion", b"1.0"), (b"ce-id", b"1")),
    *((b"ce-source", b"/shop"), (b"ce-type", b"sold")),
]


def test_a_message_is_its_headers_and_its_body() -> None:
    event = parse_message([*HEADERS, (b"content-type", b"image/png")], b"\x00")

    attributes = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "sold"}
    assert event == Event(attributes, "image/png", b"\x00")
    assert parse_message(HEADERS, b"") == Event(attributes, None, None)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((b"Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"), (b"%e2%82%ac", "€")),
        *(("€".encode(), "€"), (b"%2525", "%25"), (b"100%", "100%"), (b"%zz", "%zz")),
        *((b'"a \\"b\\" %41"', 'a "b" A'), (b'"', '"'), (b"", "")),
    ],
)
def test_a_value_is_unquoted_and_percent_decoded_once(value: bytes, text: str) -> None:
    event = parse_message([*HEADERS, (b"ce-comment", value)], b"")
    assert event.attributes["comment"] == text


@pytest.mark.parametrize(
    ("header", "value"),
    [
        *(("ce-comment", no_text) for no_text in (b"%C0%A0", b"%ff", b"\xff", b"%ED%A0%80")),
        *((name, b"v") for name in ("ce-data", "ce-a-b", "ce-", "ce-a_b", "ce-datacontenttype")),
        *(("ce-id", b"2"), ("Content-Type", b"json")),
    ],
)
def test_a_header_that_is_wrong_is_named(header: str, value: bytes) -> None:
    with pytest.raises(GatewayError) as caught:
        parse_message([*HEADERS, (header.lower().encode(), value)], b"")
    assert (caught.value.code, caught.value.pointer) == ("invalid_request", f"/header/{header}")


@given(st.text())
def test_any_value_goes_through_headers_unchanged(value: str) -> None:
    attributes = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "comment": value}
    if fault_in(attributes, None) is None:
        headers = Event(attributes, None, None).headers()

        assert all(text.isascii() and text.isprintable() for text in headers.values())
        encoded = [(name.encode(), text.encode()) for name, text in headers.items()]
        assert parse_message(encoded, b"").attributes == attributes
