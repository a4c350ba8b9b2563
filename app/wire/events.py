"""Events: Server-Sent Events as bytes."""

from collections.abc import Iterable

from fastapi.sse import format_sse_event
from pydantic import BaseModel

from headgate.app.wire.encoding import LastBatches, delivery_text, entry_text
from headgate.engine.entry import EntryId
from headgate.engine.replies import Delivery, StreamRead


def event(
    name: str,
    data: BaseModel,
    *,
    retry_ms: int | None = None,
    id: str | None = None,  # noqa: A002
) -> bytes:
    """Return an event that is no entry.

    Args:
        name: of the event.
        data: of the event.
        retry_ms: tells a browser when to connect again.
        id: tells a browser where to go on then; None: as before.
    """
    text = data.model_dump_json(exclude_unset=True, by_alias=True)
    return format_sse_event(data_str=text, event=name, retry=retry_ms, id=id)


def entry_events(read: StreamRead) -> bytes:
    """Return the `entry` events of a stream's entries."""
    return _last_events.encoded(read)


def delivery_events(deliveries: Iterable[Delivery]) -> bytes:
    """Return the `entry` events of a group's deliveries; their entries are there."""
    return b"".join(_entry_event(delivery.id, delivery_text(delivery)) for delivery in deliveries)


def _entry_event(entry_id: EntryId, text: str) -> bytes:
    return format_sse_event(data_str=text, event="entry", id=str(entry_id))


_last_events = LastBatches[bytes](
    lambda entries: b"".join(_entry_event(entry.id, entry_text(entry)) for entry in entries)
)
