"""Tracing: the exporter of spans, and the choice of requests that have any.

Only a request that comes under a *sampled* parent has spans: a trace is begun, and its share of the
requests chosen, by whoever calls. So a request that nobody traces costs a look at one header.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from importlib.metadata import version
from typing import Final, Self

from opentelemetry.context import Context
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from headgate.app.auth.access import Access
from headgate.app.tracing.access import TracedAccess

_PARENT: Final = b"traceparent"
_STATE: Final = b"tracestate"
_LENGTH: Final = 55
"""Of version 00 of `traceparent` (W3C Trace Context)."""
_SAMPLED: Final = b"13579bdf"
"""Last digits of the flags of a sampled request."""
_EXPORT_S_MAX: Final = 3.0
_PATH: Final = "/v1/traces"

_propagator = TraceContextTextMapPropagator()


class Tracing:
    """Spans of this process, on their way to a collector."""

    def __init__(self, exporter: SpanExporter, field: bytes = b"") -> None:
        """Send spans.

        Args:
            exporter: sends them; it is called in a thread.
            field: in which the context of an append travels with its entry; empty: in none.
        """
        own = Resource({"service.name": "headgate", "service.version": version("headgate")})
        resource = own.merge(OTELResourceDetector().detect())
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer: Tracer = self._provider.get_tracer("headgate", version("headgate"))
        self._field = field

    @classmethod
    def to(cls, url: str, field: str) -> Self:
        """Send spans to a collector by OTLP over HTTP.

        Args:
            url: of the collector, such as `http://localhost:4318`.
            field: see the constructor.
        """
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )

        # A collector that is away is a line now and then, and not one for each attempt.
        logging.getLogger("opentelemetry").setLevel(logging.ERROR)
        endpoint = url.rstrip("/") + _PATH
        return cls(OTLPSpanExporter(endpoint, timeout=_EXPORT_S_MAX), field.encode())

    def access(self, access: Access, headers: Mapping[bytes, bytes]) -> Access:
        """Return an access whose requests are traced, if their parent is sampled."""
        parent = headers.get(_PARENT)
        if parent is None or len(parent) != _LENGTH or parent[-1] not in _SAMPLED:
            return access
        carrier = {"traceparent": parent.decode("latin-1")}
        if _STATE in headers:
            carrier["tracestate"] = headers[_STATE].decode("latin-1")
        context = _propagator.extract(carrier, Context())
        return TracedAccess(access, self._tracer, context, self._field) if context else access

    async def close(self) -> None:
        """Send the remaining spans, within seconds."""
        await asyncio.to_thread(self._provider.shutdown)
