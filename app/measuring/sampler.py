"""The counters and values of this process as a `Sample`, and for Prometheus."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from headgate.app.backends.port import Backend
from headgate.app.measuring import series
from headgate.app.measuring.families import observed_families
from headgate.app.measuring.recorder import (
    HISTORY,
    HistoryPart,
    HistoryQuestion,
    HistoryReader,
    Recorder,
    decode_answer,
    encode_question,
)
from headgate.app.measuring.series import (
    SAMPLE,
    ObservedStreams,
    Sample,
    decode_observer,
    encode_sample,
)
from headgate.app.runtime import machine, periodic
from headgate.app.runtime.loop_delay import LoopDelay
from headgate.app.runtime.siblings import Siblings
from headgate.app.runtime.telemetry import Collected, Metrics
from headgate.engine.clock import Clock
from headgate.engine.errors import StreamError, Unavailable
from headgate.engine.replies import ObservedStream
from headgate.engine.requests.keyspace import NameFilter
from headgate.engine.requests.streams import Observe

# Observer: measures streams and groups now and then, the first ones by name.
#
# There is a bound for both together. A stream that was measured stays so, whatever streams with
# names before its own are created later: nobody hides a stream from alerts by creating others.

_VALID_FOR = 3
"""An observation holds until so many more should have been made."""


class ObserverOptions(NamedTuple):
    """Which streams to observe, and the pause between observations."""

    patterns: Sequence[str] = ("*",)  # names, and beginnings of names with `*`
    limit: int = 200  # streams and groups together
    every_s: float = 1.0


class Observer:
    """Measures streams and groups of a backend, in only one of several processes."""

    def __init__(self, backend: Backend, options: ObserverOptions, clock: Clock) -> None:
        self._backend = backend
        self._request = Observe(options.limit, only=filter_of(options.patterns))
        self._every_s = options.every_s
        self._valid_ms = int(_VALID_FOR * options.every_s * 1000)
        self._clock = clock
        self._is_wanted = asyncio.Event()
        self._news: ObservedStreams | None = None
        self._names: frozenset[bytes] = frozenset()  # of the streams last measured

    def want(self, *, is_wanted: bool) -> None:
        if is_wanted:
            self._is_wanted.set()
        else:
            self._is_wanted.clear()
            self._news = None

    def take(self) -> ObservedStreams | None:
        """Return the last measurement; None if it was returned before."""
        news, self._news = self._news, None
        return news

    async def run(self) -> None:
        if self._request.limit:
            await periodic.repeat("streams observed", self._observe_when_wanted)

    async def _observe_when_wanted(self) -> None:
        await self._is_wanted.wait()
        with suppress(StreamError):  # the next time is not far
            await self._observe()
        await asyncio.sleep(self._every_s)

    async def _observe(self) -> None:
        first, left_out = await self._backend.perform(self._request)
        streams, count = first, len(first) + left_out
        if left_out or any(stream.groups_left_out for stream in first):
            known = Observe(self._request.limit, only=NameFilter(self._names))
            streams = (await self._backend.perform(known)).streams
            streams += [stream for stream in first if stream.name not in self._names]
        streams = self._within_bound(streams)
        self._names = frozenset(stream.name for stream in streams)
        if self._is_wanted.is_set():
            self._news = ObservedStreams(
                self._clock.monotonic_ms(),
                self._valid_ms,
                streams,
                count - len(streams),
                sum(stream.groups_left_out for stream in streams),
            )

    def _within_bound(self, streams: Sequence[ObservedStream]) -> list[ObservedStream]:
        room, taken = self._request.limit, list[ObservedStream]()
        for stream in streams:
            room -= 1 + len(stream.groups)
            if room < 0:
                break
            taken.append(stream)
        return taken


def filter_of(patterns: Sequence[str]) -> NameFilter:
    names = frozenset(each.encode() for each in patterns if not each.endswith("*"))
    prefixes = tuple(each[:-1].encode() for each in patterns if each.endswith("*"))
    return NameFilter(names, prefixes)


class Sampler:
    def __init__(
        self,
        metrics: Metrics,
        loop_delay: LoopDelay,
        *,
        streams: Backend | None,
        waiter_count: Callable[[], int],
        observer: Observer | None = None,
    ) -> None:
        """`streams` and `observer` are None if another process answers for the streams."""
        self._observer = observer
        self._metrics = metrics
        self._loop_delay = loop_delay
        self._streams = streams
        self._waiter_count = waiter_count
        machine.resident_bytes()  # opens what it reads, before there are connections

    def answer_siblings(self, siblings: Siblings) -> None:
        siblings.on_question(SAMPLE, partial(self._answer, siblings.number))

    def _answer(self, own_number: int, body: bytes) -> bytes:
        self.observe(is_wanted=decode_observer(body) == own_number)
        return encode_sample(self.take())

    def observe(self, *, is_wanted: bool) -> None:
        if self._observer is not None:
            self._observer.want(is_wanted=is_wanted)

    async def run(self) -> None:
        if self._observer is not None:
            await self._observer.run()

    def take(self) -> Sample:
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
    """Return what any process has: its memory and CPU time."""
    present = {"process_bytes": float(machine.resident_bytes())}
    return Sample({series.CPU: time.process_time()}, present, {}, {})


# Measuring: what measures in one process, and what the processes share of it.

_WITHIN_S: Final = 5.0


class SharedHistory:
    def __init__(self, siblings: Siblings) -> None:
        self._siblings = siblings

    async def read(self, question: HistoryQuestion) -> HistoryPart:
        body = encode_question(question)
        answers = await self._siblings.gather(HISTORY, body, within_s=_WITHIN_S)
        if not answers or not answers[0]:
            raise Unavailable("the other processes of the gateway do not answer")
        return decode_answer(answers[0])


class Measuring:
    """Measures this process. If it is the only one, it keeps the history as well."""

    def __init__(
        self, sampler: Sampler, metrics: Metrics, clock: Clock, siblings: Siblings | None
    ) -> None:
        self.history: HistoryReader
        self._sampler = sampler
        self._recorder: Recorder | None = None
        if siblings is not None:
            sampler.answer_siblings(siblings)
            self.history = SharedHistory(siblings)
            return
        self.history = self._recorder = recorder = Recorder(self._own_sample, clock)
        metrics.observed.register(Collected(lambda: observed_families(recorder.observed)))
        sampler.observe(is_wanted=True)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._sampler.run())
            if self._recorder is not None:
                tasks.create_task(self._recorder.run())

    async def _own_sample(self) -> Mapping[int, Sample]:
        return {0: self._sampler.take()}
