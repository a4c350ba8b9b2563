"""Families: metrics that are made when somebody asks for them, and those of every process."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.metadata import version
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from headgate.app.runtime import machine
from headgate.app.runtime.periodic import failure_families
from headgate.engine.buckets import Buckets

BUILD = "headgate_build_info"


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


@cache
def versions() -> tuple[str, str]:
    """Return the versions of Headgate and of Python. The first time this reads files."""
    return version("headgate"), platform.python_version()


def process_families() -> Iterator[Metric]:
    """Yield the metrics of any process, under the names of Prometheus."""
    yield CounterMetricFamily(
        "process_cpu_seconds", "Time of the processor, user and system.", time.process_time()
    )
    yield GaugeMetricFamily(
        "process_resident_memory_bytes", "Resident memory.", machine.resident_bytes()
    )
    build = GaugeMetricFamily(
        BUILD, "1; the labels say what runs.", None, ["version", "python_version"]
    )
    build.add_metric(versions(), 1)
    yield build
    yield from failure_families()
