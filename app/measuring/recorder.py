"""Keeps the history of the gateway, of its streams and of its groups.

It collects a sample of each process once a second. A gateway has one recorder: in its only process,
or in the supervisor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final, Protocol

import msgspec

from headgate.app.measuring import series
from headgate.app.measuring.history import History, Step
from headgate.app.measuring.series import NOTHING, ObservedStreams, Sample, SampleGrowth, Values
from headgate.app.runtime import periodic
from headgate.engine.clock import Clock
from headgate.engine.replies import ObservedGroup, ObservedStream
from headgate.engine.threads import this_turn

HISTORY: Final = "history"
"""Topic of the question for a part of it."""

_BEHIND_S: Final = 0.01
"""A timer may fire a little early: without this there would be two rows of a second then."""

_NEW_STREAM: Final = ObservedStream(b"", 0, None, None, 0, [], 0)
_NEW_GROUP: Final = ObservedGroup(b"", None, 0, 0, 0, 0, 0, 0, 0, 0, 0)

Subject = tuple[bytes, bytes | None]
"""A stream, or a group of it."""


class HistoryQuestion(msgspec.Struct, frozen=True, array_like=True):
    step: Step
    after_ms: int
    stream: bytes | None = None  # None: the gateway
    group: bytes | None = None  # None: the stream itself


class HistoryPart(msgspec.Struct, array_like=True):
    """A part of the history: a value per time and series; NaN means unknown."""

    step_ms: int
    times_ms: list[int]
    series: dict[str, list[float]]
    is_observed: bool


class HistoryReader(Protocol):
    async def read(self, question: HistoryQuestion) -> HistoryPart:
        """Raise Unavailable if the process that has the history does not answer."""
        ...


class _Observed:
    __slots__ = ("history", "values")

    def __init__(self, subject: Subject) -> None:
        is_stream = subject[1] is None
        names = series.STREAM if is_stream else series.GROUP
        self.history = History(names, frozenset() if is_stream else series.GROUP_LARGEST)
        self.values: Values = {}


class Recorder:
    def __init__(self, gather: Callable[[], Awaitable[Mapping[int, Sample]]], clock: Clock) -> None:
        """`gather` returns a sample of each process by its number."""
        self.observed = NOTHING  # the last that is known
        self._gather = gather
        self._clock = clock
        self._samples: Mapping[int, Sample] | None = None
        self._at_ms = 0  # on the clock of durations, when they were taken
        self._gateway = History(series.GATEWAY, series.GATEWAY_LARGEST)
        self._subjects: dict[Subject, _Observed] = {}

    async def run(self) -> None:
        """Record until cancelled, slightly after the start of each second."""
        await periodic.repeat("history recorded", self._record_next)

    async def _record_next(self) -> None:
        await asyncio.sleep(1 + _BEHIND_S - self._clock.wall_ms() % 1000 / 1000)
        await self.record()

    async def record(self) -> None:
        samples = await self._gather()
        time_ms, at_ms = self._clock.wall_ms(), self._clock.monotonic_ms()
        before, over_ms = self._samples, at_ms - self._at_ms
        self._samples, self._at_ms = samples, at_ms
        if before is not None and over_ms > 0:
            growth = SampleGrowth.between(before, samples)
            self._gateway.add(time_ms, series.of_gateway(growth, over_ms / 1000))
        for sample in samples.values():
            if sample.observed is not None:
                self._note(sample.observed)
        if at_ms > self.observed.at_ms + self.observed.valid_ms:
            self._forget_values()
        turn = this_turn()
        for subject in list(self._subjects.values()):
            subject.history.add(time_ms, subject.values)
            await turn.pause()

    async def read(self, question: HistoryQuestion) -> HistoryPart:
        return self.answer(question)

    def answer(self, question: HistoryQuestion) -> HistoryPart:
        step, after_ms = question.step, question.after_ms
        if question.stream is None:
            return HistoryPart(
                step.duration_ms, *self._gateway.after(after_ms, step), is_observed=True
            )
        subject = self._subjects.get((question.stream, question.group))
        if subject is None:
            names = series.STREAM if question.group is None else series.GROUP
            return HistoryPart(
                step.duration_ms, [], {name: [] for name in names}, is_observed=False
            )
        columns = subject.history.after(after_ms, step)
        return HistoryPart(step.duration_ms, *columns, is_observed=True)

    def _note(self, observed: ObservedStreams) -> None:
        """Take an observation, and forget the subjects that it lacks."""
        before = dict(_measures(self.observed))
        had_all = self.observed is not NOTHING and not (
            self.observed.streams_left_out or self.observed.groups_left_out
        )
        apart_ms = observed.at_ms - self.observed.at_ms
        self.observed = observed
        subjects: dict[Subject, _Observed] = {}
        for subject, now in _measures(observed):
            kept = self._subjects.get(subject) or _Observed(subject)
            earlier = before.get(subject)
            if earlier is None and had_all:  # it was not there, so that it has begun at zero
                earlier = _NEW_STREAM if isinstance(now, ObservedStream) else _NEW_GROUP
            kept.values = _values_of(now, earlier, apart_ms / 1000)
            subjects[subject] = kept
        self._subjects = subjects

    def _forget_values(self) -> None:
        self.observed = NOTHING
        for subject in self._subjects.values():
            subject.values = {}


def _measures(
    observed: ObservedStreams,
) -> Iterator[tuple[Subject, ObservedStream | ObservedGroup]]:
    for stream in observed.streams:
        yield (stream.name, None), stream
        for group in stream.groups:
            yield (stream.name, group.name), group


def _values_of(
    now: ObservedStream | ObservedGroup,
    before: ObservedStream | ObservedGroup | None,
    over_s: float,
) -> Values:
    if isinstance(now, ObservedStream):
        earlier = before if isinstance(before, ObservedStream) else None
        return series.of_stream(now, earlier, over_s)
    return series.of_group(now, before if isinstance(before, ObservedGroup) else None, over_s)
