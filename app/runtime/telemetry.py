"""The metrics of `/metrics`."""

from __future__ import annotations

import asyncio
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from importlib.metadata import version
from itertools import accumulate

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString
from starlette.types import ASGIApp, Receive, Scope, Send

from headgate.app.runtime import machine
from headgate.app.runtime.periodic import failure_families
from headgate.app.runtime.threads import METRICS
from headgate.engine.buckets import SECONDS, Buckets
from headgate.engine.replies import BucketStatus, JournalStatus

BUILD = "headgate_build_info"


class Collected(Collector):
    """A collector that calls a function whenever metrics are requested."""

    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self._collect = collect

    def collect(self) -> Iterable[Metric]:
        return self._collect()


def histogram_of(buckets: Buckets) -> tuple[list[tuple[str, float]], float]:
    bounds = [*map(floatToGoString, buckets.bounds), "+Inf"]
    return list(zip(bounds, accumulate(buckets.counts), strict=True)), buckets.total


@cache
def versions() -> tuple[str, str]:
    """Return the versions of Headgate and Python. The first call reads files."""
    return version("headgate"), platform.python_version()


def process_families() -> Iterator[Metric]:
    yield CounterMetricFamily(
        "process_cpu_seconds", "CPU time, user and system.", time.process_time()
    )
    yield GaugeMetricFamily(
        "process_resident_memory_bytes", "Resident memory.", machine.resident_bytes()
    )
    build = GaugeMetricFamily(
        BUILD, "Always 1; the labels have the versions.", None, ["version", "python_version"]
    )
    build.add_metric(versions(), 1)
    yield build
    yield from failure_families()


_COUNTED = {
    "headgate_entries_appended": "Entries appended.",
    "headgate_cold_hits": "Reads of extents of cold entries that were served from memory.",
    "headgate_cold_reads": "Extents of cold entries that were read from disk.",
}

_MEASURED = {
    "headgate_journal_fsync_seconds": "Duration of syncs of the journal.",
    "headgate_journal_commit_records": "Records that were written together (group commit).",
    "headgate_cold_read_seconds": "Duration of reads of an extent of cold entries from disk.",
}

_REFUSED, _FAILED = 400, 500
"""Least status of a refused request, and of a failed one."""


