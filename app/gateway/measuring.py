"""Measuring: what is shown of a process and its streams, as the settings say."""

from headgate.app.backends.leading import bucket_of
from headgate.app.backends.port import Backend
from headgate.app.gateway.backends import memory_bounds
from headgate.app.measuring.observer import Observer, ObserverOptions
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.app.runtime.loop_delay import LoopDelay
from headgate.app.runtime.telemetry import Metrics
from headgate.app.settings import Settings
from headgate.engine.buckets import Buckets
from headgate.engine.clock import SystemClock

_OBSERVED_EVERY_S = 1.0
_OBSERVED_AT_SERVERS_EVERY_S = 10.0
"""Each stream and each group is asked about by itself there."""


def watch_streams(metrics: Metrics, backend: Backend, settings: Settings) -> None:
    """Show in metrics the memory and the journal of a backend that is in this process."""
    bounds = memory_bounds(settings)
    journal = backend.journal
    if journal is not None:
        metrics.watch_journal(lambda: journal.status)
        if settings.bucket is not None:
            metrics.watch_bucket(lambda: bucket_of(backend))

    def counts() -> tuple[int | None, ...]:
        activity = backend.activity
        return activity.appended_count, activity.cold_hit_count, activity.cold_read_count

    def times() -> tuple[Buckets | None, ...]:
        activity = backend.activity
        return activity.syncs, activity.commits, activity.cold_reads

    metrics.watch_counts(counts, times)
    metrics.watch_memory(backend.memory_bytes, bounds.size_bytes_max or 0)


def watch_loop(metrics: Metrics, settings: Settings) -> LoopDelay:
    """Return a meter of the event loop's delay, shown in metrics."""
    return LoopDelay(metrics.registry, settings.loop_delay_warn_ms, CommandRunner.run.__code__)


def observer_of(backend: Backend, settings: Settings) -> Observer:
    """Return a meter of the streams of a backend, and of their groups."""
    every_s = _OBSERVED_EVERY_S if settings.backend is None else _OBSERVED_AT_SERVERS_EVERY_S
    options = ObserverOptions(settings.observe, settings.observed_max, every_s)
    return Observer(backend, options, SystemClock())
