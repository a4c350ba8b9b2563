"""CloudEvents in the JSON format and in the binary mode, and whatever else comes as one."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.app.cloud_events.event import ATTRIBUTES_MAX, VALUE_LENGTH_MAX, Event, fault_in
from headgate.app.cloud_events.formats import EVENT_BYTES_MAX, parse_event, parse_message
from headgate.app.wire.problems import GatewayError, pointer_to, problem_of

REQUIRED = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "sold"}


def event_of(**members: Any) -> Event:
    return parse_event(json.dumps({**REQUIRED, **members}).encode())


def fault_of(content: bytes | str) -> tuple[str, str | None]:
    """Return the code and the place of the problem of an event that is none."""
    with pytest.raises(GatewayError) as caught:
        parse_event(content.encode() if isinstance(content, str) else content)
    return caught.value.code, caught.value.pointer


def fields_or_place(content: bytes) -> tuple[bytes, ...]:
    """Return the fields of an event; the place of the problem of one that is none."""
    try:
        return parse_event(content).to_fields()
    except GatewayError as error:
        problem = problem_of(error, "/")
    assert problem.status in {400, 413, 422}
    [fault] = problem.errors or []
    return (fault.pointer.encode(),)


def place_of(**members: Any) -> str | None:
    code, pointer = fault_of(json.dumps({**REQUIRED, **members}))
    assert code == "invalid_request"
    return pointer


def test_attributes_become_fields_and_data_stay_the_text_they_are() -> None:
    content = b'{"specversion":"1.0","id":"1","source":"/shop","type":"sold","data":{"n": 1.50 }}'

    assert parse_event(content).to_fields() == (
        *(b"ce-specversion", b"1.0", b"ce-id", b"1", b"ce-source", b"/shop", b"ce-type", b"sold"),
        *(b"data", b'{"n": 1.50 }'),
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "true"), (False, "false"), (0, "0"), (-(2**31), "-2147483648"), ("", ""), ("ß", "ß")],
)
def test_an_extension_is_its_canonical_text(value: Any, text: str) -> None:
    assert event_of(comment=value).attributes["comment"] == text


PACKED = base64.b64encode(b"\x00\xff").decode()
LONG_NAMES = ["A", "a-b", "a_b", "ä", "", "a" * 65, "a/b~"]
NO_TIMES = [
    *("", "now", "2018-04-05", "2018-04-05T17:31:00", "2023-02-29T00:00:00Z", "20180405T173100Z")
]
CONTROLS = ["\x00", "\n", "\x7f", "\x9f", "\ufdd0", "\uffff", "\U0010ffff"]
FAULTS: list[tuple[dict[str, Any], str]] = [
    *(({"comment": no_text}, "/comment") for no_text in (1.5, 1.0, 2**31, -(2**31) - 1, 10**400)),
    *(({"comment": []}, "/comment"), ({"comment": {}}, "/comment"), ({"comment": [1]}, "/comment")),
    *(({name: empty}, f"/{name}") for name in REQUIRED for empty in (None, "")),
    *(({name: ""}, f"/{name}") for name in ("subject", "dataschema")),
    *(({"specversion": version}, "/specversion") for version in ("0.3", "1.1", "1", 1)),
    *(({name: "v"}, pointer_to(name[:64])) for name in LONG_NAMES),
    *(({"subject": f"a{control}"}, "/subject") for control in CONTROLS),
    *(({"time": time}, "/time") for time in NO_TIMES),
    *(
        ({"datacontenttype": a}, "/datacontenttype")
        for a in ("", "json", "a/b\r\nX: y", "a/", "/b")
    ),
    *(({"data_base64": no_base64}, "/data_base64") for no_base64 in ("?", [1])),
    ({"data_base64": PACKED, "data": None}, "/data_base64"),
]


@pytest.mark.parametrize(("members", "place"), FAULTS, ids=range(len(FAULTS)))
def test_what_is_wrong_with_a_member_is_placed(members: dict[str, Any], place: str) -> None:
    assert place_of(**members) == f"/body{place}"


def test_attributes_are_bounded() -> None:
    extensions = {f"a{number}": "v" for number in range(ATTRIBUTES_MAX - len(REQUIRED))}

    assert len(event_of(**extensions).attributes) == ATTRIBUTES_MAX
    assert place_of(**extensions, more="v") == "/body"
    assert place_of(subject="v" * (VALUE_LENGTH_MAX + 1)) == "/body/subject"
    assert place_of(subject="v" * 60_000) == "/body/subject"
    assert fault_of(json.dumps({**REQUIRED, "a": "v" * 2**18})) == ("too_large", "/body")


def test_base64_data_are_bytes_and_a_time_keeps_its_form() -> None:
    assert event_of(data_base64=PACKED).data == b"\x00\xff"
    assert event_of(data_base64=None, data=1).data == b"1"
    for time in (
        "2018-04-05T17:31:00Z",
        "2018-04-05t17:31:00.123456789z",
        "2024-02-29T23:59:59-12:30",
    ):
        assert event_of(time=time).attributes["time"] == time


def test_null_is_a_value_of_json_and_of_nothing_else() -> None:
    assert event_of(data=None).data == b"null"
    assert event_of(data=None, datacontenttype="text/plain").data is None
    assert event_of(data={}, datacontenttype="text/plain").data == b"{}"


def test_what_is_no_json_object_is_refused() -> None:
    for content in (
        *("", "{", "NaN", '{"id":NaN}', '{"id":"\\ud800"}', '{"a":' * 9999, b'{"id":"\xff"}'),
    ):
        assert fault_of(content) == ("malformed", "/body")
    for content in ("1", "[]", '"text"', "null"):
        assert fault_of(content) == ("invalid_request", "/body")


def test_deep_data_are_kept_or_refused_at_once() -> None:
    deep = "[" * 100 + "]" * 100

    assert parse_event(json.dumps({**REQUIRED, "data": json.loads(deep)}).encode()).data
    assert fault_of(json.dumps(REQUIRED)[:-1] + ',"data":' + "[" * 9999 + "]" * 9999 + "}") == (
        "malformed",
        "/body",
    )


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)
names = st.sampled_from([*REQUIRED, "time", "data", "data_base64", "datacontenttype", "x"])


@given(st.dictionaries(names | st.text(max_size=4), values, max_size=8))
def test_any_json_is_an_event_or_a_problem_with_a_place(members: dict[str, Any]) -> None:
    content = json.dumps({**REQUIRED, **members}).encode(errors="surrogatepass")
    assert all(isinstance(part, bytes) for part in fields_or_place(content))


def test_an_event_has_an_end() -> None:
    whole = json.dumps({**REQUIRED, "data": ""})
    longest = json.dumps({**REQUIRED, "data": "v" * (EVENT_BYTES_MAX - len(whole))})

    assert len(longest) == EVENT_BYTES_MAX
    assert len(parse_event(longest.encode()).data or b"") > EVENT_BYTES_MAX - 200
    assert fault_of(longest + " ") == ("too_large", "/body")


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
