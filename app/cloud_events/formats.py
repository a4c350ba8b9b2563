"""CloudEvents in the binary mode of HTTP, and as JSON alone or in batches."""

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec
import pybase64

from headgate.app.cloud_events.event import (
    BASE64,
    BATCH,
    CONTENT_TYPE,
    FAULTS,
    INTEGER_MAX,
    NAME_LENGTH_MAX,
    OWN,
    PLAIN_BYTES_MAX,
    STRUCTURED,
    VALUE_LENGTH_MAX,
    Event,
    data_of,
    data_of_base64,
    fault_in,
)
from headgate.app.wire.problems import GatewayError, pointer_to
from headgate.engine.threads import this_turn

# Mode: the way in which a message has an event (the HTTP binding, 3).
#
# The content type says it: structured, batched, or binary for every other one.

_FAMILY = b"application/cloudevents"


def is_event(sent: Mapping[bytes, bytes]) -> bool:
    """Tell by a request's headers whether its body is one or several events."""
    return b"ce-specversion" in sent or _is_in_family(sent)


def check_format(sent: Mapping[bytes, bytes]) -> None:
    """Raise GatewayError for events in an unknown format, naming the known ones."""
    text = sent.get(b"content-type", b"").decode("latin-1")
    parameters = text.partition(";")[2].lower().replace(" ", "").replace('"', "")
    if _is_in_family(sent) and (
        _media_type_of(sent) not in (STRUCTURED, BATCH) or parameters not in ("", "charset=utf-8")
    ):
        text = f"send events as {STRUCTURED} or {BATCH} in UTF-8, or in the binary mode"
        raise GatewayError("unsupported_media_type", text, pointer="/header/Content-Type")


def _is_in_family(sent: Mapping[bytes, bytes]) -> bool:
    return sent.get(b"content-type", b"")[: len(_FAMILY)].lower() == _FAMILY


def _media_type_of(sent: Mapping[bytes, bytes]) -> str:
    return sent.get(b"content-type", b"").partition(b";")[0].strip().lower().decode("latin-1")


_PREFIX = b"ce-"
_QUOTED = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(rb"\\(.)")
_PERCENT = re.compile(rb"%([0-9A-Fa-f]{2})")


def parse_message(headers: Iterable[tuple[bytes, bytes]], content: bytes) -> Event:
    """Read an event in the binary mode; header names are lower case. Raises GatewayError."""
    attributes, content_type = dict[str, str](), None
    for header, value in headers:
        if header == b"content-type":
            content_type = value.decode("latin-1")
        elif header.startswith(_PREFIX):
            name = header.removeprefix(_PREFIX).decode("latin-1")
            if name == CONTENT_TYPE:
                raise _wrong("ce-datacontenttype", "give it in the header Content-Type")
            if name in attributes:
                raise _wrong(f"ce-{name}", "given twice")
            attributes[name] = _header_text(f"ce-{name}", value)
    for name in OWN & attributes.keys():
        del attributes[name]
    fault = fault_in(attributes, content_type)
    if fault is not None:
        if fault.name is None:
            raise GatewayError("invalid_request", fault.text, pointer="/header")
        is_type = fault.name == CONTENT_TYPE
        raise _wrong("Content-Type" if is_type else f"ce-{fault.name}", fault.text)
    return Event(attributes, content_type, content or None)


def _header_text(header: str, value: bytes) -> str:
    """Decode a header's value (the HTTP binding, 3.1.3.2); GatewayError: it is not UTF-8."""
    quoted = _QUOTED.fullmatch(value)
    if quoted is not None:
        value = _ESCAPE.sub(rb"\1", quoted[1])
    try:
        return _PERCENT.sub(lambda match: bytes((int(match[1], 16),)), value).decode()
    except UnicodeDecodeError:
        raise _wrong(header, "not UTF-8 after percent-decoding") from None


def _wrong(header: str, text: str) -> GatewayError:
    return GatewayError("invalid_request", text, pointer=pointer_to("header", header))


# JSON format: reads an event in the structured mode, alone or in a batch.
#
# An event is read without a model of its data: they stay the text that they are. What remains are
# attributes, which have a bound, so that an event is read within some milliseconds, whatever is in
# it.

EVENT_BYTES_MAX = 2**20
"""Longest event in JSON: its text is walked three times, and each may take 5 ms. The specification
asks for 64 KiB. Longer data come in the binary mode, which reads nothing of them."""

_ATTRIBUTES_BYTES_MAX = 64 * 1024
"""Longest text of all that is not the data: a dictionary of more would take long to make."""

_INTEGERS = range(-INTEGER_MAX - 1, INTEGER_MAX + 1)
_ESCAPED_MAX = 6
"""Bytes of a character of a JSON text, with an escape."""


