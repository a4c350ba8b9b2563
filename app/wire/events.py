"""Events: Server-Sent Events as bytes."""

from collections.abc import Iterable

import msgspec
from fastapi.sse import format_sse_event
from pydantic import BaseModel

from headgate.app.wire.encoding import (
    LastBatches,
    changes_of,
    delivery_text,
    entry_texts,
    row_wire,
    stream_delivery_wire,
    stream_entry_texts,
    unbroken,
)
from headgate.engine.entry import EntryId
from headgate.engine.patterns import PatternCursor
from headgate.engine.replies import Delivery, GroupsRead, Row, StreamRead

_encode = msgspec.json.Encoder().encode


def event(
    name: str,
    data: BaseModel,
    *,
    retry_ms: int | None = None,
    last_id: EntryId | PatternCursor | None = None,
) -> bytes:
    """Return an event that is not an entry; `last_id` sets the browser's `Last-Event-ID`."""
    text = data.model_dump_json(exclude_unset=True, by_alias=True)
    event_id = None if last_id is None else str(last_id)
    return unbroken(format_sse_event(data_str=text, event=name, id=event_id, retry=retry_ms))


def last_event(
    header: str | None, query: str | None, query_of_browsers: str | None
) -> tuple[str, str] | None:
    """Return the `Last-Event-ID` that a request has, and where it stands in the request."""
    places = {
        "/header/Last-Event-ID": header,
        "/query/last_event_id": query,
        "/query/lastEventId": query_of_browsers,
    }
    return next(((text, place) for place, text in places.items() if text), None)


def heartbeat(last_id: EntryId | PatternCursor) -> bytes:
    """Return a comment with an id: there is nothing new after it."""
    return b": heartbeat\nid: %b\n\n" % str(last_id).encode()


def entry_events(read: StreamRead) -> bytes:
    return _last_events.encoded(read)


def stream_entry_events(read: StreamRead) -> bytes:
    """Return the `entry` events of one of several streams; a later event has the common id."""
    return _last_stream_events.encoded(read)


def row_events(rows: Iterable[Row]) -> bytes:
    """Return the `row` events of a walk; nobody can resume among them."""
    texts = (_encode(row_wire(row)).decode() for row in rows)
    return unbroken(b"".join(format_sse_event(data_str=text, event="row") for text in texts))


def change_events(read: StreamRead, *, fields: tuple[bytes, bytes]) -> bytes:
    """Return the `row` events of entries that change a table with these fields."""
    return _last_changes.encoded(read, fields, read.next_after)


def _change_events(read: StreamRead, fields: tuple[bytes, bytes], next_after: EntryId) -> bytes:
    events, last_id = [], None
    for entry, wire in changes_of(read, fields):
        last_id = str(entry.id)
        events.append(format_sse_event(data_str=_encode(wire).decode(), event="row", id=last_id))
    place = b"" if last_id == str(next_after) else heartbeat(next_after)
    return unbroken(b"".join(events)) + place


def delivery_events(deliveries: Iterable[Delivery]) -> bytes:
    """Return the `entry` events of deliveries; their entries must exist."""
    events = (_entry_event(delivery.id, delivery_text(delivery)) for delivery in deliveries)
    return unbroken(b"".join(events))


def groups_events(read: GroupsRead) -> bytes:
    """Return the `entry` events of deliveries, each with its stream and without an id line."""
    texts = (_encode(stream_delivery_wire(each)).decode() for each in read.deliveries())
    return unbroken(b"".join(format_sse_event(data_str=text, event="entry") for text in texts))


def _entry_event(entry_id: EntryId, text: str) -> bytes:
    return format_sse_event(data_str=text, event="entry", id=str(entry_id))


def _events(read: StreamRead) -> bytes:
    texts = zip(read.entries, entry_texts(read), strict=True)
    return unbroken(b"".join(_entry_event(entry.id, text) for entry, text in texts))


_last_events = LastBatches(_events, len)

_last_changes = LastBatches(_change_events, len)

_last_stream_events = LastBatches[bytes](
    lambda read: unbroken(
        b"".join(
            format_sse_event(data_str=text, event="entry") for text in stream_entry_texts(read)
        )
    ),
    len,
)
