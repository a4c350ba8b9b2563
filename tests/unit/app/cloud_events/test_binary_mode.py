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


def comment_of(value: bytes) -> str:
    return parse_message([*HEADERS, (b"ce-comment", value)], b"").attributes["comment"]


def place_of(*headers: tuple[bytes, bytes]) -> str | None:
    with pytest.raises(GatewayError) as caught:
        parse_message([*HEADERS, *headers], b"")
    assert caught.value.code == "invalid_request"
    return caught.value.pointer


def test_a_message_is_its_headers_and_its_body() -> None:
    event = parse_message([*HEADERS, (b"content-type", b"image/png")], b"\x00")

    attributes = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "sold"}
    assert event == Event(attributes, "image/png", b"\x00")
    assert parse_message(HEADERS, b"") == Event(attributes, None, None)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"),
        (b"%e2%82%ac", "€"),
        ("€".encode(), "€"),
        (b"%2525", "%25"),
        (b"100%", "100%"),
        (b"%zz", "%zz"),
        (b'"a \\"b\\" %41"', 'a "b" A'),
        (b'"', '"'),
        (b"", ""),
    ],
)
def test_a_value_is_unquoted_and_percent_decoded_once(value: bytes, text: str) -> None:
    assert comment_of(value) == text


@pytest.mark.parametrize("value", [b"%C0%A0", b"%ff", b"\xff", b"%ED%A0%80"])
def test_a_value_that_is_not_utf_8_is_refused(value: bytes) -> None:
    assert place_of((b"ce-comment", value)) == "/header/ce-comment"


@pytest.mark.parametrize("header", ["ce-data", "ce-a-b", "ce-", "ce-a_b", "ce-datacontenttype"])
def test_a_header_that_is_no_attribute_is_refused(header: str) -> None:
    assert place_of((header.encode(), b"v")) == f"/header/{header}"


def test_an_attribute_is_given_once() -> None:
    assert place_of((b"ce-id", b"2")) == "/header/ce-id"


def test_a_content_type_is_a_media_type() -> None:
    assert place_of((b"content-type", b"json")) == "/header/Content-Type"


@given(st.text())
def test_any_value_goes_through_headers_unchanged(value: str) -> None:
    attributes = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "comment": value}
    if fault_in(attributes, None) is None:
        headers = Event(attributes, None, None).headers()

        assert all(text.isascii() and text.isprintable() for text in headers.values())
        encoded = [(name.encode(), text.encode()) for name, text in headers.items()]
        assert parse_message(encoded, b"").attributes == attributes
