"""Combines the metrics of several processes for `/metrics`.

Counters and histograms are added, and stay when a process has ended: a sum that falls would look
like a restart of the gateway. Gauges of running processes are added, except those where only the
maximum is meaningful.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric

from headgate.app.runtime.telemetry import BUILD, Collected

METRICS: Final = "metrics"
"""Topic of the question for what a process has counted, or the whole gateway."""

_LARGEST: Final = frozenset(
    {"headgate_loop_delay_longest_seconds", "headgate_memory_bytes_max", BUILD}
)
"""Gauges that are not added."""

_LASTING: Final = frozenset({"counter", "histogram"})
"""Types that count from the start on."""

_CREATED = "_created"
"""End of the name of the sample with the start of counting: the earliest holds."""

Labels = tuple[tuple[str, str], ...]


class Family(msgspec.Struct, array_like=True):
    """A metric with a value for each combination of sample and labels."""

    name: str
    text: str
    type: str
    samples: dict[str, list[tuple[Labels, float]]]


Families = list[Family]

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Families).decode


def families_of(registry: CollectorRegistry) -> Families:
    families = []
    for metric in registry.collect():
        family = Family(metric.name, metric.documentation, metric.type, {})
        for sample in metric.samples:
            values = family.samples.setdefault(sample.name, [])
            values.append((tuple(sample.labels.items()), float(sample.value)))
        families.append(family)
    return families


class Sums:
    def __init__(self) -> None:
        self._latest: dict[int, Families] = {}
        self._ended: Families = []

    def note(self, process: int, families: Families) -> None:
        self._latest[process] = families

    def end(self, process: int) -> None:
        families = self._latest.pop(process, None)
        if families is not None:
            lasting = [family for family in families if family.type in _LASTING]
            self._ended = added([self._ended, lasting])

    def total(self, own: Families) -> Families:
        return added([own, self._ended, *self._latest.values()])


def added(parts: Iterable[Families]) -> Families:
    families: dict[str, Family] = {}
    values: dict[str, dict[str, dict[Labels, float]]] = {}
    for family in (family for part in parts for family in part):
        families.setdefault(family.name, family)
        sums = values.setdefault(family.name, {})
        for sample, labelled in family.samples.items():
            into = sums.setdefault(sample, {})
            for labels, value in labelled:
                before = into.get(labels)
                into[labels] = value if before is None else _merged(sample, before, value)
    return [
        Family(
            name,
            family.text,
            family.type,
            {sample: list(sums.items()) for sample, sums in values[name].items()},
        )
        for name, family in families.items()
    ]


def _merged(sample: str, before: float, value: float) -> float:
    if sample.endswith(_CREATED):
        return min(before, value)
    if sample in _LARGEST:
        return max(before, value)
    return before + value


def text_of(families: Families) -> bytes:
    registry = CollectorRegistry()
    registry.register(Collected(lambda: map(_metric, families)))
    return generate_latest(registry)


def _metric(family: Family) -> Metric:
    metric = Metric(family.name, family.text, family.type)
    for sample, values in family.samples.items():
        for labels, value in values:
            metric.add_sample(sample, dict(labels), value)
    return metric
