"""A collector of traces: what is sent to it by OTLP over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collected(NamedTuple):
    """A span, as a test looks at it."""

    name: str
    kind: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, str | int]
    links: list[str]  # ids of spans
    is_error: bool


class Collector:
    """The spans that were sent."""

    def __init__(self) -> None:
        self.url = ""
        self.spans: list[Collected] = []
        self.service: dict[str, str] = {}

    def take(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for pair in resource.resource.attributes:
                self.service[pair.key] = pair.value.string_value
            for scope in resource.scope_spans:
                self.spans += map(_collected, scope.spans)

    def named(self, name: str) -> Collected:
        [span] = [span for span in self.spans if span.name == name]
        return span


def _collected(span: Span) -> Collected:
    return Collected(
        span.name,
        Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        {pair.key: pair.value.string_value or pair.value.int_value for pair in span.attributes},
        [link.span_id.hex() for link in span.links],
        span.status.code == 2,
    )


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector on a free port."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            collector.take(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            """Write nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
