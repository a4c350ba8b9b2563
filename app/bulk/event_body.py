"""A request with one CloudEvents event or a batch of them, as entries."""

from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

from headgate.app.bulk.batch import NotJsonError, check_count, portions_of
from headgate.app.cloud_events.event import BATCH, STRUCTURED, Event
from headgate.app.cloud_events.formats import EVENT_BYTES_MAX, items_of, parse_event, parse_message
from headgate.app.wire.problems import GatewayError
from headgate.engine.entry import Draft, Timing
from headgate.engine.threads import this_turn

_IDENTITY_BYTES_MAX = 256
_DIGEST_BYTES = 16


class Identity(NamedTuple):
    """The source and id that identify an event, or all events of a batch."""

    source: bytes
    id: bytes


class EventBody(NamedTuple):
    drafts: list[Draft]
    identity: Identity
    pointer_to_id: str
    is_batch: bool = False


async def event_body(
    headers: Iterable[tuple[bytes, bytes]],
    media_type: str,
    content: bytes,
    *,
    timing: Timing | None,
    events_max: int,
) -> EventBody:
    """Read the events of a request; raises GatewayError or RequestValidationError."""
    if media_type == BATCH:
        return await _batch(content, timing, events_max)
    if media_type == STRUCTURED:
        event, pointer = parse_event(content), "/body/id"
    else:
        event, pointer = parse_message(headers, content), "/header/ce-id"
    identity = Identity(*map(_short, _identity_of(event)))
    return EventBody([Draft(None, event.to_fields(), timing)], identity, pointer)


async def _batch(content: bytes, timing: Timing | None, events_max: int) -> EventBody:
    turn, drafts = this_turn(), list[Draft]()
    digest, first_source = blake2b(digest_size=_DIGEST_BYTES), b""
    for items in portions_of(content, _items, EVENT_BYTES_MAX):
        await turn.pause()  # also if it has none: then the end of the next one is looked for
        for item in items:
            await turn.pause()
            if len(drafts) == events_max:
                raise GatewayError("invalid_request", f"at most {events_max}", pointer="/body")
            event = parse_event(item, f"/body/{len(drafts)}")
            drafts.append(Draft(None, event.to_fields(), timing))
            source, event_id = _identity_of(event)
            digest.update(b"%d %b %d %b" % (len(source), source, len(event_id), event_id))
            first_source = first_source or source
    check_count(len(drafts), events_max)
    identity = Identity(_short(first_source), digest.digest())
    return EventBody(drafts, identity, "/body", is_batch=True)


def _items(piece: bytes, first: int) -> list[bytes]:
    del first  # an item that is no event is noticed later
    try:
        return items_of(piece)
    except ValueError as error:
        raise NotJsonError(str(error)) from None


def _identity_of(event: Event) -> tuple[bytes, bytes]:
    return event.attributes["source"].encode(), event.attributes["id"].encode()


def _short(part: bytes) -> bytes:
    """Return a part of an identity within the length of an idempotency key."""
    if len(part) <= _IDENTITY_BYTES_MAX:
        return part
    return blake2b(part, digest_size=_DIGEST_BYTES).digest()
