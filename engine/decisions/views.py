"""Views: questions that change nothing. State and the clock's reading in, a reply out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeVar, cast

from sortedcontainers import SortedDict

from headgate.engine.decisions import Decision
from headgate.engine.entry import MAX_ID, MIN_ID
from headgate.engine.limits import DESCRIBED_MAX, PENDING_SCAN_MAX
from headgate.engine.replies import (
    ConsumerInfo,
    Gap,
    GroupDetail,
    GroupInfo,
    PendingItem,
    PendingSummary,
    StreamInfo,
    StreamRead,
)
from headgate.engine.requests import From, PendingRequest, StreamCursor
from headgate.engine.state.group import Group
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.ordered import OrderedView
from headgate.engine.state.pending import Consumer, Pel, PendingEntry
from headgate.engine.state.read_room import ReadRoom
from headgate.engine.state.stream import Stream

T = TypeVar("T")


def read(
    keyspace: Keyspace,
    cursors: Sequence[StreamCursor],
    *,
    limit: int | None,
    size_bytes_max: int | None,
    missing_ok: bool,
) -> list[StreamRead]:
    """Read after each cursor (XREAD); one `StreamRead` per cursor, empty or not.

    Args:
        keyspace: all streams.
        cursors: where to read. `From.NOW` must have been frozen by `freeze` to wait on.
        limit: entries per stream at most; None is all.
        size_bytes_max: names and values of all streams at most, each of which has its share; the
            first entry comes whatever its size, and others while something is left.
        missing_ok: read a missing stream as an empty one, as Redis does.

    Raises:
        StreamNotFound: a stream is missing and `missing_ok` is false.
    """
    found = list[StreamRead]()
    left, share = ReadRoom(size_bytes_max), ReadRoom(size_bytes_max).share(len(cursors))
    for cursor in cursors:
        stream = keyspace.find(cursor.stream) if missing_ok else keyspace.stream(cursor.stream)
        is_over = left.is_spent and any(one.entries for one in found)
        room = share.share(1)
        found.append(_read_one(stream, cursor, 0 if is_over else limit, room))
        left.take_what_went(share, room)
    return found


def freeze(keyspace: Keyspace, cursors: Sequence[StreamCursor]) -> list[StreamCursor]:
    """Replace "from now on" by the last id there is now, so that a wait keeps its place."""
    frozen = []
    for name, after in cursors:
        if after is From.NOW:
            stream = keyspace.find(name)
            frozen.append(StreamCursor(name, MIN_ID if stream is None else stream.last_id))
        else:
            frozen.append(StreamCursor(name, after))
    return frozen


def streams(keyspace: Keyspace, *, prefix: bytes, after: bytes | None, limit: int) -> list[bytes]:
    """Return up to `limit` names that start with `prefix`, in byte order, above `after`."""
    start = prefix if after is None else max(prefix, after)
    names: Iterator[bytes] = keyspace.streams.irange(start, inclusive=(after is None, True))
    if after is not None and after < prefix:
        names = keyspace.streams.irange(prefix)
    found: list[bytes] = []
    for name in names:
        if not name.startswith(prefix) or len(found) == limit:
            break
        found.append(name)
    return found


def stream_info(keyspace: Keyspace, name: bytes) -> StreamInfo:
    """Describe a stream (XINFO STREAM).

    Raises:
        StreamNotFound: there is none.
    """
    stream = keyspace.stream(name)
    return StreamInfo(
        name=name,
        epoch=stream.epoch,
        config=stream.config,
        length=stream.log.length,
        chunk_count=stream.log.chunk_count,
        first_id=stream.log.first_id,
        last_id=stream.last_id,
        max_deleted_id=stream.max_deleted_id,
        trimmed_through=stream.trimmed_through,
        entries_added=stream.entries_added,
        group_count=len(stream.groups),
    )


def group_details(
    keyspace: Keyspace, name: bytes, *, count: int | None, described_max: int | None, now_ms: int
) -> list[GroupDetail]:
    """Describe the groups of a stream and all below them (XINFO STREAM FULL).

    Args:
        keyspace: all streams.
        name: the stream.
        count: pending entries of each group to list; None is all.
        described_max: groups, pending entries and consumers together; None is all. The groups come
            first, then what is in the first of them.
        now_ms: unix time.

    Raises:
        StreamNotFound: there is none.
    """
    stream, steady_ms = keyspace.stream(name), keyspace.steady_ms(now_ms)
    details, left = [], described_max
    described = list(islice(stream.groups.values(), left))
    left = _less(left, described)
    for group in described:
        if left == 0:
            details.append(GroupDetail(_group_info(stream, group), [], []))
            continue
        pending = islice(group.pel.walk(), _least(count, left))
        items = [_item(one, steady_ms) for one in pending]
        left = _less(left, items)
        consumers = islice(group.consumers.values(), left)
        infos = [_consumer_info(one, steady_ms) for one in consumers]
        left = _less(left, infos)
        details.append(GroupDetail(_group_info(stream, group), items, infos))
    return details


def groups(
    keyspace: Keyspace, name: bytes, after: bytes | None = None, limit: int | None = None
) -> list[GroupInfo]:
    """Describe the groups of a stream, by name, above `after` (XINFO GROUPS).

    Raises:
        StreamNotFound: there is no stream.
    """
    stream = keyspace.stream(name)
    return [_group_info(stream, group) for group in _page(stream.groups, after, limit)]


def group(keyspace: Keyspace, name: bytes, group_name: bytes) -> GroupInfo:
    """Describe one group.

    Raises:
        GroupNotFound: there is no such group.
    """
    found = keyspace.group(name, group_name)
    return _group_info(keyspace.stream(name), found)


def consumers(
    keyspace: Keyspace,
    name: bytes,
    group_name: bytes,
    now_ms: int,
    after: bytes | None = None,
    limit: int | None = None,
) -> list[ConsumerInfo]:
    """Describe the consumers of a group, by name, above `after` (XINFO CONSUMERS).

    Raises:
        GroupNotFound: there is no such group.
    """
    found, steady_ms = keyspace.group(name, group_name), keyspace.steady_ms(now_ms)
    return [_consumer_info(one, steady_ms) for one in _page(found.consumers, after, limit)]


def pending(
    keyspace: Keyspace, name: bytes, group_name: bytes, request: PendingRequest, now_ms: int
) -> Decision[list[PendingItem]]:
    """List pending entries in id order (XPENDING, the long form).

    Where many are looked at, others have their turn in between: each is told as it is then.

    Raises:
        GroupNotFound: there is no such group.
    """
    found = keyspace.group(name, group_name)
    pel: Pel | OrderedView[PendingEntry] = found.pel
    if request.consumer is not None:
        if request.consumer not in found.consumers:
            return Decision([], [])
        pel = found.consumers[request.consumer].pending
    items: list[PendingItem] = []
    steady_ms = keyspace.steady_ms(now_ms)
    for looked_at, one in enumerate(pel.walk(request.start)):
        if one.id > request.end or len(items) >= request.limit:
            break
        if looked_at == PENDING_SCAN_MAX:
            less = request._replace(start=one.id, limit=request.limit - len(items))

            def go_on(keyspace: Keyspace, now_ms: int) -> Decision[list[PendingItem]]:
                more = pending(keyspace, name, group_name, less, now_ms)  # noqa: B023
                return more.replied_as(lambda later: items + later)

            return Decision(items, [], go_on)
        if one.owner is None or one.idle_ms(steady_ms) >= request.min_idle_ms:
            items.append(_item(one, steady_ms))
    return Decision(items, [])


def pending_summary(keyspace: Keyspace, name: bytes, group_name: bytes) -> PendingSummary:
    """Sum up what is pending and with whom (XPENDING, the short form).

    Of those who hold entries the first `DESCRIBED_MAX` by name are told of, and all are counted.
    It is one moment, so each consumer is looked at in the order that is fastest.

    Raises:
        GroupNotFound: there is no such group.
    """
    found = keyspace.group(name, group_name)
    first, last = found.pel.first(), found.pel.last()
    in_any_order = dict.values(cast("dict[bytes, Consumer]", found.consumers))
    holders = [one for one in in_any_order if one.pending]
    if len(holders) > DESCRIBED_MAX:
        by_name = (one for one in found.consumers.values() if one.pending)
        told = list(islice(by_name, DESCRIBED_MAX))
    else:
        told = sorted(holders, key=lambda one: one.name)
    return PendingSummary(
        total=len(found.pel),
        min_id=None if first is None else first.id,
        max_id=None if last is None else last.id,
        consumers=[(one.name, len(one.pending)) for one in told],
        holder_count=len(holders),
    )


def consumer(
    keyspace: Keyspace, name: bytes, group_name: bytes, consumer_name: bytes, now_ms: int
) -> ConsumerInfo | None:
    """Describe one consumer; None if there is none.

    Raises:
        GroupNotFound: there is no such group.
    """
    found = keyspace.group(name, group_name).consumers.get(consumer_name)
    return None if found is None else _consumer_info(found, keyspace.steady_ms(now_ms))


def _page(by_name: SortedDict[bytes, T], after: bytes | None, limit: int | None) -> Iterator[T]:
    """Yield what comes after a name, by name."""
    names = by_name.irange(after, inclusive=(False, True))
    return (by_name[one] for one in islice(names, limit))


def _least(count: int | None, left: int | None) -> int | None:
    return left if count is None else count if left is None else min(count, left)


def _less(left: int | None, taken: Sequence[object]) -> int | None:
    return None if left is None else left - len(taken)


def _read_one(
    stream: Stream | None, cursor: StreamCursor, limit: int | None, room: ReadRoom
) -> StreamRead:
    after = MIN_ID if isinstance(cursor.after, From) else cursor.after
    if stream is None:
        return StreamRead(cursor.stream, [], after, MIN_ID, None, after)
    if cursor.after is From.NOW:
        after = stream.last_id
    entries = []
    if cursor.after is From.LAST and limit != 0:
        entries = stream.log.reverse_range(MAX_ID, MIN_ID, 1, room)
    elif stream.log.last_id > after and limit != 0:
        entries = stream.log.range(after.next(), MAX_ID, limit, room)
    gap = None
    # `0` asks for whatever there is; a cursor above it says "I have seen all up to here".
    if MIN_ID < after < stream.trimmed_through:
        gap = Gap(after, stream.trimmed_through)
    behind = after if gap is None else gap.through
    next_after = entries[-1].id if entries else behind
    return StreamRead(cursor.stream, entries, next_after, stream.last_id, gap, after)


def _group_info(stream: Stream, found: Group) -> GroupInfo:
    return GroupInfo(
        name=found.name,
        last_id=found.last_id,
        entries_read=found.entries_read,
        lag=stream.lag(found.last_id, found.entries_read),
        pending_count=len(found.pel),
        nacked_count=found.pel.nobodys_count,
        consumer_count=len(found.consumers),
        policy=found.policy,
    )


def _consumer_info(consumer: Consumer, steady_ms: int) -> ConsumerInfo:
    active = consumer.active_at_ms
    return ConsumerInfo(
        name=consumer.name,
        pending_count=len(consumer.pending),
        idle_ms=max(steady_ms - consumer.seen_at_ms, 0),
        inactive_ms=None if active is None else max(steady_ms - active, 0),
    )


def _item(one: PendingEntry, steady_ms: int) -> PendingItem:
    if one.owner is None:
        return PendingItem(one.id, None, None, one.delivery_count)
    return PendingItem(one.id, one.owner.name, one.idle_ms(steady_ms), one.delivery_count)
