"""Traced access: each request of a client that traces is a span below the client's own."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar, cast

from msgspec.structs import replace
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanContext, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from headgate.app.auth.access import Access
from headgate.app.auth.aspects.aspects import MessagingOperation
from headgate.app.auth.aspects.table import aspects_of
from headgate.app.auth.limits.metering import delivered_in
from headgate.app.tracing import spans
from headgate.engine.entry import Draft, Entry
from headgate.engine.replies import Delivery
from headgate.engine.requests import Request
from headgate.engine.requests.entries import Add
from headgate.engine.threads.turn import this_turn

T = TypeVar("T")

_LINKS_MAX = 128
"""OpenTelemetry keeps no more of a span either."""

_propagator = TraceContextTextMapPropagator()


class TracedAccess(Access):
    """An access under a parent that is sampled."""

    __slots__ = ("_field", "_parent", "_tracer")

    def __init__(self, access: Access, tracer: Tracer, parent: Context, field: bytes) -> None:
        """Trace the requests of an access.

        Args:
            access: of who asks.
            tracer: makes spans.
            parent: of all spans.
            field: in which the context of an append travels with its entry; empty: in none.
        """
        super().__init__(access.backend, access.principal, access.audit, access.usage)
        self.is_slowed = access.is_slowed
        self._tracer = tracer
        self._parent = parent
        self._field = field

    def perform(self, request: Request[T]) -> Coroutine[Any, Any, T]:
        """Carry out a request, and trace it, if it is one of those that have a span."""
        operation = aspects_of(request).span
        if operation is None:
            return super().perform(request)
        if operation.type == "receive":
            return self._received(request, operation)
        return self._sent(request, operation)

    async def _sent(self, request: Request[T], operation: MessagingOperation) -> T:
        """Carry out a change: an append, or the settling of deliveries."""
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
            span.set_attributes(spans.attributes_of_reply(reply))
            return cast("T", reply)
        finally:
            span.end()

    async def _received(self, request: Request[T], operation: MessagingOperation) -> T:
        """Carry out a read. Its span is ended, and so sent, if there was something to read."""
        span = self._begun(request, operation)
        reply = await super().perform(request)
        count = delivered_in(request, reply)
        if count:
            entries = list(spans.entries_of(reply))
            span.set_attributes(spans.attributes_of_entries(count, entries))
            for context in self._contexts(entries):
                span.add_link(context)
            span.end()
        return reply

    def _begun(self, request: Request[Any], operation: MessagingOperation) -> Span:
        streams = spans.streams_of(request)
        return self._tracer.start_span(
            spans.name_of(operation, streams),
            self._parent,
            spans.KINDS[operation.type],
            spans.attributes_of(operation, request, streams),
        )

    async def _with_context(self, request: Add, span: Span) -> Add:
        """Return an append whose entries carry the context of its span."""
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
        """Yield the spans that appended the first entries."""
        if not self._field:
            return
        for entry in entries[:_LINKS_MAX]:
            value = spans.value_of(entry.fields, self._field)
            if value is not None:
                carrier = {"traceparent": value.decode("latin-1")}
                appended = trace.get_current_span(_propagator.extract(carrier, Context()))
                if appended.get_span_context().is_valid:
                    yield appended.get_span_context()
