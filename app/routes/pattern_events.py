"""Events of all streams whose names match a pattern."""

from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from pydantic import BaseModel

from headgate.app.auth.access import Access
from headgate.app.auth.grants import Verb
from headgate.app.auth.needs import needs
from headgate.app.backends.port import Ability
from headgate.app.http.dependencies import AccessDep, gateway_of
from headgate.app.http.operation import Operation
from headgate.app.http.streaming import EVENT_STREAM, HEARTBEAT, EventStream
from headgate.app.live import followed
from headgate.app.live.event_connection import EventConnection
from headgate.app.live.subscription import PatternSubscription
from headgate.app.wire.encoding import stream_gap_wire
from headgate.app.wire.events import event, last_event, stream_entry_events
from headgate.app.wire.filters import checked_text
from headgate.app.wire.ids import parse_pattern_after
from headgate.app.wire.names import PatternText, check_pattern
from headgate.app.wire.problems import responses
from headgate.app.wire.schemas.entries import CursorText, StreamGap
from headgate.engine.patterns import PatternCursor
from headgate.engine.replies import PatternRead

router = APIRouter(prefix="/v1", tags=["Events"], route_class=Operation)


class PatternReady(BaseModel):
    """The first event: where reading begins."""

    position: CursorText
    resumed: bool


class PatternPosition(BaseModel):
    """Everything up to here has been sent. Its id line is the cursor."""

    at: CursorText


class StreamGaps(BaseModel):
    """Entries of a stream that trimming took before they were sent."""

    gap: StreamGap


def pattern_cursor(
    after: Annotated[
        str,
        Query(
            description="Start after this cursor, or after this id in each stream; `$` for new "
            "entries only."
        ),
    ] = "$",
    # Not in the document: generated clients have the header, and would have one name for three.
    last_event_id: Annotated[str | None, Query(include_in_schema=False)] = None,
    lastEventId: Annotated[str | None, Query(include_in_schema=False)] = None,  # noqa: N803
    header: Annotated[
        str | None,
        Header(
            alias="Last-Event-ID",
            description="Cursor after which to resume. Browsers send it when they reconnect.",
        ),
    ] = None,
) -> tuple[PatternCursor | None, bool]:
    last = last_event(header, last_event_id, lastEventId)
    if last is not None:
        return parse_pattern_after(last[0], field=last[1]), True
    return parse_pattern_after(after, field="/query/after"), False


@router.get(
    "/events",
    operation_id="followPattern",
    response_class=EventStream,
    status_code=200,
    responses=EVENT_STREAM
    | responses(
        "invalid_id", "invalid_request", "not_supported", "too_many_connections", "cut_off"
    ),
)
@needs(Verb.READ, by_url=True)
async def pattern_events(
    request: Request,
    access: AccessDep,
    match: Annotated[PatternText, Query(description="A Redis glob pattern, such as `orders.*`.")],
    cursor: Annotated[tuple[PatternCursor | None, bool], Depends(pattern_cursor)],
    filter: Annotated[  # noqa: A002
        str | None, Query(description="A filter as JSON. Only matching entries are sent.")
    ] = None,
) -> Response:
    """Send all streams whose names match as events, including streams that are created later.

    Only streams that you may read are included. Entries are in order within each stream.

    Events:

    - `ready {position, resumed}`
    - `entry`: it names its `stream` and has no event id.
    - `position {at}`: comes after entries that were sent together. Its event id is a cursor of all
      streams.
    - `gap {gap}`
    - `caught_up {at}`
    - `draining {reconnect_after_ms}`
    - `problem {…}`

    After a reconnect, entries that came after the `position` in `Last-Event-ID` are sent again.
    """
    gateway = gateway_of(request)
    gateway.require(Ability.PATTERNS)
    pattern = check_pattern(match, pointer="/query/match")
    after, is_resumed = cursor
    access = gateway.connected(access)
    subscription = PatternSubscription(
        access, pattern, after, beat_ms=gateway.limits.heartbeat_ms, filters=checked_text(filter)
    )
    ready = await subscription.open()
    encoder = _Encoder(request, access, subscription)
    first = PatternReady(position=str(ready.position), resumed=is_resumed)
    retry_ms = gateway.reconnect_after_ms()
    # From now on there is a place to come back to, if nothing else comes.
    first_event = event("ready", first, retry_ms=retry_ms, last_id=ready.position)
    return EventStream(encoder.events(first_event), gateway.limits)


class _Encoder:
    def __init__(self, request: Request, access: Access, subscription: PatternSubscription) -> None:
        gateway = gateway_of(request)
        self._usage = access.usage
        self._subscription = subscription
        self._delivered_counts = gateway.metrics.delivered_counts
        self._connection = EventConnection(gateway, request, access, subscription)

    def events(self, first: bytes) -> AsyncGenerator[bytes, None]:
        return self._connection.events(first, self._usage, self._encoded)

    async def _encoded(self, item: followed.Followed) -> bytes:
        match item:
            case followed.PatternBatch(read):
                return self._entries(read)
            case followed.State("caught_up"):
                at = await self._subscription.position()
                return event("caught_up", PatternPosition(at=str(at)), last_id=at)
            case followed.Ended(error):
                return self._connection.last_event(error)
        return b""

    def _entries(self, read: PatternRead) -> bytes:
        parts: list[bytes] = []
        for each in read.reads:
            gap = stream_gap_wire(each)
            if gap is not None:
                parts.append(event("gap", StreamGaps(gap=gap)))
            parts.append(stream_entry_events(each))
        self._connection.sent_entries += read.entry_count
        self._delivered_counts["sse"] += read.entry_count
        at = read.next_after
        parts.append(event("position", PatternPosition(at=str(at)), last_id=at))
        return b"".join(parts) or HEARTBEAT
