"""Bodies: what a request of a push has of its entries, which are all of one stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from headgate.app.automation.pushes import digest_of
from headgate.app.automation.webhooks import LARGE_UNIT_BYTES
from headgate.app.cloud_events.event import BATCH, STRUCTURED, event_of_delivery
from headgate.app.wire.encoding import delivery_wire
from headgate.app.wire.fields import json_bytes
from headgate.app.wire.names import text_of
from headgate.app.wire.pushes import PushBody
from headgate.engine.entry import EntryId
from headgate.engine.replies import Delivery

BODY_BYTES_MAX = 1_048_576
"""The body of one request, about; a larger entry comes alone."""

_BATCHED_MAX = 2
"""Deliveries of an entry together with others."""

_JSON = "application/json"
_encode = msgspec.json.Encoder().encode


class PushRequest(NamedTuple):
    stream: bytes
    deliveries: Sequence[Delivery]
    size_bytes: int  # of names and values, as they are sent

    @property
    def is_large(self) -> bool:
        """Return whether the body is large: built in a thread, and few at a time."""
        return self.size_bytes > LARGE_UNIT_BYTES

    @property
    def units(self) -> int:
        return -(-self.size_bytes // LARGE_UNIT_BYTES)

    @property
    def key(self) -> str:
        """Return a unique name for this set of entries."""
        first = str(self.deliveries[0].id)
        if len(self.deliveries) == 1:
            return first
        return f"{first}_{digest_of(*(str(entry_id).encode() for entry_id in self.ids))[:20]}"

    @property
    def ids(self) -> list[EntryId]:
        return [delivery.id for delivery in self.deliveries]


class Content(NamedTuple):
    body: bytes
    headers: dict[str, str]


def requests_of(
    stream: bytes, deliveries: Sequence[Delivery], entries_max: int
) -> Iterator[PushRequest]:
    """Yield the requests for some entries, in order; removed entries are left out.

    An entry that has failed twice comes alone, so that it no longer makes others fail.
    """
    batch, size_bytes = list[Delivery](), 0
    for delivery in deliveries:
        if delivery.fields is None:
            continue
        own_bytes = sum(map(json_bytes, delivery.fields))
        if delivery.delivered_before >= _BATCHED_MAX:
            yield PushRequest(stream, [delivery], own_bytes)
            continue
        if batch and (len(batch) >= entries_max or size_bytes + own_bytes > BODY_BYTES_MAX):
            yield PushRequest(stream, batch, size_bytes)
            batch, size_bytes = [], 0
        batch.append(delivery)
        size_bytes += own_bytes
    if batch:
        yield PushRequest(stream, batch, size_bytes)


class Bodies:
    def __init__(self, kind: PushBody, group: bytes) -> None:
        self._group = text_of(group)
        self.content_of = {
            PushBody.ENTRY: self._entry,
            PushBody.BATCH: self._batch,
            PushBody.CLOUDEVENTS: self._event,
            PushBody.CLOUDEVENTS_BINARY: self._binary_event,
            PushBody.CLOUDEVENTS_BATCH: self._events,
        }[kind]

    def _entry(self, request: PushRequest) -> Content:
        [delivery] = request.deliveries
        wire = {"stream": text_of(request.stream), "group": self._group, **delivery_wire(delivery)}
        return Content(_encode(wire), {"Content-Type": _JSON})

    def _batch(self, request: PushRequest) -> Content:
        entries = [delivery_wire(delivery) for delivery in request.deliveries]
        wire = {"stream": text_of(request.stream), "group": self._group, "entries": entries}
        return Content(_encode(wire), {"Content-Type": _JSON})

    def _event(self, request: PushRequest) -> Content:
        [delivery] = request.deliveries
        event = event_of_delivery(text_of(request.stream), delivery)
        return Content(_encode(event.structured()), {"Content-Type": STRUCTURED})

    def _binary_event(self, request: PushRequest) -> Content:
        [delivery] = request.deliveries
        event = event_of_delivery(text_of(request.stream), delivery)
        headers = {**event.headers(), "Content-Type": event.content_type or _JSON}
        return Content(event.data or b"", headers)

    def _events(self, request: PushRequest) -> Content:
        read = partial(event_of_delivery, text_of(request.stream))
        events = [read(delivery).structured() for delivery in request.deliveries]
        return Content(_encode(events), {"Content-Type": BATCH})
