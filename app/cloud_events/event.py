"""An event of CloudEvents 1.0, its attributes and data, to and from an entry."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import quote

import msgspec
import pybase64

from headgate.app.wire.fields import bytes_of, wire_fields
from headgate.engine.entry import Entry, EntryId, Fields
from headgate.engine.replies import Delivery

# Attributes: the rules for what an event says beside its data.
#
# All of them are text here. An attribute is a field of an entry, and the binary mode has no other
# types, so a number and a Boolean of the JSON format become their canonical text.

VERSION = "1.0"

CONTENT_TYPE = "datacontenttype"
"""The attribute that is no header of its own: `Content-Type` says it."""

ENTRY_ID = "headgateid"
"""Extension of each event that is read: the id of its entry."""

DELIVERIES = "headgatedeliveries"
"""Extension of each event that a group reads: the number of its deliveries."""

OWN = frozenset({ENTRY_ID, DELIVERIES})
"""The gateway says these of an event that is read; of one that is appended they are left out."""

REQUIRED = ("id", "source", "specversion", "type")

ATTRIBUTES_MAX = 100
INTEGER_MAX = 2**31 - 1
VALUE_LENGTH_MAX = 8_192
NAME_LENGTH_MAX = 64
"""The specification recommends 20 at most, and asks nobody to refuse more."""

_NAME = re.compile(rf"[a-z0-9]{{1,{NAME_LENGTH_MAX}}}")
_RESERVED = frozenset({"data"})

# Controls, surrogates and noncharacters, which a string of CloudEvents does not have.
_NO_CHARACTER = re.compile(
    "[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef"
    + "".join(chr((plane << 16) + end) for plane in range(17) for end in (0xFFFE, 0xFFFF))
    + "]"
)
_MEDIA_TYPE = re.compile(r"[!#-'*+.^-~\w-]+/[!#-'*+.^-~\w-]+[ \t]*(;[\x20-\x7e\t]*)?", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,30})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


class AttributeFault(NamedTuple):
    name: str | None  # of the attribute; None: it is about all of them
    text: str


def fault_in(attributes: Mapping[str, str], content_type: str | None) -> AttributeFault | None:
    """Return the first fault of the attributes, which exclude the content type, or None."""
    if len(attributes) > ATTRIBUTES_MAX:
        return AttributeFault(None, f"an event may have at most {ATTRIBUTES_MAX} attributes")
    for name in REQUIRED:
        if not attributes.get(name):
            return AttributeFault(name, "required, and must not be empty")
    if attributes["specversion"] != VERSION:
        return AttributeFault("specversion", f"should be {VERSION}")
    for name, value in attributes.items():
        text = _fault_of(name, value)
        if text is not None:
            return AttributeFault(name[:NAME_LENGTH_MAX], text)
    if "time" in attributes and not _is_time(attributes["time"]):
        return AttributeFault("time", "should be a time as of RFC 3339 with an offset")
    if content_type is not None and not _is_media_type(content_type):
        return AttributeFault(CONTENT_TYPE, "should be a media type, such as application/json")
    return None


def _fault_of(name: str, value: str) -> str | None:
    if _NAME.fullmatch(name) is None or name in _RESERVED:
        return (
            f"the name of an attribute must have at most {NAME_LENGTH_MAX} characters a-z and 0-9, "
            "and must not be `data`"
        )
    if len(value) > VALUE_LENGTH_MAX:
        return f"an attribute may have at most {VALUE_LENGTH_MAX} characters"
    if _NO_CHARACTER.search(value) is not None:
        return "an attribute must not have control characters, surrogates or noncharacters"
    if not value and name in ("dataschema", "subject"):
        return "must not be empty"
    return None


def _is_media_type(text: str) -> bool:
    return len(text) <= VALUE_LENGTH_MAX and _MEDIA_TYPE.fullmatch(text) is not None


def _is_time(text: str) -> bool:
    if _TIME.fullmatch(text) is None:
        return False
    try:
        datetime.fromisoformat(text.upper())
    except ValueError:
        return False
    return True


def time_of(entry_id: EntryId) -> str | None:
    """Return the time in an id as an attribute, or None if it is after the year 9999."""
    try:
        moment = datetime.fromtimestamp(entry_id.ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):  # somebody has chosen the id
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


JSON = "application/json"
BASE64 = "data_base64"

PLAIN_BYTES_MAX = 2**20
"""Longer data are sent as base64: to see what is in them would take too long."""

_TEXTS = frozenset(
    {
        "application/graphql",
        "application/javascript",
        "application/sql",
        "application/toml",
        "application/x-ndjson",
        "application/x-www-form-urlencoded",
        "application/xml",
        "application/yaml",
    }
)
"""Media types whose data are characters, beside `text/*` and those with a suffix."""

_raw = msgspec.json.Decoder(msgspec.Raw).decode
_text = msgspec.json.Decoder(str).decode

FAULTS = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
"""Errors of a text that is no JSON."""


def is_json(content_type: str | None) -> bool:
    """Tell whether data of a content type are JSON; None is JSON."""
    if content_type is None:
        return True
    media_type = _media_type(content_type)
    return media_type.endswith(("/json", "+json"))


def _is_text(content_type: str | None) -> bool:
    if content_type is None:
        return False
    media_type = _media_type(content_type)
    if "charset=" in content_type.lower() and "utf-8" not in content_type.lower():
        return False
    return media_type in _TEXTS or media_type.startswith("text/") or media_type.endswith("+xml")


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def member_of(data: bytes, content_type: str | None) -> tuple[str, object]:
    if len(data) <= PLAIN_BYTES_MAX:
        try:
            if is_json(content_type):
                data.decode()
                return "data", _raw(data)
            if _is_text(content_type):
                return "data", data.decode()
        except FAULTS:  # it is not what its type says
            pass
    return BASE64, pybase64.b64encode_as_string(data)


def data_of(member: bytes, content_type: str | None) -> bytes | None:
    """Return the bytes of the member `data`, a JSON text: the characters of a non-JSON text.

    A null of another type than JSON means no data.
    """
    if is_json(content_type):
        return member
    if member == b"null":
        return None
    return _text(member).encode() if member.startswith(b'"') else member


def data_of_base64(member: bytes, pointer: str) -> bytes:
    """Return the bytes of the member `data_base64`; raises GatewayError if it is no base64."""
    try:
        text = _text(member)
    except msgspec.ValidationError:
        text = "not UTF-8 text"  # and no base64
    return bytes_of(text, pointer)


STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"

TYPE_OF_ENTRIES = "headgate.entry"
"""Type of an entry that is no event. Its data are its fields: names and texts."""

TYPE_OF_RAW_ENTRIES = "headgate.entry.raw"
"""The same of fields that are not all text, or whose names repeat: its data are as the entry is
read over REST, so that nothing is lost."""

TYPE_OF_DELETED_ENTRIES = "headgate.entry.deleted"
"""Type of an entry that a consumer holds and that is no more in its stream. It has no data."""

_PREFIX = b"ce-"
_CONTENT_TYPE = b"content-type"
_DATA = b"data"

_UNQUOTED = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')

_encode = msgspec.json.Encoder().encode


class Event(NamedTuple):
    attributes: Mapping[str, str]  # without the content type
    content_type: str | None
    data: bytes | None

    def to_fields(self) -> Fields:
        parts: list[bytes] = []
        for name, value in self.attributes.items():
            parts += (_PREFIX + name.encode(), value.encode())
        if self.content_type is not None:
            parts += (_CONTENT_TYPE, self.content_type.encode())
        if self.data is not None:
            parts += (_DATA, self.data)
        return tuple(parts)

    def structured(self) -> dict[str, object]:
        """Return the event as a JSON object for msgspec (the JSON format, 3)."""
        event: dict[str, object] = dict(self.attributes)
        if DELIVERIES in event:
            event[DELIVERIES] = int(self.attributes[DELIVERIES])
        if self.content_type is not None:
            event["datacontenttype"] = self.content_type
        if self.data is not None:
            name, value = member_of(self.data, self.content_type)
            event[name] = value
        return event

    def headers(self) -> dict[str, str]:
        """Return the attributes as headers of the binary mode (the HTTP binding, 3.1.3).

        The content type is not among them: it is that of the message.
        """
        return {
            f"ce-{name}": quote(value, safe=_UNQUOTED) for name, value in self.attributes.items()
        }


def event_of(stream: str, entry: Entry) -> Event:
    """Return any entry as an event, with the id of the entry as an extension."""
    event = _event_in(entry.fields)
    if event is not None:
        return event._replace(attributes={**event.attributes, ENTRY_ID: str(entry.id)})
    wire = wire_fields(entry.fields)
    if wire.keys() == {"fields"}:
        return _made(stream, entry.id, TYPE_OF_ENTRIES, _encode(wire["fields"]))
    return _made(stream, entry.id, TYPE_OF_RAW_ENTRIES, _encode(wire))


def event_of_delivery(stream: str, delivery: Delivery) -> Event:
    """Return a delivery to a group as an event, even if its entry is gone."""
    if delivery.fields is None:
        event = _made(stream, delivery.id, TYPE_OF_DELETED_ENTRIES, None)
    else:
        event = event_of(stream, Entry(delivery.id, delivery.fields))
    count = str(min(delivery.delivery_count, INTEGER_MAX))
    return event._replace(attributes={**event.attributes, DELIVERIES: count})


def _made(stream: str, entry_id: EntryId, event_type: str, data: bytes | None) -> Event:
    attributes = {
        "specversion": VERSION,
        "id": str(entry_id),
        "source": f"/v1/streams/{quote(stream, safe='')}",
        "type": event_type,
        ENTRY_ID: str(entry_id),
    }
    time = time_of(entry_id)
    if time is not None:
        attributes["time"] = time
    return Event(attributes, None if data is None else JSON, data)


def _event_in(flat: Fields) -> Event | None:
    parts = dict(zip(flat[0::2], flat[1::2], strict=True))
    if b"ce-specversion" not in parts or 2 * len(parts) < len(flat):
        return None
    data, content_type = parts.pop(_DATA, None), parts.pop(_CONTENT_TYPE, None)
    if not all(name.startswith(_PREFIX) for name in parts):
        return None
    try:
        attributes = {
            name.removeprefix(_PREFIX).decode(): value.decode() for name, value in parts.items()
        }
        media_type = None if content_type is None else content_type.decode()
    except UnicodeDecodeError:
        return None
    if fault_in(attributes, media_type) is not None:
        return None
    return Event(attributes, media_type, data)
