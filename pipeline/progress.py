"""Progress of queries: entries read and entries left, for people and for Prometheus.

`commit` of a source lags one micro-batch behind, so this listens to the queries themselves.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from headgate.client import Cursor, HeadgateError
from headgate.client.blocking import Client
from headgate.pipeline.offsets import OffsetError, positions_of

_LAG_S = 1.0  # how often the gateway is asked for what is left, at most


@dataclass(frozen=True, slots=True)
class Report:
    """One micro-batch, as it ended.

    Attributes:
        query: id of the query; it stays the same over restarts from a checkpoint.
        name: of the query, if it has one.
        batch: number of the micro-batch.
        entries: how many it read.
        entries_per_s: how fast.
        duration_ms: how long it took.
        lag: entries of each stream that are left to read, as far as is known.
    """

    query: str
    name: str | None
    batch: int
    entries: int
    entries_per_s: float
    duration_ms: int
    lag: dict[str, int]


class Progress(StreamingQueryListener):
    """Listens to all queries of a session: `spark.streams.addListener(Progress(client))`.

    Metrics, each by query: `headgate_query_entries_total`, `headgate_query_batches_total`,
    `headgate_query_batch_duration_seconds`, `headgate_query_failures_total`, and
    `headgate_query_lag_entries` also by stream.

    Args:
        client: asked for what is left; None: lag stays unknown.
        port: serve the metrics there, on this machine, at /metrics; None: do not.
        on_report: called after each micro-batch, on a thread of the listener.
    """

    def __init__(
        self,
        client: Client | None = None,
        *,
        port: int | None = None,
        on_report: Callable[[Report], None] | None = None,
    ) -> None:
        self.registry = CollectorRegistry()
        self.last: dict[str, Report] = {}  # by query
        self._client = client
        self._on_report = on_report
        self._lag: dict[str, int] = {}
        self._lag_at_s = -_LAG_S
        counter = partial(Counter, labelnames=["query"], registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        self._entries = counter("headgate_query_entries", "Entries read.")
        self._batches = counter("headgate_query_batches", "Micro-batches ended.")
        self._failures = counter("headgate_query_failures", "Queries that failed.")
        duration = "headgate_query_batch_duration_seconds"
        self._duration_s = gauge(duration, "Of the last micro-batch.", ["query"])
        lag = "headgate_query_lag_entries"
        self._left = gauge(lag, "Entries left to read.", ["query", "stream"])
        if port is not None:
            start_http_server(port, "127.0.0.1", self.registry)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Take note of nothing: a query that has read nothing has no progress."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Count a micro-batch."""
        progress = event.progress
        query = progress.name or str(progress.id)
        for source in progress.sources:
            if source.endOffset:
                self._ask(source.endOffset)
        report = Report(
            query=str(progress.id),
            name=progress.name,
            batch=progress.batchId,
            entries=progress.numInputRows,
            entries_per_s=progress.processedRowsPerSecond,
            duration_ms=progress.batchDuration,
            lag=dict(self._lag),
        )
        self.last[report.query] = report
        self._entries.labels(query).inc(report.entries)
        self._batches.labels(query).inc()
        self._duration_s.labels(query).set(report.duration_ms / 1000)
        for stream, left in report.lag.items():
            self._left.labels(query, stream).set(left)
        if self._on_report is not None:
            self._on_report(report)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Take note of nothing: what was left is none."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Count a failure, if it is one."""
        if event.exception:
            last = self.last.get(str(event.id))
            name = last.name if last is not None else None
            self._failures.labels(name or str(event.id)).inc()

    def _ask(self, offset: str) -> None:
        """Note the lag behind an offset; a gateway that is away leaves it as it was."""
        if self._client is None or time.monotonic() - self._lag_at_s < _LAG_S:
            return
        try:
            positions = positions_of(json.loads(offset))
            cursors = [Cursor(stream, at.id, at.epoch) for stream, at in positions.items()]
            plans = self._client.plan(cursors)
        except (HeadgateError, OffsetError, ValueError, AttributeError):
            return  # not a source of ours, or not now
        self._lag_at_s = time.monotonic()
        self._lag.update({plan.stream: plan.backlog for plan in plans})
