"""Families: metrics that are made when somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import accumulate

from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from headgate.engine.buckets import Buckets


class Collected(Collector):
    """Metrics that a function returns."""

    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        """Call `collect` whenever metrics are asked for."""
        self._collect = collect

    def collect(self) -> Iterable[Metric]:
        """Return the metrics of now."""
        return self._collect()


def histogram_of(buckets: Buckets) -> tuple[list[tuple[str, float]], float]:
    """Return the cumulated buckets of a histogram, and the sum of its values."""
    bounds = [*map(floatToGoString, buckets.bounds), "+Inf"]
    return list(zip(bounds, accumulate(buckets.counts), strict=True)), buckets.total
