"""Event: an event of CloudEvents 1.0, in and out of an entry."""

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from headgate.app.cloud_events.attributes import (
    DELIVERIES,
    ENTRY_ID,
    INTEGER_MAX,
    VERSION,
    fault_in,
    time_of,
)
from headgate.app.cloud_events.data import JSON, member_of
from headgate.app.wire.fields import wire_fields
from headgate.engine.entry import Entry, EntryId, Fields
from headgate.engine.replies import Delivery

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
    """An event."""

    attributes: Mapping[str, str]  # without the content type
    content_type: str | None
    data: bytes | None

    def to_fields(self) -> Fields:
        """Return the fields of its entry."""
        parts: list[bytes] = []
        for name, value in self.attributes.items():
            parts += (_PREFIX + name.encode(), value.encode())
        if self.content_type is not None:
            parts += (_CONTENT_TYPE, self.content_type.encode())
        if self.data is not None:
            parts += (_DATA, self.data)
        return tuple(parts)

    def structured(self) -> dict[str, object]:
        """Return the event as an object of JSON, for msgspec (the JSON format, 3)."""
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
    """Return an entry as an event, with the id of the entry as an extension.

    Args:
        stream: the name of its stream.
        entry: whatever its fields are.
    """
    event = _event_in(entry.fields)
    if event is not None:
        return event._replace(attributes={**event.attributes, ENTRY_ID: str(entry.id)})
    wire = wire_fields(entry.fields)
    if wire.keys() == {"fields"}:
        return _made(stream, entry.id, TYPE_OF_ENTRIES, _encode(wire["fields"]))
    return _made(stream, entry.id, TYPE_OF_RAW_ENTRIES, _encode(wire))


def event_of_delivery(stream: str, delivery: Delivery) -> Event:
    """Return a delivery to a group as an event, also one whose entry is gone.

    Args:
        stream: the name of its stream.
        delivery: to a consumer.
    """
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
    """Return the event that is in the fields of an entry; None if they are not one event's."""
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
