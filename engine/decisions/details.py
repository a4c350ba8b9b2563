"""Details: the groups of a stream with their contents (XINFO STREAM FULL), or as measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from headgate.engine.decisions.groups import consumer_info, group_info
from headgate.engine.decisions.names.name_ranges import (
    NameRange,
    beginning_with,
    following,
    shown_by,
)
from headgate.engine.decisions.pending import pending_item
from headgate.engine.limits import OBSERVED_AT_ONCE_MAX
from headgate.engine.replies import GroupDetail, Observation, ObservedGroup, ObservedStream
from headgate.engine.requests.streams import DetailStream, Observe
from headgate.engine.state.group import Group
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.stream import Stream


def group_details(keyspace: Keyspace, request: DetailStream, now_ms: int) -> list[GroupDetail]:
    """Describe the groups of a stream, with their pending entries and consumers.

    `described_max` bounds everything together: first all groups, then the contents of each group in
    order, until the bound is reached.

    Raises:
        StreamNotFound: the stream does not exist.
    """
    stream, steady_ms = keyspace.stream(request.stream), keyspace.steady_ms(now_ms)
    details, left = [], request.described_max
    groups = list(islice(stream.groups.values(), left))
    left = _without(left, groups)
    for group in groups:
        info = group_info(stream, group)
        if left == 0:
            details.append(GroupDetail(info, [], []))
            continue
        pending = islice(group.pel.walk(), _smaller(request.count, left))
        items = [pending_item(group.pel, each, steady_ms) for each in pending]
        left = _without(left, items)
        consumers = islice(group.consumers.values(), left)
        infos = [consumer_info(each, steady_ms) for each in consumers]
        left = _without(left, infos)
        details.append(GroupDetail(info, items, infos))
    return details


def _smaller(count: int | None, left: int | None) -> int | None:
    return left if count is None else count if left is None else min(count, left)


def _without(left: int | None, taken: Sequence[object]) -> int | None:
    return None if left is None else left - len(taken)


def observed(keyspace: Keyspace, request: Observe, now_ms: int) -> Observation:
    """Measure streams by name, and the groups of each: as many as a turn has time for."""
    steady_ms = keyspace.steady_ms(now_ms)
    measured: list[ObservedStream] = []
    after, room = request.after, request.limit
    for name in _observed_names(keyspace, request):
        if room <= max(request.limit - OBSERVED_AT_ONCE_MAX, 0):
            break
        stream = _observed_stream(keyspace.streams[name], room - 1, steady_ms)
        measured.append(stream)
        after, room = name, room - 1 - len(stream.groups)
    left_out = sum(len(names.places(keyspace)) for names in _observed_ranges(request, after))
    return Observation(measured, left_out)


def _observed_names(keyspace: Keyspace, request: Observe) -> Iterator[bytes]:
    for names in _observed_ranges(request, request.after):
        yield from names.among(keyspace)


def _observed_ranges(request: Observe, after: bytes | None) -> Iterator[NameRange]:
    asked = beginning_with(b"") if after is None else NameRange(following(after), None)
    for shown in shown_by(request.only):
        names = shown.within(asked)
        if names is not None:
            yield names


def _observed_stream(stream: Stream, groups_max: int, steady_ms: int) -> ObservedStream:
    groups = list(islice(stream.groups.values(), groups_max))
    return ObservedStream(
        name=stream.name,
        length=stream.log.length,
        hot_bytes=stream.log.memory_bytes,
        cold_bytes=stream.log.extents.size_bytes,
        added_count=stream.entries_added,
        groups=[_observed_group(stream, group, steady_ms) for group in groups],
        groups_left_out=len(stream.groups) - len(groups),
        archived_count=0 if stream.archive is None else stream.archive.length,
    )


def _observed_group(stream: Stream, group: Group, steady_ms: int) -> ObservedGroup:
    oldest, activity = group.pel.longest_held(), group.activity
    return ObservedGroup(
        name=group.name,
        lag=stream.lag(group.last_id, group.entries_read),
        pending_count=len(group.pel),
        delayed_count=group.pel.delayed_count,
        oldest_pending_ms=0 if oldest is None else oldest.idle_ms(steady_ms),
        delivered_count=activity.delivered_count,
        redelivered_count=activity.redelivered_count,
        passed_count=activity.passed_count,
        expired_count=activity.expired_count,
        acked_count=activity.acked_count,
        dead_letter_count=activity.dead_letter_count,
    )
