"""Event: one event of CloudEvents 1.0, in and out of an entry."""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from headgate.app.wire.fields import wire_fields
from headgate.app.wire.problems import GatewayError
from headgate.engine.entry import Entry, Fields

STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"

TYPE_OF_ENTRIES = "headgate.entry"
"""Type of an entry that is no event."""

_PREFIX = "ce-"
_CONTENT_TYPE = b"content-type"
_DATA = b"data"
_JSON = "application/json"

_NAME = re.compile(r"[a-z0-9]{1,64}")
_REQUIRED = ("id", "source", "specversion", "type")
_VERSION = "1.0"
_ATTRIBUTES_MAX = 100
_VALUE_MAX = 8_192
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_many = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


class Event(NamedTuple):
    """An event."""

    attributes: Mapping[str, str]  # without the content type
    content_type: str | None
    data: bytes | None

    def to_fields(self) -> Fields:
        """Return the fields of its entry."""
        parts = [
            (f"{_PREFIX}{name}".encode(), value.encode()) for name, value in self.attributes.items()
        ]
        if self.content_type is not None:
            parts.append((_CONTENT_TYPE, self.content_type.encode()))
        if self.data is not None:
            parts.append((_DATA, self.data))
        return tuple(part for pair in parts for part in pair)

    def structured(self) -> dict[str, object]:
        """Return the event as an object of JSON (the JSON format of CloudEvents, 3)."""
        event: dict[str, object] = dict(self.attributes)
        if self.content_type is not None:
            event["datacontenttype"] = self.content_type
        if self.data is not None:
            event.update(_member_of(self.data, self.content_type))
        return event

    def headers(self) -> dict[str, str]:
        """Return the headers of the event in the binary mode (the HTTP binding, 3.1)."""
        return {
            f"{_PREFIX}{name}": quote(value, safe=_UNQUOTED)
            for name, value in self.attributes.items()
        }


_UNQUOTED = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')


def is_json(content_type: str | None) -> bool:
    """Tell whether data of a content type is JSON; without one it is."""
    if content_type is None:
        return True
    media_type = content_type.partition(";")[0].strip().lower()
    return media_type == _JSON or media_type.endswith(("+json", "/json"))


def _member_of(data: bytes, content_type: str | None) -> dict[str, object]:
    """Return the member of an event that has its data."""
    try:
        if is_json(content_type):
            msgspec.json.decode(data)
            data.decode()
            return {"data": msgspec.Raw(data)}
        if (content_type or "").startswith("text/"):
            return {"data": data.decode()}
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        pass
    return {"data_base64": base64.b64encode(data).decode()}


def parse_structured(content: bytes, *, pointer: str = "/body") -> Event:
    """Read an event in the structured mode.

    Raises:
        GatewayError: it is none.
    """
    try:
        content.decode()
        members = _decode(content)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise GatewayError(
            "malformed", f"an event is an object of JSON: {error}", pointer=pointer
        ) from None
    data, packed = members.pop("data", None), members.pop("data_base64", None)
    if data is not None and packed is not None:
        text = "an event has `data` or `data_base64`, not both"
        raise GatewayError("invalid_request", text, pointer=f"{pointer}/data")
    texts = {name: _text_of(bytes(raw), f"{pointer}/{name}") for name, raw in members.items()}
    attributes = {name: text for name, text in texts.items() if text is not None}
    content_type = attributes.pop("datacontenttype", None)
    _check(attributes, pointer)
    content_bytes = None
    if packed is not None:
        content_bytes = _unpacked(bytes(packed), f"{pointer}/data_base64")
    elif data is not None:
        content_bytes = _data_of(bytes(data), content_type)
    return Event(attributes, content_type, content_bytes)


def parse_batch(content: bytes) -> Iterator[Event]:
    """Yield the events of a batch.

    Raises:
        GatewayError: it is none.
    """
    try:
        events = _decode_many(content)
    except (msgspec.DecodeError, RecursionError) as error:
        text = f"a batch is an array of events: {error}"
        raise GatewayError("malformed", text, pointer="/body") from None
    for index, event in enumerate(events):
        yield parse_structured(bytes(event), pointer=f"/body/{index}")


