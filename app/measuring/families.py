"""Observed streams and groups as Prometheus metrics.

Labels have the names of OpenTelemetry's attributes for messaging, with `_` in place of a dot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from heapq import nlargest
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headgate.app.measuring.series import ObservedStreams
from headgate.app.wire.names import text_of
from headgate.engine.limits import LONGEST_WAITS
from headgate.engine.replies import ObservedGroup, ObservedStream

_STREAM: Final = ["messaging_destination_name"]
_GROUP: Final = [*_STREAM, "messaging_consumer_group_name"]

_STREAM_GAUGES: Final = {
    "entries": ("length", "Entries in the stream."),
    "bytes": ("hot_bytes", "Estimated memory of the entries."),
    "cold_bytes": ("cold_bytes", "Estimated size of entries that are only on disk."),
    "archived_entries": ("archived_count", "Trimmed entries that stay readable in the archive."),
}
"""By the end of a metric's name: the attribute of what was observed, and the text."""

_STREAM_COUNTERS: Final = {
    "appended_entries": ("added_count", "Entries appended, over the whole life of the stream.")
}

_GROUP_GAUGES: Final = {
    "lag_entries": ("lag", "Entries that the group has yet to deliver."),
    "pending_entries": ("pending_count", "Entries delivered but not acknowledged."),
    "delayed_entries": ("delayed_count", "Pending entries that wait for a delay."),
    "verdict": ("severity", "Whether the group needs attention: 0 no, 1 warning, 2 critical."),
    "oldest_pending_seconds": (
        "oldest_pending_ms",
        "Time since the last delivery of the entry that has been held the longest.",
    ),
}

_GROUP_COUNTERS: Final = {
    "delivered_entries": ("delivered_count", "Entries delivered for the first time."),
    "redelivered_entries": ("redelivered_count", "Entries delivered again."),
    "passed_entries": ("passed_count", "Entries that the filters of the group skipped."),
    "expired_entries": (
        "expired_count",
        "Entries that were not delivered (again) because their deadline had passed.",
    ),
    "acknowledged_entries": ("acked_count", "Entries acknowledged."),
    "dead_letter_entries": ("dead_letter_count", "Entries moved to the dead letter stream."),
}


def _longest_waits(groups: Sequence[tuple[list[str], ObservedGroup]]) -> Metric:
    """Return the longest waits of keys of fair groups: so few that the labels stay few."""
    family = GaugeMetricFamily(
        "headgate_group_key_wait_seconds",
        f"Age of the first waiting entry of the {LONGEST_WAITS} keys that have waited the longest.",
        labels=[*_GROUP, "headgate_key"],
    )
    waits = [
        (wait_ms, [*labels, "" if key is None else text_of(key)])
        for labels, group in groups
        for key, wait_ms in group.waits
    ]
    for wait_ms, labels in nlargest(LONGEST_WAITS, waits):
        family.add_metric(labels, wait_ms / 1000)
    return family


def observed_families(observed: ObservedStreams) -> Iterator[Metric]:
    streams: list[tuple[list[str], ObservedStream]] = []
    groups: list[tuple[list[str], ObservedGroup]] = []
    for stream in observed.streams:
        name = text_of(stream.name)
        streams.append(([name], stream))
        groups += [([name, text_of(group.name)], group) for group in stream.groups]
    of_streams, of_groups = (
        partial(_families, "stream", _STREAM),
        partial(_families, "group", _GROUP),
    )
    yield from of_streams(GaugeMetricFamily, _STREAM_GAUGES, streams)
    yield from of_streams(CounterMetricFamily, _STREAM_COUNTERS, streams)
    yield from of_groups(GaugeMetricFamily, _GROUP_GAUGES, groups)
    yield from of_groups(CounterMetricFamily, _GROUP_COUNTERS, groups)
    yield _longest_waits(groups)
    yield GaugeMetricFamily(
        "headgate_unobserved_streams",
        "Streams to be observed that exceed the limit.",
        observed.streams_left_out,
    )
    yield GaugeMetricFamily(
        "headgate_unobserved_groups",
        "Groups of observed streams that exceed the limit.",
        observed.groups_left_out,
    )


def _families(
    kind: str,
    labels: list[str],
    family_of: type[CounterMetricFamily | GaugeMetricFamily],
    measures: Mapping[str, tuple[str, str]],
    observed: Sequence[tuple[list[str], Any]],
) -> Iterator[Metric]:
    for name, (attribute, text) in measures.items():
        family = family_of(f"headgate_{kind}_{name}", text, None, labels)
        for values, subject in observed:
            value = getattr(subject, attribute)
            if value is not None:
                family.add_metric(values, value / 1000 if attribute.endswith("_ms") else value)
        yield family
