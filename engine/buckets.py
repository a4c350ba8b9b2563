"""Buckets: counts of values by size, for histograms."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence


class Buckets:
    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        """Begin at zero; `bounds` are the largest values of all buckets but the last."""
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def note(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 60)
"""Bounds for times."""

COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000, 20_000)
"""Bounds for numbers of things that are done together."""
