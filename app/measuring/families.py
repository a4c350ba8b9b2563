"""Observed streams and groups as Prometheus metrics.

Labels have the names of OpenTelemetry's attributes for messaging, with `_` in place of a dot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headgate.app.measuring.series import ObservedStreams
from headgate.app.wire.names import text_of
from headgate.engine.replies import ObservedGroup, ObservedStream

_STREAM: Final = ["messaging_destination_name"]
_GROUP: Final = [*_STREAM, "messaging_consumer_group_name"]

_Family = type[CounterMetricFamily] | type[GaugeMetricFamily]


class _Measure(NamedTuple):
    family: _Family
    name: str
    text: str
    value: Callable[[Any], float | None]


def _seconds(group: ObservedGroup) -> float | None:
    return None if group.oldest_pending_ms is None else group.oldest_pending_ms / 1000


_OF_STREAM: Final = (
    _Measure(
        GaugeMetricFamily,
        "headgate_stream_entries",
        "Entries in the stream.",
        lambda stream: stream.length,
    ),
    _Measure(
        GaugeMetricFamily,
        "headgate_stream_bytes",
        "Memory of its entries, estimated.",
        lambda stream: stream.hot_bytes,
    ),
    _Measure(
        GaugeMetricFamily,
        "headgate_stream_cold_bytes",
        "Size of its entries that are on disk alone, estimated.",
        lambda stream: stream.cold_bytes,
    ),
    _Measure(
        GaugeMetricFamily,
        "headgate_stream_archived_entries",
        "Entries that were trimmed and stay readable in its archive.",
        lambda stream: stream.archived_count,
    ),
    _Measure(
        CounterMetricFamily,
        "headgate_stream_appended_entries",
        "Entries appended, over the whole life of the stream.",
        lambda stream: stream.added_count,
    ),
)

_OF_GROUP: Final = (
    _Measure(
        GaugeMetricFamily,
        "headgate_group_lag_entries",
        "Entries that the group has still to be given.",
        lambda group: group.lag,
    ),
    _Measure(
        GaugeMetricFamily,
        "headgate_group_pending_entries",
        "Entries delivered and not acknowledged.",
        lambda group: group.pending_count,
    ),
    _Measure(
        GaugeMetricFamily,
        "headgate_group_delayed_entries",
        "Those of them that nobody gets before a time.",
        lambda group: group.delayed_count,
    ),
    _Measure(
        GaugeMetricFamily,
        "headgate_group_oldest_pending_seconds",
        "Time since the last delivery of the entry that a consumer has held longest.",
        _seconds,
    ),
    _Measure(
        CounterMetricFamily,
        "headgate_group_delivered_entries",
        "Entries delivered for the first time.",
        lambda group: group.delivered_count,
    ),
    _Measure(
        CounterMetricFamily,
        "headgate_group_redelivered_entries",
        "Entries delivered again.",
        lambda group: group.redelivered_count,
    ),
    _Measure(
        CounterMetricFamily,
        "headgate_group_passed_entries",
        "Entries that the group's filters did not let through.",
        lambda group: group.passed_count,
    ),
    _Measure(
        CounterMetricFamily,
        "headgate_group_expired_entries",
        "Entries that were not delivered, or not again, as their deadline was over.",
        lambda group: group.expired_count,
    ),
    _Measure(
        CounterMetricFamily,
        "headgate_group_acknowledged_entries",
        "Entries acknowledged.",
        lambda group: group.acked_count,
    ),
    _Measure(
        CounterMetricFamily,
        "headgate_group_dead_letter_entries",
        "Entries moved to the dead letter stream.",
        lambda group: group.dead_letter_count,
    ),
)


def observed_families(observed: ObservedStreams) -> Iterator[Metric]:
    streams: list[tuple[list[str], ObservedStream]] = []
    groups: list[tuple[list[str], ObservedGroup]] = []
    for stream in observed.streams:
        name = text_of(stream.name)
        streams.append(([name], stream))
        groups += [([name, text_of(group.name)], group) for group in stream.groups]
    for measure in _OF_STREAM:
        yield _family(measure, _STREAM, streams)
    for measure in _OF_GROUP:
        yield _family(measure, _GROUP, groups)
    yield GaugeMetricFamily(
        "headgate_unobserved_streams",
        "Streams that are to be observed, and are too many.",
        observed.streams_left_out,
    )
    yield GaugeMetricFamily(
        "headgate_unobserved_groups",
        "Likewise, groups of observed streams.",
        observed.groups_left_out,
    )


def _family(measure: _Measure, names: list[str], observed: list[tuple[list[str], Any]]) -> Metric:
    family = measure.family(measure.name, measure.text, None, names)
    for labels, subject in observed:
        value = measure.value(subject)
        if value is not None:
            family.add_metric(labels, value)
    return family