def parse_binary(headers: Mapping[str, str], content: bytes) -> Event:
    """Read an event in the binary mode: its attributes are headers.

    Raises:
        GatewayError: it is none.
    """
    attributes = {
        name.lower().removeprefix(_PREFIX): _unquoted(value)
        for name, value in headers.items()
        if name.lower().startswith(_PREFIX)
    }
    _check(attributes, "/header")
    return Event(attributes, headers.get("content-type"), content or None)


def _check(attributes: Mapping[str, str], pointer: str) -> None:
    for name in _REQUIRED:
        if not attributes.get(name):
            raise GatewayError("invalid_request", "an event has it", pointer=f"{pointer}/{name}")
    if attributes["specversion"] != _VERSION:
        text = f"events of version {_VERSION} are known"
        raise GatewayError("invalid_request", text, pointer=f"{pointer}/specversion")
    if len(attributes) > _ATTRIBUTES_MAX:
        text = f"at most {_ATTRIBUTES_MAX} attributes"
        raise GatewayError("invalid_request", text, pointer=pointer)
    for name, value in attributes.items():
        if _NAME.fullmatch(name) is None:
            text = "the name of an attribute has small letters and digits, 64 at most"
            raise GatewayError("invalid_request", text, pointer=f"{pointer}/{name}")
        if len(value) > _VALUE_MAX or _CONTROL.search(value):
            text = f"an attribute has no control characters, and {_VALUE_MAX} at most"
            raise GatewayError("invalid_request", text, pointer=f"{pointer}/{name}")


def _text_of(raw: bytes, pointer: str) -> str | None:
    value = msgspec.json.decode(raw)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if value is None or isinstance(value, str):
        return value
    text = "an attribute is a text, a whole number or a Boolean"
    raise GatewayError("invalid_request", text, pointer=pointer)


def _data_of(raw: bytes, content_type: str | None) -> bytes:
    """Return the bytes of `data`: of a text that is no JSON itself, its characters."""
    if not is_json(content_type):
        value = msgspec.json.decode(raw)
        if isinstance(value, str):
            return value.encode()
    return raw.strip()


def _unpacked(raw: bytes, pointer: str) -> bytes:
    try:
        return base64.b64decode(msgspec.json.decode(raw, type=str), validate=True)
    except (binascii.Error, ValueError, msgspec.DecodeError):
        raise GatewayError("invalid_request", "should be base64 text", pointer=pointer) from None


_QUOTED = re.compile(rb"%([0-9A-Fa-f]{2})")


def _unquoted(value: str) -> str:
    """Return the value of a header (the HTTP binding, 3.1.3.2)."""
    raw = value.encode("latin-1", errors="replace")
    return _QUOTED.sub(lambda match: bytes([int(match[1], 16)]), raw).decode(errors="replace")


def event_of(stream: str, entry: Entry) -> Event:
    """Return an entry as an event."""
    flat = entry.fields
    names = [name.decode(errors="replace") for name in flat[::2]]
    values = dict(zip(names, flat[1::2], strict=True))
    attributes = {
        name.removeprefix(_PREFIX): value.decode(errors="replace")
        for name, value in values.items()
        if name.startswith(_PREFIX)
    }
    if all(attributes.get(name) for name in _REQUIRED):
        content_type = values.get("content-type")
        text = None if content_type is None else content_type.decode(errors="replace")
        return Event(attributes, text, values.get("data"))
    return Event(
        {
            "specversion": _VERSION,
            "id": str(entry.id),
            "source": f"/v1/streams/{quote(stream, safe='')}",
            "type": TYPE_OF_ENTRIES,
            "time": _instant(entry.id.ms),
        },
        _JSON,
        _encode(wire_fields(flat)["fields"]),
    )


def _instant(at_ms: int) -> str:
    try:
        moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):  # an id that somebody has chosen
        moment = datetime.fromtimestamp(0, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