class _Answers:
    __slots__ = ("count", "status", "times")

    def __init__(self, status: int, times: Buckets) -> None:
        self.status = status
        self.times = times  # of the operation, with any status
        self.count = 0


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.observed = CollectorRegistry()  # of streams and groups: large, and read in a thread
        self.connection_counts = {"sse": 0, "websocket": 0}  # that stay open, by transport
        # Entries sent to readers, by transport; those in replies to commands are counted there.
        self.delivered_counts = {"rest": 0, "arrow": 0, "sse": 0, "websocket": 0}
        self._count_of_commands: Callable[[], int] = lambda: 0
        self._answers: dict[tuple[str, int], _Answers] = {}
        self._times: dict[str, Buckets] = {}  # by operation
        connections = Gauge(
            "headgate_connections", "Open connections.", ["transport"], registry=self.registry
        )
        for transport in self.connection_counts:
            count = partial(self.connection_counts.__getitem__, transport)
            connections.labels(transport).set_function(count)
        self._connections = connections
        self.redis_connection_count: Callable[[], int] = lambda: 0
        self.waiters = Gauge("headgate_waiters", "Blocked reads.", registry=self.registry)
        tasks = Gauge("headgate_tasks", "Tasks of the event loop.", registry=self.registry)
        tasks.set_function(lambda: len(asyncio.all_tasks()))
        self.registry.register(Collected(self._families))
        versions()  # it reads files: not while requests wait
        self.registry.register(Collected(process_families))

    @property
    def connection_count(self) -> int:
        """Return the number of open connections, without those of Redis clients."""
        return sum(self.connection_counts.values())

    def count_answer(self, operation: str, status: int, seconds: float | None) -> None:
        """Count a request and its duration; None if it waited for entries."""
        answers = self._answers.get((operation, status))
        if answers is None:
            times = self._times.setdefault(operation, Buckets(SECONDS))
            answers = self._answers[operation, status] = _Answers(status, times)
        answers.count += 1
        if seconds is not None:
            answers.times.note(seconds)

    def answer_counts(self) -> dict[str, float]:
        """Return how many requests were answered, refused (4xx) and failed (5xx)."""
        counts = {"requests": 0.0, "refused": 0.0, "failed": 0.0}
        for answers in self._answers.values():
            counts["requests"] += answers.count
            if answers.status >= _FAILED:
                counts["failed"] += answers.count
            elif answers.status >= _REFUSED:
                counts["refused"] += answers.count
        return counts

    def answer_times(self) -> list[int]:
        columns = zip(*(times.counts for times in self._times.values()), strict=True)
        return [sum(column) for column in columns] or [0] * (len(SECONDS) + 1)

    def delivered_count(self) -> int:
        return sum(self.delivered_counts.values()) + self._count_of_commands()

    def _families(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "headgate_requests", "Requests answered.", None, ["operation", "status"]
        )
        for (operation, status), answers in self._answers.items():
            requests.add_metric([operation, str(status)], answers.count)
        yield requests
        times = HistogramMetricFamily(
            "headgate_request_seconds",
            "Duration of requests, including the answer, except long polls and streams.",
            labels=["operation"],
        )
        for operation, buckets in self._times.items():
            times.add_metric([operation], *histogram_of(buckets))
        yield times
        delivered = CounterMetricFamily(
            "headgate_entries_delivered", "Entries sent to readers.", None, ["transport"]
        )
        counts = {**self.delivered_counts, "commands": self._count_of_commands()}
        for transport, count in counts.items():
            delivered.add_metric([transport], count)
        yield delivered

    @contextmanager
    def connection(self, transport: str) -> Iterator[None]:
        self.connection_counts[transport] += 1
        try:
            yield
        finally:
            self.connection_counts[transport] -= 1

    def watch_redis(self, count: Callable[[], int]) -> None:
        self.redis_connection_count = count
        self._connections.labels("redis").set_function(count)

    def watch_commands(self, delivered_count: Callable[[], int]) -> None:
        self._count_of_commands = delivered_count

    def watch(self, waiter_count: Callable[[], int]) -> None:
        self.waiters.set_function(waiter_count)

    def watch_journal(self, status: Callable[[], JournalStatus]) -> None:
        def families() -> Iterator[Metric]:
            journal = status()
            gauges = {
                "position": ("Records taken.", journal.position),
                "durable_position": ("Records that are durable.", journal.durable_position),
                "bytes": ("Size of all files of the journal.", journal.size_bytes),
                "extents_bytes": ("Size of the extent files.", journal.extents_bytes),
                "cold_bytes": (
                    "Estimated size of live entries in the extent files.",
                    journal.cold_bytes,
                ),
                "dead_bytes": ("Size of dead data in the extent files.", journal.dead_bytes),
                "failed": ("1 once the disk has failed.", journal.failure is not None),
                "fault": ("1 while nothing can be written.", journal.fault is not None),
                "shortage": (
                    "1 while appends are refused for lack of space.",
                    journal.shortage is not None,
                ),
                "disk_free_bytes": (
                    "Free bytes of the disk at the last check.",
                    journal.free_bytes or 0,
                ),
                "rewrite_failed": (
                    "1 if the last rewrite failed.",
                    journal.rewrite_failure is not None,
                ),
            }
            for name, (text, value) in gauges.items():
                yield GaugeMetricFamily(f"headgate_journal_{name}", text, float(value))
            yield CounterMetricFamily(
                "headgate_journal_rewrites", "Rewrites done.", journal.rewrite_count
            )

        self.registry.register(Collected(families))

    def watch_bucket(self, status: Callable[[], BucketStatus | None]) -> None:
        def families() -> Iterator[Metric]:
            bucket = status()
            if bucket is None:
                return
            gauges = {
                "leader": ("1 at the leader.", bucket.role == "leader"),
                "term": ("Number of the lease.", bucket.term),
                "shipped_position": ("Records in the bucket.", bucket.shipped_position),
                "unshipped_bytes": (
                    "Bytes of the journal that are not in the bucket yet.",
                    bucket.unshipped_bytes,
                ),
                "unshipped_seconds": (
                    "Time since the bucket had everything.",
                    (bucket.unshipped_ms or 0) / 1000,
                ),
                "behind_seconds": (
                    "Time since a standby had everything that was in the bucket.",
                    (bucket.behind_ms or 0) / 1000,
                ),
                "failing": ("1 while the bucket accepts no writes.", bucket.error is not None),
                "bytes": (
                    "Size of the objects that the newest manifest names.",
                    bucket.bucket_bytes,
                ),
                "remote_bytes": (
                    "Size of extent files that are only in the bucket.",
                    bucket.remote_bytes,
                ),
            }
            for name, (text, value) in gauges.items():
                yield GaugeMetricFamily(f"headgate_bucket_{name}", text, float(value))
            requests = CounterMetricFamily(
                "headgate_bucket_requests", "Requests to the store, by kind.", labels=["kind"]
            )
            sizes = CounterMetricFamily(
                "headgate_bucket_traffic_bytes", "Bytes to and from the store.", labels=["way"]
            )
            for kind, count in bucket.requests.items():
                name, _, unit = kind.rpartition("_")
                (sizes if unit == "bytes" else requests).add_metric([name], count)
            yield requests
            yield sizes

        self.registry.register(Collected(families))

    def watch_counts(
        self,
        counts: Callable[[], Sequence[int | None]],
        times: Callable[[], Sequence[Buckets | None]],
    ) -> None:
        """Read the counters whenever metrics are requested; None where there are none."""

        def families() -> Iterator[Metric]:
            for (name, text), count in zip(_COUNTED.items(), counts(), strict=True):
                if count is not None:
                    yield CounterMetricFamily(name, text, count)
            for (name, text), buckets in zip(_MEASURED.items(), times(), strict=True):
                if buckets is not None:
                    yield HistogramMetricFamily(name, text, *histogram_of(buckets))

        self.registry.register(Collected(families))

    def watch_memory(self, memory: Callable[[], Mapping[str, int]], size_bytes_max: int) -> None:
        gauge = Gauge(
            "headgate_memory_bytes",
            "Estimated memory of the streams.",
            ["kind"],
            registry=self.registry,
        )
        for kind in memory():
            gauge.labels(kind).set_function(partial(_size_of, memory, kind))
        bound = Gauge(
            "headgate_memory_bytes_max", "Maximum memory of the streams.", registry=self.registry
        )
        bound.set(size_bytes_max)

    async def text(self) -> bytes:
        own = generate_latest(self.registry)
        return own + await METRICS.call_if_awaited(partial(generate_latest, self.observed))


def _size_of(memory: Callable[[], Mapping[str, int]], kind: str) -> float:
    return float(memory()[kind])


class RequestMetrics:
    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        try:
            await self._app(scope, receive, send)
        finally:
            operation = getattr(scope.get("route"), "operation_id", None) or "none"
            seconds = None if "waits" in scope else time.perf_counter() - started
            self._metrics.count_answer(operation, scope.get("status", 0), seconds)
