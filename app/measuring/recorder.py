"""Keeps the history of the gateway, of its streams and of its groups.

It collects a sample of each process once a second. A gateway has one recorder: in its only process,
or in the supervisor.
"""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from math import isnan, nan
from typing import Final, NamedTuple, Protocol

import msgspec

from headgate.app.measuring import series
from headgate.app.measuring.series import NOTHING, ObservedStreams, Sample, SampleGrowth, Values
from headgate.app.runtime import periodic
from headgate.engine.clock import Clock
from headgate.engine.replies import ObservedGroup, ObservedStream
from headgate.engine.threads import this_turn

# History: the last quarter of an hour by seconds, and the last day by minutes, of one subject.
#
# A row of a minute has the mean of its seconds, or their maximum where a mean would hide what
# people look for: how long something took or waited.

_DIGITS = 3


class DatedRows(NamedTuple):
    """Rows with their times (unix ms) and a value for each name; NaN means unknown."""

    times_ms: list[int]
    series: dict[str, list[float]]


class Table:
    """Rows in order of time. A value takes eight bytes, and so does the time of a row."""

    def __init__(self, names: Iterable[str], rows_max: int) -> None:
        self._rows_max = rows_max
        self._times = array("d")  # exact for times in milliseconds
        self._columns = {name: array("d") for name in names}
        self._first = 0  # the place of the oldest row

    def add(self, time_ms: int, values: Mapping[str, float | None]) -> None:
        """Append a row; a column without a value is unknown."""
        place = None
        if len(self._times) == self._rows_max:
            place, self._first = self._first, (self._first + 1) % self._rows_max
        _put(self._times, place, time_ms)
        for name, column in self._columns.items():
            value = values.get(name)
            _put(column, place, nan if value is None else round(value, _DIGITS))

    def after(self, after_ms: int) -> DatedRows:
        times = self._in_order(self._times)
        start = bisect_right(times, after_ms)
        series = {name: self._in_order(each)[start:] for name, each in self._columns.items()}
        return DatedRows(
            list(map(int, times[start:])), {name: each.tolist() for name, each in series.items()}
        )

    def _in_order(self, column: array[float]) -> array[float]:
        return column[self._first :] + column[: self._first] if self._first else column


def _put(column: array[float], place: int | None, value: float) -> None:
    if place is None:
        column.append(value)
    else:
        column[place] = value


def mean(values: Iterable[float]) -> float | None:
    known = [value for value in values if not isnan(value)]
    return sum(known) / len(known) if known else None


def largest(values: Iterable[float]) -> float | None:
    return max((value for value in values if not isnan(value)), default=None)


SECONDS_KEPT: Final = 15 * 60
MINUTES_KEPT: Final = 24 * 60


class Step(StrEnum):
    """The distance between the rows of a history."""

    SECOND = "second"
    MINUTE = "minute"

    @property
    def duration_ms(self) -> int:
        return 1000 if self is Step.SECOND else 60_000


class History:
    """The history of one subject; minutes have the maximum of the series in `largest_of`."""

    def __init__(self, names: Iterable[str], largest_of: frozenset[str] = frozenset()) -> None:
        names = tuple(names)
        self._largest_of = largest_of
        self._tables = {
            Step.SECOND: Table(names, SECONDS_KEPT),
            Step.MINUTE: Table(names, MINUTES_KEPT),
        }
        self._latest_ms = 0

    def add(self, time_ms: int, values: Mapping[str, float | None]) -> None:
        """Add values, to the second. A time that does not advance is moved forward."""
        second_ms, minute_ms = (step.duration_ms for step in Step)
        latest_ms = self._latest_ms
        time_ms = max(time_ms - time_ms % second_ms, latest_ms + second_ms)
        minute_end_ms = latest_ms - latest_ms % -minute_ms  # rows up to there are of one minute
        if latest_ms and time_ms > minute_end_ms:
            self._end_minute(minute_end_ms)
        self._latest_ms = time_ms
        self._tables[Step.SECOND].add(time_ms, values)

    def after(self, after_ms: int, step: Step) -> DatedRows:
        return self._tables[step].after(after_ms)

    def _end_minute(self, end_ms: int) -> None:
        seconds = self._tables[Step.SECOND].after(end_ms - Step.MINUTE.duration_ms)
        values = {
            name: (largest if name in self._largest_of else mean)(column)
            for name, column in seconds.series.items()
        }
        self._tables[Step.MINUTE].add(end_ms, values)


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


encode_question = msgspec.msgpack.Encoder().encode
decode_question = msgspec.msgpack.Decoder(HistoryQuestion).decode
encode_answer = msgspec.msgpack.Encoder().encode
decode_answer = msgspec.msgpack.Decoder(HistoryPart).decode


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
