"""Series: what the history shows of the gateway, of a stream and of a group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Self

import msgspec

from headgate.engine.buckets import SECONDS
from headgate.engine.replies import ObservedGroup, ObservedStream


def quantile(bounds: Sequence[float], counts: Sequence[int], share: float) -> float | None:
    """Estimate a quantile of a histogram; None if nothing was counted.

    Within a bucket the values are assumed to be evenly spread, as Prometheus does. The last bucket
    has no bound. `share` is between 0 and 1.
    """
    total = sum(counts)
    if not total:
        return None
    rank, below = share * total, 0
    for at, count in enumerate(counts):
        if below + count >= rank and count:
            if at == len(bounds):
                return bounds[-1]
            low = bounds[at - 1] if at else 0.0
            return low + (bounds[at] - low) * (rank - below) / count
        below += count
    return bounds[-1]


# Sample: the counts of one process since its start, and its present values.
#
# Samples of several processes are added: counts by how much each has grown since the sample
# before, so that a process that ends takes nothing away.

SAMPLE: Final = "sample"
"""Topic of the question for it."""


class ObservedStreams(msgspec.Struct, array_like=True):
    at_ms: int  # on the clock of durations
    valid_ms: int  # for so long it holds, if nothing newer comes
    streams: list[ObservedStream]
    streams_left_out: int
    groups_left_out: int  # of these streams


class Sample(msgspec.Struct, array_like=True):
    counts: dict[str, float]  # since its start
    present: dict[str, float]  # to be added
    peaks: dict[str, float]  # the largest counts
    times: dict[str, list[int]]  # by kind of time: counts since its start, by bucket
    observed: ObservedStreams | None = None  # of the process that observes, if that is news


NOTHING: Final = ObservedStreams(0, 0, [], 0, 0)
"""Nothing was observed."""

encode_sample = msgspec.msgpack.Encoder().encode
decode_sample = msgspec.msgpack.Decoder(Sample).decode

encode_observer = msgspec.msgpack.Encoder().encode
decode_observer = msgspec.msgpack.Decoder(int).decode
"""The question for a sample says which process is to observe streams and groups."""


class SampleGrowth(msgspec.Struct):
    counts: dict[str, float]
    present: dict[str, float]
    peaks: dict[str, float]
    times: dict[str, list[int]]

    @classmethod
    def between(cls, before: Mapping[int, Sample], now: Mapping[int, Sample]) -> Self:
        """Sum over processes by their number. A new process began at zero."""
        growth = cls({}, {}, {}, {})
        for number, sample in now.items():
            growth._add(sample, before.get(number))
        return growth

    def _add(self, sample: Sample, before: Sample | None) -> None:
        for name, count in sample.counts.items():
            earlier = 0.0 if before is None else before.counts.get(name, 0.0)
            self.counts[name] = self.counts.get(name, 0.0) + max(count - earlier, 0.0)
        for name, value in sample.present.items():
            self.present[name] = self.present.get(name, 0.0) + value
        for name, value in sample.peaks.items():
            self.peaks[name] = max(self.peaks.get(name, 0.0), value)
        for name, counts in sample.times.items():
            own = [0] * len(counts) if before is None else before.times.get(name, [0] * len(counts))
            grown = [now - then for now, then in zip(counts, own, strict=True)]
            self.times[name] = _sum(self.times.get(name), grown)


def _sum(counts: Iterable[int] | None, more: list[int]) -> list[int]:
    return more if counts is None else [a + b for a, b in zip(counts, more, strict=True)]


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

GATEWAY: Final = (*RATES, *_TIMES, *PRESENT, "cold_hit_percent", "loop_delay_ms", "cpu_percent")
GATEWAY_LARGEST: Final = frozenset(
    {"request_ms_p99", "fsync_ms_p99", "cold_read_ms_p99", "loop_delay_ms"}
)

STREAM: Final = ("length", "bytes", "cold_bytes", "appended")

GROUP: Final = ("lag", "pending", "oldest_pending_ms", "delivered", "acknowledged", "redelivered")
GROUP_LARGEST: Final = frozenset({"oldest_pending_ms"})


def of_gateway(growth: SampleGrowth, over_s: float) -> Values:
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
    return {
        "length": now.length,
        "bytes": now.hot_bytes,
        "cold_bytes": now.cold_bytes,
        "appended": before and _rate(now.added_count, before.added_count, over_s),
    }


def of_group(now: ObservedGroup, before: ObservedGroup | None, over_s: float) -> Values:
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
    """Return the growth of a counter per second; None if it is unknown, or was reset."""
    if now is None or before is None or now < before:
        return None
    return (now - before) / over_s
