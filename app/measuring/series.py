"""Series: what the history shows of the gateway, of a stream and of a group."""

from __future__ import annotations

from typing import Final

from headgate.app.measuring.quantiles import quantile
from headgate.app.measuring.sample import SampleGrowth
from headgate.engine.buckets import SECONDS
from headgate.engine.replies import ObservedGroup, ObservedStream

Values = dict[str, float | None]

RATES: Final = ("appended", "delivered", "acknowledged", "requests", "refused", "failed")
"""Counts that are shown by second."""

PRESENT: Final = (
    "connections_events",
    "connections_websocket",
    "connections_redis",
    "waiters",
    "memory_bytes",
    "process_bytes",
    "journal_bytes",
    "cold_bytes",
    "dead_bytes",
)

REQUEST, SYNC, COLD_READ = "request", "sync", "cold_read"
COLD_HITS, COLD_READS = "cold_hits", "cold_reads"
CPU, LOOP_DELAY = "cpu_s", "loop_delay_s"
"""Names in samples of what is shown in another way than it is counted."""

_TIMES: Final = {
    "request_ms_p50": (REQUEST, 0.5),
    "request_ms_p99": (REQUEST, 0.99),
    "fsync_ms_p99": (SYNC, 0.99),
    "cold_read_ms_p99": (COLD_READ, 0.99),
}

GATEWAY: Final = (
    *RATES,
    *_TIMES,
    *PRESENT,
    "cold_hit_percent",
    "loop_delay_ms",
    "cpu_percent",
)
GATEWAY_LARGEST: Final = frozenset(
    {"request_ms_p99", "fsync_ms_p99", "cold_read_ms_p99", "loop_delay_ms"}
)

STREAM: Final = ("length", "bytes", "cold_bytes", "appended")

GROUP: Final = (
    "lag",
    "pending",
    "oldest_pending_ms",
    "delivered",
    "acknowledged",
    "redelivered",
)
GROUP_LARGEST: Final = frozenset({"oldest_pending_ms"})


def of_gateway(growth: SampleGrowth, over_s: float) -> Values:
    """Return the values of the gateway, from its growth in so many seconds."""
    values: Values = {name: growth.present.get(name) for name in PRESENT}
    for name in RATES:
        count = growth.counts.get(name)
        values[name] = None if count is None else count / over_s
    for name, (kind, share) in _TIMES.items():
        value = quantile(SECONDS, growth.times.get(kind, ()), share)
        values[name] = None if value is None else 1000 * value
    hits, reads = (growth.counts.get(name, 0.0) for name in (COLD_HITS, COLD_READS))
    values["cold_hit_percent"] = 100 * hits / (hits + reads) if hits + reads else None
    values["cpu_percent"] = 100 * growth.counts.get(CPU, 0.0) / over_s
    values["loop_delay_ms"] = 1000 * growth.peaks.get(LOOP_DELAY, 0.0)
    return values


def of_stream(now: ObservedStream, before: ObservedStream | None, over_s: float) -> Values:
    """Return the values of a stream, with its growth in so many seconds."""
    return {
        "length": now.length,
        "bytes": now.hot_bytes,
        "cold_bytes": now.cold_bytes,
        "appended": before and _rate(now.added_count, before.added_count, over_s),
    }


def of_group(now: ObservedGroup, before: ObservedGroup | None, over_s: float) -> Values:
    """Return the values of a group, with its growth in so many seconds."""
    values: Values = {
        "lag": now.lag,
        "pending": now.pending_count,
        "oldest_pending_ms": now.oldest_pending_ms,
    }
    if before is not None:
        values |= {
            "delivered": _rate(now.delivered_count, before.delivered_count, over_s),
            "acknowledged": _rate(now.acked_count, before.acked_count, over_s),
            "redelivered": _rate(now.redelivered_count, before.redelivered_count, over_s),
        }
    return values


def _rate(now: int | None, before: int | None, over_s: float) -> float | None:
    """Return how much a count has grown by second; None: it is unknown, or began anew."""
    if now is None or before is None or now < before:
        return None
    return (now - before) / over_s
