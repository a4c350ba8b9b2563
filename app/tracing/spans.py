"""Spans: what a trace says of each request of the engine.

Names and attributes are those of OpenTelemetry's conventions for messaging. A request that is not
in the table has no span: descriptions and lists are what operators ask for, not parts of a flow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from opentelemetry.trace import SpanKind

from headgate.app.wire.names import text_of
from headgate.engine.entry import Entry, Fields
from headgate.engine.replies import Added, Claimed, Delivery, GroupRead, StreamRead
from headgate.engine.requests import Request
from headgate.engine.requests.bulk import CommitBatch
from headgate.engine.requests.deliveries import (
    Ack,
    AckThrough,
    Autoclaim,
    Claim,
    Extend,
    Nack,
    ReadGroup,
)
from headgate.engine.requests.entries import Add, Range, RangePacked, Read
from headgate.engine.requests.ranges import OpenRanges, ReadOn

Attributes = dict[str, str | int]


class MessagingOperation(NamedTuple):
    """The names in the span of a request."""

    name: str
    type: str  # send, receive or settle
    kind: SpanKind
    streams: Callable[[Any], Iterable[bytes]]
    entry_count: Callable[[Any], int | None]  # that the request names


def _of_stream(request: Any) -> Iterable[bytes]:
    return (request.stream,)


def _of_cursors(request: Any) -> Iterable[bytes]:
    return (cursor.stream for cursor in request.cursors)


def _of_spans(request: Any) -> Iterable[bytes]:
    return (span.stream for span in request.spans)


def _unknown(request: Any) -> int | None:
    del request
    return None


def _ids(request: Any) -> int | None:
    return len(request.ids)


OPERATIONS: Mapping[type[Request[Any]], MessagingOperation] = {
    Add: MessagingOperation(
        "append", "send", SpanKind.PRODUCER, _of_stream, lambda add: len(add.drafts)
    ),
    CommitBatch: MessagingOperation(
        "commit",
        "send",
        SpanKind.PRODUCER,
        lambda commit: commit.drafts,
        lambda commit: sum(map(len, commit.drafts.values())),
    ),
    Range: MessagingOperation("read", "receive", SpanKind.CONSUMER, _of_stream, _unknown),
    RangePacked: MessagingOperation("read", "receive", SpanKind.CONSUMER, _of_stream, _unknown),
    OpenRanges: MessagingOperation("read", "receive", SpanKind.CONSUMER, _of_spans, _unknown),
    ReadOn: MessagingOperation("read", "receive", SpanKind.CONSUMER, _of_stream, _unknown),
    Read: MessagingOperation("read", "receive", SpanKind.CONSUMER, _of_cursors, _unknown),
    ReadGroup: MessagingOperation("read", "receive", SpanKind.CONSUMER, _of_cursors, _unknown),
    Claim: MessagingOperation("claim", "receive", SpanKind.CONSUMER, _of_stream, _unknown),
    Autoclaim: MessagingOperation("autoclaim", "receive", SpanKind.CONSUMER, _of_stream, _unknown),
    Ack: MessagingOperation("ack", "settle", SpanKind.CLIENT, _of_stream, _ids),
    AckThrough: MessagingOperation("ack", "settle", SpanKind.CLIENT, _of_stream, _unknown),
    Nack: MessagingOperation("nack", "settle", SpanKind.CLIENT, _of_stream, _ids),
    Extend: MessagingOperation("extend", "settle", SpanKind.CLIENT, _of_stream, _ids),
}
"""Requests with a span."""

_SYSTEM = "headgate"
_NAMED_MAX = 8
"""A span names so many streams."""


def name_of(operation: MessagingOperation, streams: list[str]) -> str:
    """Return the name of a span: the operation, and the stream, if it is a single one."""
    return f"{operation.name} {streams[0]}" if len(streams) == 1 else operation.name


def streams_of(operation: MessagingOperation, request: Request[Any]) -> list[str]:
    """Return the first streams that a request is about."""
    names = (name for name, _ in zip(operation.streams(request), range(_NAMED_MAX), strict=False))
    return [text_of(name) for name in names]


def attributes_of(
    operation: MessagingOperation, request: Request[Any], streams: list[str]
) -> Attributes:
    """Return the attributes of a request before it is carried out."""
    attributes: Attributes = {
        "messaging.system": _SYSTEM,
        "messaging.operation.name": operation.name,
        "messaging.operation.type": operation.type,
        "messaging.destination.name": ",".join(streams),
    }
    group, consumer = getattr(request, "group", None), getattr(request, "consumer", None)
    if group is not None:
        attributes["messaging.consumer.group.name"] = text_of(group)
    if consumer is not None:
        attributes["messaging.client.id"] = text_of(consumer)
    count = operation.entry_count(request)
    if count is not None:
        attributes["messaging.batch.message_count"] = count
    return attributes


def attributes_of_entries(count: int, entries: list[Entry | Delivery]) -> Attributes:
    """Return the attributes of entries that were read."""
    attributes: Attributes = {"messaging.batch.message_count": count}
    if count == len(entries) == 1:
        attributes["messaging.message.id"] = str(entries[0].id)
    return attributes


def attributes_of_reply(reply: object) -> Attributes:
    """Return the attributes of a finished append."""
    match reply:
        case Added(ids=[single]):
            return {"messaging.message.id": str(single)}
    return {}


def entries_of(reply: object) -> Iterator[Entry | Delivery]:
    """Yield the entries of a reply, but for those that are packed: nobody looks into them here."""
    match reply:
        case Claimed(deliveries=deliveries):
            yield from deliveries
        case list():
            for part in reply:
                match part:
                    case StreamRead(entries=entries):
                        yield from entries
                    case GroupRead(deliveries=deliveries):
                        yield from deliveries
                    case Entry() | Delivery():
                        yield part


def value_of(fields: Fields | None, name: bytes) -> bytes | None:
    """Return the value of a field, or None."""
    if fields is None or name not in fields[::2]:
        return None
    return fields[2 * fields[::2].index(name) + 1]
