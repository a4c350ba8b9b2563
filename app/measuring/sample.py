"""Sample: the counts of one process since its start, and its present values.

Samples of several processes are added: counts by how much each has grown since the sample before,
so that a process that ends takes nothing away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Self

import msgspec

from headgate.engine.replies import ObservedStream

SAMPLE: Final = "sample"
"""Topic of the question for it."""


class ObservedStreams(msgspec.Struct, array_like=True):
    """Streams and groups as they were observed."""

    at_ms: int  # on the clock of durations
    valid_ms: int  # for so long it holds, if nothing newer comes
    streams: list[ObservedStream]
    streams_left_out: int
    groups_left_out: int  # of these streams


class Sample(msgspec.Struct, array_like=True):
    """The sample of one process."""

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
    """The sum of all processes: their growth between two moments, their present values."""

    counts: dict[str, float]
    present: dict[str, float]
    peaks: dict[str, float]
    times: dict[str, list[int]]

    @classmethod
    def between(cls, before: Mapping[int, Sample], now: Mapping[int, Sample]) -> Self:
        """Return the sum over processes, each by its number. A new one has begun at zero."""
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
