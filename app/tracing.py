"""Spans of requests, by OpenTelemetry's conventions for messaging."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator, Mapping
from importlib.metadata import version
from itertools import islice
from typing import Any, Final, Self, TypeVar, cast

from msgspec.structs import replace
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Span, SpanContext, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from headgate.app.auth.access import Access
from headgate.app.auth.aspects import MessagingOperation, aspects_of
from headgate.app.auth.metering import delivered_in
from headgate.app.wire.names import text_of
from headgate.engine.entry import Draft, Entry, Fields
from headgate.engine.replies import Added, Claimed, Delivery, GroupRead, StreamRead
from headgate.engine.requests import Request
from headgate.engine.requests.entries import Add
from headgate.engine.threads import this_turn

Attributes = dict[str, str | int]


KINDS = {"send": SpanKind.PRODUCER, "receive": SpanKind.CONSUMER, "settle": SpanKind.CLIENT}
"""Kinds of spans, by the type of their operation."""

_SYSTEM = "headgate"
_NAMED_MAX = 8
"""A span names so many streams."""


def name_of(operation: MessagingOperation, streams: list[str]) -> str:
    return f"{operation.name} {streams[0]}" if len(streams) == 1 else operation.name


def streams_of(request: Request[Any]) -> list[str]:
    """Return the first streams that a request needs rights on."""
    needs = aspects_of(request).needs(request)
    names = dict.fromkeys(need.stream for need in needs if need.stream is not None)
    return [text_of(name) for name in islice(names, _NAMED_MAX)]


def attributes_of(
    operation: MessagingOperation, request: Request[Any], streams: list[str]
) -> Attributes:
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
    attributes: Attributes = {"messaging.batch.message_count": count}
    if count == len(entries) == 1:
        attributes["messaging.message.id"] = str(entries[0].id)
    return attributes


def attributes_of_reply(reply: object) -> Attributes:
    match reply:
        case Added(ids=[single]):
            return {"messaging.message.id": str(single)}
    return {}


def entries_of(reply: object) -> Iterator[Entry | Delivery]:
    """Yield the entries of a reply, except packed ones, which are not decoded here."""
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
    if fields is None or name not in fields[::2]:
        return None
    return fields[2 * fields[::2].index(name) + 1]


T = TypeVar("T")

_LINKS_MAX = 128
"""OpenTelemetry keeps no more of a span either."""

_propagator = TraceContextTextMapPropagator()


class TracedAccess(Access):
    __slots__ = ("_field", "_parent", "_tracer")

    def __init__(self, access: Access, tracer: Tracer, parent: Context, field: bytes) -> None:
        """The context of an append is stored with its entry in `field`; empty means not at all."""
        super().__init__(access.backend, access.principal, access.audit, access.usage)
        self.is_slowed = access.is_slowed
        self._tracer = tracer
        self._parent = parent
        self._field = field

    def perform(self, request: Request[T]) -> Coroutine[Any, Any, T]:
        """Carry out a request, with a span if its operation has one."""
        operation = aspects_of(request).span
        if operation is None:
            return super().perform(request)
        if operation.type == "receive":
            return self._received(request, operation)
        return self._sent(request, operation)

    async def _sent(self, request: Request[T], operation: MessagingOperation) -> T:
        span = self._begun(request, operation)
        performed: Request[Any] = request
        try:
            if self._field and isinstance(request, Add):
                performed = await self._with_context(request, span)
            reply = await super().perform(performed)
        except Exception as error:
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(Status(StatusCode.ERROR))
            raise
        else:
            span.set_attributes(attributes_of_reply(reply))
            return cast("T", reply)
        finally:
            span.end()

    async def _received(self, request: Request[T], operation: MessagingOperation) -> T:
        """Carry out a read. Its span is ended, and so exported, only if something was read."""
        span = self._begun(request, operation)
        reply = await super().perform(request)
        count = delivered_in(request, reply)
        if count:
            entries = list(entries_of(reply))
            span.set_attributes(attributes_of_entries(count, entries))
            for context in self._contexts(entries):
                span.add_link(context)
            span.end()
        return reply

    def _begun(self, request: Request[Any], operation: MessagingOperation) -> Span:
        streams = streams_of(request)
        return self._tracer.start_span(
            name_of(operation, streams),
            self._parent,
            KINDS[operation.type],
            attributes_of(operation, request, streams),
        )

    async def _with_context(self, request: Add, span: Span) -> Add:
        carrier: dict[str, str] = {}
        _propagator.inject(carrier, trace.set_span_in_context(span, self._parent))
        added = self._field, carrier["traceparent"].encode()
        turn, drafts = this_turn(), []
        for draft in request.drafts:
            has_context = self._field in draft.fields[::2]  # of a client that does it by itself
            drafts.append(draft if has_context else Draft(draft.id, draft.fields + added))
            if turn.is_over:
                await turn.pause()
        return replace(request, drafts=drafts)

    def _contexts(self, entries: list[Entry | Delivery]) -> Iterator[SpanContext]:
        if not self._field:
            return
        for entry in entries[:_LINKS_MAX]:
            value = value_of(entry.fields, self._field)
            if value is not None:
                carrier = {"traceparent": value.decode("latin-1")}
                appended = trace.get_current_span(_propagator.extract(carrier, Context()))
                if appended.get_span_context().is_valid:
                    yield appended.get_span_context()


# Tracing: the exporter of spans, and the choice of requests that have any.
#
# Only a request that comes under a *sampled* parent has spans: a trace is begun, and its share of
# the requests chosen, by whoever calls. So a request that nobody traces costs a look at one
# header.

_PARENT: Final = b"traceparent"
_STATE: Final = b"tracestate"
_LENGTH: Final = 55
"""Of version 00 of `traceparent` (W3C Trace Context)."""
_SAMPLED: Final = b"13579bdf"
"""Last digits of the flags of a sampled request."""
_EXPORT_S_MAX: Final = 3.0
_PATH: Final = "/v1/traces"


class Tracing:
    def __init__(self, exporter: SpanExporter, field: bytes = b"") -> None:
        """`exporter` is called in a thread; for `field` see `TracedAccess`."""
        own = Resource({"service.name": "headgate", "service.version": version("headgate")})
        resource = own.merge(OTELResourceDetector().detect())
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer: Tracer = self._provider.get_tracer("headgate", version("headgate"))
        self._field = field

    @classmethod
    def to(cls, url: str, field: str) -> Self:
        """Export to a collector by OTLP over HTTP; `url` is such as `http://localhost:4318`."""
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415

        # A collector that is away is a line now and then, and not one for each attempt.
        logging.getLogger("opentelemetry").setLevel(logging.ERROR)
        endpoint = url.rstrip("/") + _PATH
        return cls(OTLPSpanExporter(endpoint, timeout=_EXPORT_S_MAX), field.encode())

    def access(self, access: Access, headers: Mapping[bytes, bytes]) -> Access:
        parent = headers.get(_PARENT)
        if parent is None or len(parent) != _LENGTH or parent[-1] not in _SAMPLED:
            return access
        carrier = {"traceparent": parent.decode("latin-1")}
        if _STATE in headers:
            carrier["tracestate"] = headers[_STATE].decode("latin-1")
        context = _propagator.extract(carrier, Context())
        return TracedAccess(access, self._tracer, context, self._field) if context else access

    async def close(self) -> None:
        """Export the remaining spans, within seconds."""
        await asyncio.to_thread(self._provider.shutdown)
