"""Telemetry: sets up logging, and counts for /metrics."""

import asyncio
import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from pythonjsonlogger.json import JsonFormatter
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headgate.engine.replies import JournalStatus

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 60)


def set_up_logging(level: str, process: str | None = None) -> None:
    """Write the log as JSON lines to standard error.

    Args:
        level: from which on.
        process: which process of the gateway writes, if there are several.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonFormatter(
            "%(asctime)s %(levelname)s %(name)s %(message)s",
            rename_fields={
                "asctime": "time",
                "levelname": "level",
                "name": "logger",
                "message": "event",
            },
            static_fields=None if process is None else {"process": process},
        )
    )
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # One line per request and per frame is for debugging only.
    quiet = logging.INFO if level == "debug" else logging.WARNING
    for name in ("uvicorn.access", "uvicorn.error", "websockets", "asyncio"):
        logging.getLogger(name).setLevel(quiet)
    for name in ("httpcore", "httpx"):  # they write whole URLs, and a query may have a secret
        logging.getLogger(name).setLevel(logging.WARNING)


class Metrics:
    """The counters and gauges of `/metrics`."""

    def __init__(self) -> None:
        """Start at zero, in a registry of its own."""
        self.registry = CollectorRegistry()
        self.connection_count = 0  # open ones, of all transports
        self.requests = Counter(
            "headgate_requests",
            "Requests answered.",
            ["operation", "status"],
            registry=self.registry,
        )
        self.request_seconds = Histogram(
            "headgate_request_seconds",
            "Time from a request to the end of its answer, waits included.",
            ["operation"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.appended = Counter(
            "headgate_entries_appended", "Entries appended.", registry=self.registry
        )
        self.delivered = Counter(
            "headgate_entries_delivered",
            "Entries sent to readers.",
            ["transport"],
            registry=self.registry,
        )
        self.connections = Gauge(
            "headgate_connections",
            "Connections that stay open.",
            ["transport"],
            registry=self.registry,
        )
        self.waiters = Gauge("headgate_waiters", "Blocked reads.", registry=self.registry)
        tasks = Gauge("headgate_tasks", "Tasks of the event loop.", registry=self.registry)
        tasks.set_function(lambda: len(asyncio.all_tasks()))
        self._answered: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def count_answer(self, operation: str, status: int, seconds: float) -> None:
        """Count a request and how long it took, waits included."""
        metrics = self._answered.get((operation, status))
        if metrics is None:  # looking them up by label costs more than counting
            counter = self.requests.labels(operation, status)
            metrics = counter, self.request_seconds.labels(operation)
            self._answered[operation, status] = metrics
        counter, histogram = metrics
        counter.inc()
        histogram.observe(seconds)

    @contextmanager
    def connection(self, transport: str) -> Iterator[None]:
        """Count a connection that stays open, while the context lasts."""
        self.connection_count += 1
        try:
            with self.connections.labels(transport).track_inprogress():
                yield
        finally:
            self.connection_count -= 1

    def watch(self, waiter_count: Callable[[], int]) -> None:
        """Read the number of blocked reads whenever metrics are asked for."""
        self.waiters.set_function(waiter_count)

    def watch_journal(self, status: Callable[[], JournalStatus]) -> None:
        """Read the state of the journal whenever metrics are asked for."""
        gauges: dict[str, tuple[str, Callable[[], float]]] = {
            "position": ("Records taken.", lambda: status().position),
            "durable_position": ("Records that are safe.", lambda: status().durable_position),
            "bytes": ("Size of snapshot and segments.", lambda: status().size_bytes),
            "failed": ("1 once the disk has failed.", lambda: status().failure is not None),
            "fault": (
                "1 while nothing can be written for now.",
                lambda: status().fault is not None,
            ),
            "shortage": (
                "1 while appends are refused for want of room.",
                lambda: status().shortage is not None,
            ),
            "disk_free_bytes": (
                "Free bytes of its disk, when that was last looked at.",
                lambda: status().free_bytes or 0,
            ),
            "rewrites": ("Rewrites since the start.", lambda: status().rewrite_count),
            "rewrite_failed": (
                "1 if the last rewrite did not work.",
                lambda: status().rewrite_failure is not None,
            ),
        }
        for name, (text, value) in gauges.items():
            gauge = Gauge(f"headgate_journal_{name}", text, registry=self.registry)
            gauge.set_function(value)

    def watch_memory(self, memory: Callable[[], Mapping[str, int]], size_bytes_max: int) -> None:
        """Read what the streams take whenever metrics are asked for."""
        gauge = Gauge(
            "headgate_memory_bytes",
            "Memory of the streams, estimated.",
            ["kind"],
            registry=self.registry,
        )
        for kind in memory():
            gauge.labels(kind).set_function(partial(_size_of, memory, kind))
        bound = Gauge(
            "headgate_memory_bytes_max",
            "Memory of the streams from which appends are refused.",
            registry=self.registry,
        )
        bound.set(size_bytes_max)

    def text(self) -> bytes:
        """Return all of it in the Prometheus text format."""
        return generate_latest(self.registry)


def _size_of(memory: Callable[[], Mapping[str, int]], kind: str) -> float:
    return float(memory()[kind])


class RequestMetrics:
    """ASGI middleware that counts requests by operation and status."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        """Count what passes through to `app`."""
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and count its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0

        async def note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        started = time.perf_counter()
        try:
            await self._app(scope, receive, note_status)
        finally:
            operation = getattr(scope.get("route"), "operation_id", None) or "none"
            self._metrics.count_answer(operation, status, time.perf_counter() - started)
