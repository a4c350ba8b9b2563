"""Sampler: what this process has counted and has, as a `Sample`, and as Prometheus wants it."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from headgate.app.backends.port import Backend
from headgate.app.measuring import series
from headgate.app.measuring.observer import Observer
from headgate.app.measuring.sample import SAMPLE, Sample, decode_observer, encode_sample
from headgate.app.runtime import machine
from headgate.app.runtime.loop_delay import LoopDelay
from headgate.app.runtime.siblings import Siblings
from headgate.app.runtime.telemetry import Metrics


class Sampler:
    """Takes samples of this process."""

    def __init__(
        self,
        metrics: Metrics,
        loop_delay: LoopDelay,
        *,
        streams: Backend | None,
        waiter_count: Callable[[], int],
        observer: Observer | None = None,
    ) -> None:
        """Get ready.

        Args:
            metrics: what is counted here.
            loop_delay: measures the event loop.
            streams: what keeps the streams, unless another process answers for them.
            waiter_count: tells how many reads are blocked.
            observer: measures streams and groups, unless another process does.
        """
        self._observer = observer
        self._metrics = metrics
        self._loop_delay = loop_delay
        self._streams = streams
        self._waiter_count = waiter_count
        machine.resident_bytes()  # opens what it reads, before there are connections

    def answer_siblings(self, siblings: Siblings) -> None:
        """Give samples to the process that asks for them; its question says who is to observe."""
        siblings.on_question(SAMPLE, partial(self._answer, siblings.number))

    def _answer(self, own_number: int, body: bytes) -> bytes:
        self.observe(is_wanted=decode_observer(body) == own_number)
        return encode_sample(self.take())

    def observe(self, *, is_wanted: bool) -> None:
        """Begin or stop to measure streams and groups, if this process can."""
        if self._observer is not None:
            self._observer.want(is_wanted=is_wanted)

    async def run(self) -> None:
        """Measure streams and groups, when that is wanted, until cancelled."""
        if self._observer is not None:
            await self._observer.run()

    def take(self) -> Sample:
        """Return a sample."""
        metrics, times = self._metrics, {}
        taken = sample_of_process()
        taken.counts |= metrics.answer_counts()
        taken.counts["delivered"] = metrics.delivered_count()
        times[series.REQUEST] = metrics.answer_times()
        taken.present |= {
            "connections_events": metrics.connection_counts["sse"],
            "connections_websocket": metrics.connection_counts["websocket"],
            "connections_redis": metrics.redis_connection_count(),
            "waiters": self._waiter_count(),
        }
        taken.peaks[series.LOOP_DELAY] = self._loop_delay.take_longest_s()
        if self._streams is not None:
            activity, journal = self._streams.activity, self._streams.journal
            taken.counts["appended"] = activity.appended_count
            taken.counts["acknowledged"] = activity.acked_count
            taken.present["memory_bytes"] = sum(self._streams.memory_bytes().values())
            if journal is not None:
                status = journal.status
                taken.present |= {
                    "journal_bytes": status.size_bytes,
                    "cold_bytes": status.cold_bytes,
                    "dead_bytes": status.dead_bytes,
                }
            if activity.syncs is not None:
                times[series.SYNC] = list(activity.syncs.counts)
            if activity.cold_reads is not None:
                taken.counts[series.COLD_HITS] = activity.cold_hit_count or 0
                taken.counts[series.COLD_READS] = activity.cold_read_count or 0
                times[series.COLD_READ] = list(activity.cold_reads.counts)
        taken.times = times
        taken.observed = None if self._observer is None else self._observer.take()
        return taken


def sample_of_process() -> Sample:
    """Return the values of any process: its memory and its time."""
    present = {"process_bytes": float(machine.resident_bytes())}
    return Sample({series.CPU: time.process_time()}, present, {}, {})