class _DataMembers(msgspec.Struct):
    data: msgspec.Raw = msgspec.Raw()
    data_base64: msgspec.Raw = msgspec.Raw()


_data_members = msgspec.json.Decoder(_DataMembers).decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_value = msgspec.json.Decoder().decode


def parse_event(content: bytes, pointer: str = "/body") -> Event:
    """Read an event in the structured mode; `pointer` is its place. Raises GatewayError."""
    if len(content) > EVENT_BYTES_MAX:
        text = (
            f"an event in JSON may have at most {EVENT_BYTES_MAX} bytes: send longer data in the "
            "binary mode"
        )
        raise GatewayError("too_large", text, pointer=pointer)
    members = _members_of(content, pointer)
    data, packed = members.pop("data", None), members.pop("data_base64", None)
    if packed == b"null":
        packed = None
    if data is not None and packed is not None:
        text = "an event may have either `data` or `data_base64`"
        raise GatewayError("invalid_request", text, pointer=f"{pointer}/data_base64")
    attributes = {
        name: value
        for name, member in members.items()
        if name not in OWN and (value := _text_of(name, member, pointer)) is not None
    }
    content_type = attributes.pop(CONTENT_TYPE, None)
    fault = fault_in(attributes, content_type)
    if fault is not None:
        place = pointer if fault.name is None else pointer + pointer_to(fault.name)
        raise GatewayError("invalid_request", fault.text, pointer=place)
    if packed is not None:
        return Event(attributes, content_type, data_of_base64(packed, f"{pointer}/data_base64"))
    return Event(attributes, content_type, None if data is None else data_of(data, content_type))


def items_of(content: bytes) -> list[bytes]:
    """Return the items of a JSON array, each as its text; raises ValueError if it is none."""
    try:
        return list(map(bytes, _items(content)))
    except FAULTS as error:
        raise ValueError(str(error)) from None


def _members_of(content: bytes, pointer: str) -> dict[str, bytes]:
    """Return the members of an event as JSON texts; raises GatewayError."""
    try:
        content.decode()
        if len(content) > _ATTRIBUTES_BYTES_MAX:
            parts = _data_members(content)
            beside = len(content) - len(bytes(parts.data)) - len(bytes(parts.data_base64))
            if beside > _ATTRIBUTES_BYTES_MAX:
                text = f"should have at most {_ATTRIBUTES_BYTES_MAX} bytes besides the data"
                raise GatewayError("too_large", text, pointer=pointer)
        return {name: bytes(member) for name, member in _members(content).items()}
    except msgspec.ValidationError:
        raise GatewayError("invalid_request", "should be an object", pointer=pointer) from None
    except FAULTS as error:
        raise GatewayError("malformed", f"not JSON: {error}", pointer=pointer) from None


def _text_of(name: str, member: bytes, pointer: str) -> str | None:
    """Return an attribute as text, or None if it is unset; raises GatewayError for its type."""
    text = (
        f"an attribute must be a string of at most {VALUE_LENGTH_MAX} characters, a 32-bit integer "
        "or a Boolean"
    )
    if len(member) <= _ESCAPED_MAX * VALUE_LENGTH_MAX + 2 and member[:1] not in (b"{", b"["):
        try:
            value = _value(member)
        except msgspec.ValidationError:  # a number beyond all bounds
            value = 0.0
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int) and value in _INTEGERS:
            return str(value)
    place = pointer + pointer_to(name[:NAME_LENGTH_MAX])
    raise GatewayError("invalid_request", text, pointer=place)


_PORTION_BYTES = 3 * 2**18
"""Bytes that become base64 at once: whole groups of three."""

_encode = msgspec.json.Encoder().encode


async def text_in_turns(event: Event) -> bytes:
    """Return an event as JSON, encoded in turns of the event loop."""
    return b"".join(await _in_turns([event], b"", b""))


async def batch_in_turns(events: Iterable[Event]) -> bytes:
    """Return events as a JSON array; they are created one by one."""
    return b"".join(await _in_turns(events, b"[", b"]"))


async def _in_turns(events: Iterable[Event], begin: bytes, end: bytes) -> list[bytes]:
    turn, parts = this_turn(), [begin]
    for number, event in enumerate(events):
        if number:
            parts.append(b",")
        for portion in _portions(event):
            parts.append(portion)
            if turn.is_over:
                await turn.pause()
    return [*parts, end]


def _portions(event: Event) -> Iterator[bytes]:
    data = event.data
    if data is None or len(data) <= PLAIN_BYTES_MAX:
        yield _encode(event.structured())
        return
    without = _encode(event._replace(data=None).structured())
    yield b'%b,"%b":"' % (without.removesuffix(b"}"), BASE64.encode())
    view = memoryview(data)
    for begin in range(0, len(data), _PORTION_BYTES):
        yield pybase64.b64encode(view[begin : begin + _PORTION_BYTES])
    yield b'"}'
