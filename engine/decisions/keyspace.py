"""Decisions about the keyspace: requests about all streams, and those only Redis commands make."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice, takewhile

import msgspec

from headgate.engine.commands import (
    AllDeleted,
    Command,
    CountersSet,
    DefaultsSet,
    ExpirySet,
    StreamDeleted,
    StreamRenamed,
)
from headgate.engine.decisions import Decision, Decisions, in_parts
from headgate.engine.decisions.groups import group_info
from headgate.engine.decisions.keys import key_limits
from headgate.engine.decisions.name_ranges import NameRange, shown_by
from headgate.engine.decisions.policies import check_reach
from headgate.engine.decisions.streams import stream_info
from headgate.engine.entry import MAX_ID, MIN_ID, Entry
from headgate.engine.errors import ENTRY_BYTES, CounterTooLow, Invalid, ReplyTooLarge
from headgate.engine.limits import (
    COUNT_MAX,
    DELETED_AT_ONCE_MAX,
    EXPIRED_AT_ONCE_MAX,
    NAME_RANGES_AT_ONCE_MAX,
)
from headgate.engine.replies import (
    ConsumerInspection,
    GroupInspection,
    KeyInfo,
    KeyspaceInfo,
    NamePage,
    PendingInspection,
    StreamDefaults,
    StreamInspection,
)
from headgate.engine.requests.keyspace import (
    ChangeDefaults,
    CountStreams,
    DeleteAll,
    DeleteStreams,
    DescribeKeyspace,
    ExpireStream,
    GetDefaults,
    GetExpiry,
    InspectStream,
    ListNames,
    PersistStream,
    PickName,
    RenameStream,
    RequireGroups,
    ScanNames,
    SetCounters,
    TellTime,
    TimeToLive,
)
from headgate.engine.room import ReadRoom
from headgate.engine.state.group import Group
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.pending import Consumer, PendingEntry
from headgate.engine.state.stream import Stream


def tell_time(keyspace: Keyspace, request: TellTime, now_ms: int) -> Decision[int]:
    del keyspace, request
    return Decision(now_ms, [])


def describe_keyspace(
    keyspace: Keyspace, request: DescribeKeyspace, now_ms: int
) -> Decision[KeyspaceInfo]:
    del request
    left_ms = [at_ms - now_ms for at_ms, _ in keyspace.expiring]
    average_ms = sum(left_ms) // len(left_ms) if left_ms else 0
    return Decision(KeyspaceInfo(now_ms, len(keyspace.streams), len(left_ms), average_ms), [])


def list_names(keyspace: Keyspace, request: ListNames, now_ms: int) -> Decision[list[bytes]]:
    def part(keyspace: Keyspace, ranges: Sequence[NameRange], _: int) -> Decision[list[bytes]]:
        return Decision([name for names in ranges for name in names.among(keyspace)], [])

    if request.only is None:
        return Decision(list(keyspace.streams), [])
    return in_parts(keyspace, now_ms, shown_by(request.only), NAME_RANGES_AT_ONCE_MAX, part)


def scan_names(keyspace: Keyspace, request: ScanNames, now_ms: int) -> Decision[NamePage]:
    return _scan(request, shown_by(request.only), [], 0, keyspace, now_ms)


def _scan(
    request: ScanNames,
    ranges: Sequence[NameRange],
    names: list[bytes],
    passed_count: int,
    keyspace: Keyspace,
    now_ms: int,
) -> Decision[NamePage]:
    del now_ms
    names, end = [*names], request.cursor + request.count
    for shown in ranges[:NAME_RANGES_AT_ONCE_MAX]:
        places = shown.places(keyspace)
        page = places[max(request.cursor - passed_count, 0) : end - passed_count]
        names += keyspace.streams.islice(page.start, page.stop)
        passed_count += len(places)
        if passed_count > end:
            return Decision(NamePage(names, end), [])
    left = ranges[NAME_RANGES_AT_ONCE_MAX:]
    next_part = partial(_scan, request, left, names, passed_count) if left else None
    return Decision(NamePage(names, 0), [], next_part)


def count_streams(keyspace: Keyspace, request: CountStreams, now_ms: int) -> Decision[int]:
    def part(keyspace: Keyspace, ranges: Sequence[NameRange], _: int) -> Decision[int]:
        return Decision(sum(len(names.places(keyspace)) for names in ranges), [])

    if request.streams is not None:
        return Decision(sum(keyspace.find(name) is not None for name in request.streams), [])
    if request.only is None:
        return Decision(len(keyspace.streams), [])
    return in_parts(keyspace, now_ms, shown_by(request.only), NAME_RANGES_AT_ONCE_MAX, part)


def require_groups(keyspace: Keyspace, request: RequireGroups, now_ms: int) -> Decision[None]:
    del now_ms
    for name in request.streams:
        keyspace.group(name, request.group)
    return Decision(None, [])


def delete_streams(keyspace: Keyspace, request: DeleteStreams, now_ms: int) -> Decision[int]:
    def part(keyspace: Keyspace, names: Sequence[bytes], _: int) -> Decision[int]:
        existing = [name for name in dict.fromkeys(names) if keyspace.find(name) is not None]
        return Decision(len(existing), [StreamDeleted(name) for name in existing])

    return in_parts(keyspace, now_ms, request.streams, DELETED_AT_ONCE_MAX, part)


def delete_all(keyspace: Keyspace, request: DeleteAll, now_ms: int) -> Decision[None]:
    del request, now_ms
    return Decision(None, [AllDeleted()] if keyspace.streams else [])


def rename_stream(keyspace: Keyspace, request: RenameStream, now_ms: int) -> Decision[bool]:
    """Decide to rename a stream (RENAME, RENAMENX); reply whether the name was free or given up."""
    del now_ms
    name, to = request.stream, request.to
    keyspace.stream(name)
    if keyspace.find(to) is not None and not request.replace:
        return Decision(False, [])
    if name == to:
        return Decision(True, [])
    check_reach(keyspace.stream(name), to, request.reach)
    replaced: list[Command] = [StreamDeleted(to)] if keyspace.find(to) is not None else []
    return Decision(True, [*replaced, StreamRenamed(name, to)])


def expire_stream(keyspace: Keyspace, request: ExpireStream, now_ms: int) -> Decision[bool]:
    at_ms = now_ms + request.ttl_ms if request.at_ms is None else request.at_ms
    if not -COUNT_MAX - 1 <= at_ms <= COUNT_MAX:
        raise Invalid("the time is out of range", location=("ttl_ms",))
    if not _may_expire(request, keyspace.stream(request.stream).expires_at_ms, at_ms):
        return Decision(False, [])
    if at_ms <= now_ms:
        return Decision(True, [StreamDeleted(request.stream)])
    return Decision(True, _expiry(keyspace, request.stream, at_ms))


def _may_expire(request: ExpireStream, current_ms: int | None, at_ms: int) -> bool:
    if request.if_none:
        return current_ms is None
    if request.if_set and current_ms is None:
        return False
    if request.if_later:
        return current_ms is not None and at_ms > current_ms
    return not request.if_earlier or current_ms is None or at_ms < current_ms


def persist_stream(keyspace: Keyspace, request: PersistStream, now_ms: int) -> Decision[bool]:
    del now_ms
    commands = _expiry(keyspace, request.stream, None)
    return Decision(bool(commands), commands)


def _expiry(keyspace: Keyspace, stream: bytes, at_ms: int | None) -> list[Command]:
    return [] if keyspace.stream(stream).expires_at_ms == at_ms else [ExpirySet(stream, at_ms)]


def time_to_live(keyspace: Keyspace, request: TimeToLive, now_ms: int) -> Decision[int | None]:
    """Reply in how many milliseconds a stream expires (PTTL)."""
    at_ms = keyspace.stream(request.stream).expires_at_ms
    return Decision(None if at_ms is None else max(at_ms - now_ms, 0), [])


def get_expiry(keyspace: Keyspace, request: GetExpiry, now_ms: int) -> Decision[int | None]:
    """Reply with the unix time at which a stream expires (PEXPIRETIME)."""
    del now_ms
    return Decision(keyspace.stream(request.stream).expires_at_ms, [])


def pick_name(keyspace: Keyspace, request: PickName, now_ms: int) -> Decision[bytes | None]:
    def pick(names: Sequence[bytes]) -> bytes | None:
        return names[request.place % len(names)] if names else None

    if request.only is None:
        return Decision(pick(keyspace.streams.keys()), [])
    return list_names(keyspace, ListNames(request.only), now_ms).replied_as(pick)


def set_counters(keyspace: Keyspace, request: SetCounters, now_ms: int) -> Decision[None]:
    del now_ms
    last_id, entries_added = request.last_id, request.entries_added
    stream = keyspace.stream(request.stream)
    if last_id < stream.max_deleted_id:
        raise CounterTooLow("last_id", "max_deleted_id", "the greatest id ever deleted")
    if stream.log.length and last_id < stream.log.last_id:
        raise CounterTooLow("last_id", "newest", "the id of the newest entry")
    if entries_added is not None and stream.log.length > entries_added:
        raise CounterTooLow("entries_added", "length", "the number of entries")
    command = CountersSet(
        request.stream,
        last_id,
        stream.entries_added if entries_added is None else entries_added,
        request.max_deleted_id if request.max_deleted_id != MIN_ID else stream.max_deleted_id,
    )
    return Decision(None, [command])


def get_defaults(keyspace: Keyspace, request: GetDefaults, now_ms: int) -> Decision[StreamDefaults]:
    del request, now_ms
    defaults = keyspace.defaults
    reply = StreamDefaults(
        defaults.node_limits.size_bytes_max,
        defaults.node_limits.entries_max,
        defaults.idempotency_window_ms,
        defaults.idempotency_max,
    )
    return Decision(reply, [])


def change_defaults(keyspace: Keyspace, request: ChangeDefaults, now_ms: int) -> Decision[None]:
    del now_ms
    defaults = keyspace.defaults
    limits, window_ms = defaults.node_limits, request.idempotency_window_ms
    size_bytes_max, entries_max = request.node_bytes_max, request.node_entries_max
    keys_max = request.idempotency_max
    changed = msgspec.structs.replace(
        defaults,
        node_limits=limits._replace(
            size_bytes_max=limits.size_bytes_max if size_bytes_max is None else size_bytes_max,
            entries_max=limits.entries_max if entries_max is None else entries_max,
        ),
        idempotency_window_ms=defaults.idempotency_window_ms if window_ms is None else window_ms,
        idempotency_max=defaults.idempotency_max if keys_max is None else keys_max,
    )
    return Decision(None, [DefaultsSet(changed)] if changed != defaults else [])


def inspect_stream(
    keyspace: Keyspace, request: InspectStream, now_ms: int
) -> Decision[StreamInspection]:
    del now_ms
    stream = keyspace.stream(request.stream)
    entries: list[Entry] = []
    groups: list[GroupInspection] = []
    if request.full:
        count, described_max = request.count, request.described_max
        if _described_count(stream, count, described_max) > described_max:
            raise ReplyTooLarge("things to describe", described_max)
        entries = stream.log.range(MIN_ID, MAX_ID, count, ReadRoom(request.size_bytes_max))
        if len(entries) < min(stream.log.length, described_max if count is None else count):
            raise ReplyTooLarge(ENTRY_BYTES, request.size_bytes_max or 0)
        groups = [
            _inspected_group(keyspace, stream, each, count) for each in stream.groups.values()
        ]
    window_ms, keys_max = key_limits(keyspace, stream.config)
    keys = stream.keys
    inspection = StreamInspection(
        stream_info(keyspace, request.stream),
        KeyInfo(window_ms, keys_max, len(keys.by_producer), len(keys), keys.added, keys.duplicates),
        stream.log.first(),
        stream.log.last(),
        entries,
        groups,
    )
    return Decision(inspection, [])


def _described_count(stream: Stream, count: int | None, described_max: int) -> int:
    """Return how many things FULL describes; maybe too low if above `described_max`."""
    count = described_max + 1 if count is None else count
    total = min(stream.log.length, count) + len(stream.groups)
    for group in stream.groups.values():
        total += min(len(group.pel), count) + len(group.consumers)
        if total > described_max:
            break
        total += sum(min(len(consumer.pending), count) for consumer in group.consumers.values())
    return total


def _inspected_group(
    keyspace: Keyspace, stream: Stream, group: Group, count: int | None
) -> GroupInspection:
    return GroupInspection(
        group_info(keyspace, stream, group),
        [_inspected(keyspace, pending) for pending in islice(group.pel.walk(), count)],
        [_inspected_consumer(keyspace, each, count) for each in group.consumers.values()],
    )


def _inspected_consumer(
    keyspace: Keyspace, consumer: Consumer, count: int | None
) -> ConsumerInspection:
    active_at_ms = consumer.active_at_ms
    return ConsumerInspection(
        consumer.name,
        keyspace.wall_ms(consumer.seen_at_ms),
        None if active_at_ms is None else keyspace.wall_ms(active_at_ms),
        len(consumer.pending),
        [_inspected(keyspace, pending) for pending in islice(consumer.pending.walk(), count)],
    )


def _inspected(keyspace: Keyspace, pending: PendingEntry) -> PendingInspection:
    owner = pending.owner
    at_ms = 0 if owner is None else max(keyspace.wall_ms(pending.delivered_at_ms), 0)
    name = None if owner is None else owner.name
    return PendingInspection(pending.id, name, at_ms, pending.delivery_count)


def expire(keyspace: Keyspace, now_ms: int) -> Decision[None]:
    """Decide to delete streams whose expiry time has passed, the earliest first, some at a time."""
    over = takewhile(lambda expiry: expiry[0] <= now_ms, keyspace.expiring)
    return Decision(None, [StreamDeleted(name) for _, name in islice(over, EXPIRED_AT_ONCE_MAX)])


DECISIONS: Decisions = {
    TellTime: tell_time,
    DescribeKeyspace: describe_keyspace,
    ListNames: list_names,
    ScanNames: scan_names,
    CountStreams: count_streams,
    RequireGroups: require_groups,
    InspectStream: inspect_stream,
    DeleteStreams: delete_streams,
    DeleteAll: delete_all,
    RenameStream: rename_stream,
    ExpireStream: expire_stream,
    PersistStream: persist_stream,
    TimeToLive: time_to_live,
    GetExpiry: get_expiry,
    PickName: pick_name,
    SetCounters: set_counters,
    GetDefaults: get_defaults,
    ChangeDefaults: change_defaults,
}
