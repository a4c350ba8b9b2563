"""Spans: the names and attributes of requests, by OpenTelemetry's conventions for messaging."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from opentelemetry.trace import SpanKind

from headgate.app.auth.aspects.aspects import MessagingOperation
from headgate.app.auth.aspects.table import aspects_of
from headgate.app.wire.names import text_of
from headgate.engine.entry import Entry, Fields
from headgate.engine.replies import Added, Claimed, Delivery, GroupRead, StreamRead
from headgate.engine.requests import Request

Attributes = dict[str, str | int]


KINDS = {"send": SpanKind.PRODUCER, "receive": SpanKind.CONSUMER, "settle": SpanKind.CLIENT}
"""Kinds of spans, by the type of their operation."""

_SYSTEM = "headgate"
_NAMED_MAX = 8
"""A span names so many streams."""


def name_of(operation: MessagingOperation, streams: list[str]) -> str:
    """Return the name of a span: the operation, and the stream, if it is a single one."""
    return f"{operation.name} {streams[0]}" if len(streams) == 1 else operation.name


def streams_of(request: Request[Any]) -> list[str]:
    """Return the first streams that a request is about: those that it needs rights on."""
    needs = aspects_of(request).needs(request)
    names = dict.fromkeys(need.stream for need in needs if need.stream is not None)
    return [text_of(name) for name in islice(names, _NAMED_MAX)]


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
    appended, ids = aspects_of(request).appended, getattr(request, "ids", None)
    if appended is not None:
        attributes["messaging.batch.message_count"] = appended(request)
    elif operation.type == "settle" and ids is not None:
        attributes["messaging.batch.message_count"] = len(ids)
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
