"""Encodes entries and deliveries by the thousand.

All JSON of entries and deliveries is made here. Clients that follow a stream side by side are sent
the same entries, so the last encoded batch of a stream is remembered.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar, overload

import msgspec

from headgate.app.wire.fields import wire_fields
from headgate.app.wire.names import text_of
from headgate.app.wire.schemas.deliveries import Delivery as WireDelivery
from headgate.app.wire.schemas.entries import Entry as WireEntry
from headgate.app.wire.schemas.entries import Gap as WireGap
from headgate.app.wire.schemas.entries import StreamEntry, StreamGap
from headgate.app.wire.schemas.pattern_groups import StreamDelivery
from headgate.app.wire.schemas.tables import Row as WireRow
from headgate.app.wire.schemas.tables import RowRemoval, key_text
from headgate.engine.config import FieldName, StreamConfig
from headgate.engine.entry import Entry, EntryId, EntryTimes
from headgate.engine.limits import COUNT_MAX
from headgate.engine.recent import Recent
from headgate.engine.replies import Delivery, Gap, Row, StreamRead

_encode = msgspec.json.Encoder().encode

T = TypeVar("T")


class LastBatches(Generic[T]):
    def __init__(self, encode: Callable[..., T], size_bytes: Callable[[T], int]) -> None:
        """Encode by `encode`, which takes a read, and what else it depends on."""
        self._encode = encode
        self._size_bytes = size_bytes
        self._by_ends: Recent[Hashable, tuple[list[Entry], T]] = Recent()

    def encoded(self, read: StreamRead, *by: Hashable) -> T:
        ends = (read.entries[0].id, read.entries[-1].id) if read.entries else None
        # With filters, readers of a stream are sent different entries.
        key = read.stream, ends, by
        last = self._by_ends.get(key)
        # Quick: an engine returns the same objects.
        if last is not None and last[0] == read.entries:
            return last[1]
        encoded = self._encode(read, *by)
        self._by_ends.put(key, (read.entries, encoded), self._size_bytes(encoded))
        return encoded


def unbroken(json: bytes) -> bytes:
    """Escape the line ends of Unicode in JSON for lines and events.

    Line readers in Python, such as httpx, end a line there. In JSON these characters only occur in
    strings.
    """
    if json.isascii():  # nearly always
        return json
    for raw, escape in _LINE_ENDS:
        json = json.replace(raw, escape)
    return json


_LINE_ENDS = [(chr(end).encode(), b"\\u%04x" % end) for end in (0x85, 0x2028, 0x2029)]


def entry_wire(entry: Entry) -> WireEntry:
    (ms, seq), flat = entry
    return {"id": f"{ms}-{seq}", **wire_fields(flat)}


def row_wire(row: Row) -> WireRow:
    return {"key": key_text(row.key), **entry_wire(Entry(row.id, row.fields))}


def removal_wire(key: bytes, entry_id: EntryId) -> RowRemoval:
    return {"key": key_text(key), "id": str(entry_id), "fields": None}


def changes_of(
    read: StreamRead, fields: tuple[bytes, bytes]
) -> list[tuple[Entry, WireRow | RowRemoval]]:
    """Return what entries do to the rows of a table with these fields, of key and tombstone."""
    config = StreamConfig(key_field=FieldName(fields[0]), tombstone_field=FieldName(fields[1]))
    changes: list[tuple[Entry, WireRow | RowRemoval]] = []
    for entry in read.entries:
        change = config.row_of(entry.fields)
        if change is not None:
            key, is_removed = change
            wire = removal_wire(key, entry.id) if is_removed else row_wire(Row(key, *entry))
            changes.append((entry, wire))
    return changes


def entries_wire(read: StreamRead) -> list[WireEntry]:
    wire = [entry_wire(entry) for entry in read.entries]
    if read.times:
        for entry, each in zip(read.entries, wire, strict=True):
            add_times(each, read.times.get(entry.id))
    return wire


def add_times(wire: WireEntry, times: EntryTimes | None) -> None:
    if times is not None and times.deliver_at_ms is not None:
        wire["deliver_at_ms"] = times.deliver_at_ms
    if times is not None and times.expires_at_ms is not None:
        wire["expires_at_ms"] = times.expires_at_ms


def stream_entries_wire(read: StreamRead) -> list[StreamEntry]:
    stream = text_of(read.stream)
    return [{"stream": stream, **wire} for wire in entries_wire(read)]


def stream_gap_wire(read: StreamRead) -> StreamGap | None:
    if read.gap is None:
        return None
    return {"stream": text_of(read.stream), **gap_wire(read.gap)}


def is_position_news(read: StreamRead) -> bool:
    """Return whether a read continues elsewhere than after its last entry."""
    if read.entries:
        return read.next_after != read.entries[-1].id
    return read.next_after != (read.after if read.gap is None else read.gap.through)


@overload
def gap_wire(gap: Gap) -> WireGap: ...
@overload
def gap_wire(gap: Gap | None) -> WireGap | None: ...
def gap_wire(gap: Gap | None) -> WireGap | None:
    if gap is None:
        return None
    return {"from": str(gap.after), "to": str(gap.through)}


def entry_texts(read: StreamRead) -> Iterator[str]:
    return (_encode(wire).decode() for wire in entries_wire(read))


def stream_entry_texts(read: StreamRead) -> Iterator[str]:
    return (_encode(wire).decode() for wire in stream_entries_wire(read))


def delivery_text(delivery: Delivery) -> str:
    """Return a delivery as a JSON object; its entry must exist."""
    return _encode(delivery_wire(delivery)).decode()


def stream_delivery_wire(pair: tuple[bytes, Delivery]) -> StreamDelivery:
    """Return the wire form of a delivery with its stream; its entry must exist."""
    stream, delivery = pair
    return {"stream": text_of(stream), **delivery_wire(delivery)}


def delivery_wire(delivery: Delivery) -> WireDelivery:
    """Return the wire form of a delivery; its entry must exist."""
    (ms, seq), flat, idle_ms, delivered_before, claimed_from, count_set, last_error, times = (
        delivery
    )
    is_first = not delivered_before and count_set is None
    wire: WireDelivery = {
        "id": f"{ms}-{seq}",
        **wire_fields(flat or ()),
        "deliveries": 1 if is_first else min(delivery.delivery_count, COUNT_MAX),
        "idle_ms": idle_ms,
    }
    if claimed_from is not None:
        wire["claimed_from"] = text_of(claimed_from)
    if last_error is not None:
        wire["last_error"] = text_of(last_error)
    if times is not None:
        add_times(wire, times)
    return wire
