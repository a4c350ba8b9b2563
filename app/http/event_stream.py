"""Event stream: an answer of Server-Sent Events, and how the document describes it."""

from collections.abc import AsyncGenerator

from pydantic import BaseModel

from headgate.app.http.streaming import PatientResponse
from headgate.app.wire.schemas.limits import ConnectionLimits

HEARTBEAT = b": heartbeat\n\n"
"""A comment: nothing is new."""

_HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}

EVENT_STREAM: dict[int | str, dict[str, object]] = {
    200: {
        "description": "Events, without end.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


class Draining(BaseModel):
    """The connection is about to end; come back after so long."""

    reconnect_after_ms: int


class EventStream(PatientResponse):
    """A response of events."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes, None], limits: ConnectionLimits) -> None:
        """Send `events` until they or the client end."""
        super().__init__(
            events,
            media_type=self.media_type,
            patience_ms=limits.send_ms_max,
            headers=_HEADERS,
        )
