"""The obvious implementation: plain lists and dicts, scanned from end to end for every question.

Written from the description of Redis Streams, never from the engine. It speaks the engine's words
(entries, replies, errors) so that answers can be compared as they are. Where Headgate differs from
Redis on purpose, the line says `Ours:`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from engine.decisions.deliveries import ClaimRequest, GroupRequest, NackMode, NackRequest
from engine.decisions.groups import GroupStart
from engine.decisions.streams import Deletion, References
from engine.entry import MIN_ID, Entry, EntryId, Fields
from engine.errors import GroupExists, StreamNotFound
from engine.replies import (
    Claimed,
    ConsumerInfo,
    Delivery,
    GroupDetail,
    GroupInfo,
    GroupRead,
    GroupState,
    Outcome,
    PendingItem,
    PendingSummary,
    StreamDetail,
)
from engine.stream import StreamConfig
from engine.views import PendingRequest
from tests.model.reference_keyspace import RefKeyspace
from tests.model.reference_stream import Pending, Reader, RefGroup, RefStream

COUNT_MAX = 2**63 - 1


class Reference(RefKeyspace):
    """All streams; methods as the engine's, without waiting and with the time as an argument."""

    def stream_detail(self, name: bytes, count: int | None, now_ms: int) -> StreamDetail:
        info, stream = self.stream_info(name), self._stream(name)
        groups = [
            GroupDetail(
                info=self.group(name, group),
                pending=self.pending(name, group, PendingRequest(limit=10**9), now_ms)[:count],
                consumers=self.consumers(name, group, now_ms),
            )
            for group in sorted(stream.groups)
        ]
        return StreamDetail(info, stream.entries[:count], groups)

    # Groups and consumers

    def create_group(
        self, name: bytes, group: bytes, start: GroupStart, *, create_stream: bool, now_ms: int
    ) -> None:
        if name not in self.streams and not create_stream:
            raise StreamNotFound(name)
        stream = self.streams.get(name) or self._make(name, StreamConfig(), now_ms)
        if group in stream.groups:
            raise GroupExists(name, group)
        stream.groups[group] = RefGroup(*position(stream, start))

    def set_group(self, name: bytes, group: bytes, start: GroupStart) -> None:
        stream, found = self._group(name, group)
        found.last_id, found.entries_read = position(stream, start)

    def destroy_group(self, name: bytes, group: bytes) -> bool:
        return self._stream(name).groups.pop(group, None) is not None

    def groups(self, name: bytes) -> list[GroupInfo]:
        return [self.group(name, group) for group in sorted(self._stream(name).groups)]

    def group(self, name: bytes, group: bytes) -> GroupInfo:
        stream, found = self._group(name, group)
        return GroupInfo(
            name=group,
            last_id=found.last_id,
            entries_read=found.entries_read,
            lag=stream.lag(found),
            pending_count=len(found.pel),
            nacked_count=len(found.held_by(None)),
            consumer_count=len(found.readers),
        )

    def create_consumer(self, name: bytes, group: bytes, consumer: bytes, now_ms: int) -> bool:
        _, found = self._group(name, group)
        if consumer in found.readers:
            return False
        found.see(consumer, now_ms)
        return True

    def delete_consumer(
        self, name: bytes, group: bytes, consumer: bytes, *, release: bool
    ) -> int | None:
        _, found = self._group(name, group)
        if found.readers.pop(consumer, None) is None:
            return None
        held = found.held_by(consumer)
        for one in held:
            if release:  # Ours: Redis only drops.
                found.stamp(one, None, 0, one.count)
            else:
                found.drop(one.id)
        return len(held)

    def consumers(self, name: bytes, group: bytes, now_ms: int) -> list[ConsumerInfo]:
        _, found = self._group(name, group)
        return [
            ConsumerInfo(
                name=consumer,
                pending_count=len(found.held_by(consumer)),
                idle_ms=max(now_ms - reader.seen_ms, 0),
                inactive_ms=(
                    None if reader.active_ms is None else max(now_ms - reader.active_ms, 0)
                ),
            )
            for consumer, reader in sorted(found.readers.items())
        ]

    def consumer(
        self, name: bytes, group: bytes, consumer: bytes, now_ms: int
    ) -> ConsumerInfo | None:
        found = [one for one in self.consumers(name, group, now_ms) if one.name == consumer]
        return found[0] if found else None

    # Delivery

    def read_group(
        self, request: GroupRequest, acked: Sequence[EntryId], now_ms: int
    ) -> list[GroupRead]:
        pairs = [self._group(cursor.stream, request.group) for cursor in request.cursors]
        for cursor in request.cursors:
            self.ack(cursor.stream, request.group, acked, request.consumer)
        reads = []
        claim_idle_ms = request.claim_idle_ms
        for cursor, (stream, group) in zip(request.cursors, pairs, strict=True):
            reader = group.see(request.consumer, now_ms)
            if cursor.after is None:
                asked = request._replace(claim_idle_ms=claim_idle_ms)
                found, room = self._take(stream, group, reader, asked, now_ms)
            else:
                found, room = self._history(stream, group, request, cursor.after, now_ms)
                claim_idle_ms = None  # for all streams that follow
            state = self._state(stream, group, request, cursor.after is None, room)
            held = len(group.held_by(request.consumer))
            served = bool(found) if cursor.after is None else room != 0
            reads.append(GroupRead(cursor.stream, found, served, stream.lag(group), held, state))
        return reads

    def _state(
        self,
        stream: RefStream,
        group: RefGroup,
        request: GroupRequest,
        is_new: bool,
        room: int | None,
    ) -> GroupState:
        """Ours: a consumer learns why it got what it got."""
        if not is_new:
            return GroupState.MAX_PENDING if room == 0 else GroupState.LIVE
        held = len(group.held_by(request.consumer))
        if request.max_pending is not None and held >= request.max_pending:
            return GroupState.MAX_PENDING
        newest = stream.ids[-1] if stream.ids else MIN_ID
        return GroupState.CAUGHT_UP if newest <= group.last_id else GroupState.LIVE

    def _take(
        self,
        stream: RefStream,
        group: RefGroup,
        reader: Reader,
        request: GroupRequest,
        now_ms: int,
    ) -> tuple[list[Delivery], int | None]:
        """Take idle entries, then new ones."""
        room = room_for(request, len(group.held_by(request.consumer)))
        taken = self._claim_idle(stream, group, request, room, now_ms)
        new = [entry for entry in stream.entries if entry.id > group.last_id]
        new = new[: None if room is None else room - len(taken)]
        new = within(new, request, taken)
        for entry in new:
            stream.advance(group, entry.id)
            if not request.no_ack:
                one = group.find(entry.id) or Pending(entry.id)
                group.stamp(one, request.consumer, now_ms, 1)
        if taken or (new and not request.no_ack):
            reader.active_ms = now_ms
        return taken + [Delivery(entry.id, entry.fields, 0, 0, None) for entry in new], room

    def _claim_idle(
        self,
        stream: RefStream,
        group: RefGroup,
        request: GroupRequest,
        room: int | None,
        now_ms: int,
    ) -> list[Delivery]:
        if request.claim_idle_ms is None:
            return []
        taken: list[Delivery] = []
        for one in group.longest_idle_first():
            entry = stream.get(one.id)
            if entry is None or not is_idle(one, request.claim_idle_ms, now_ms):
                continue
            if not request.claim_own and one.owner == request.consumer:
                continue
            if len(taken) == room or is_too_much(request, taken, entry.fields):
                break
            taken.append(before(one, entry.fields, request.consumer, now_ms))
            group.stamp(one, request.consumer, now_ms, min(one.count + 1, COUNT_MAX))
        return taken

    def _history(
        self,
        stream: RefStream,
        group: RefGroup,
        request: GroupRequest,
        after: EntryId,
        now_ms: int,
    ) -> tuple[list[Delivery], int | None]:
        mine = group.held_by(request.consumer)
        room = request.limit
        if request.max_pending is not None:
            # Ours: what the consumer was already shown counts against max_pending.
            room = room_for(request, sum(one.id <= after for one in mine))
        found: list[Delivery] = []
        for one in [one for one in mine if one.id > after][:room]:
            entry = stream.get(one.id)
            fields = None if entry is None else entry.fields
            if is_too_much(request, found, fields):
                break
            found.append(before(one, fields, request.consumer, now_ms))
            if entry is not None:
                group.stamp(one, request.consumer, now_ms, min(one.count + 1, COUNT_MAX))
        return found, room

    def _each(
        self,
        name: bytes,
        group: bytes,
        ids: Sequence[EntryId],
        consumer: bytes | None,
        act: Callable[[RefGroup, Pending], Outcome],
    ) -> list[Outcome]:
        """Ours: fenced by the consumer if one is named; what nobody owns may be anybody's."""
        _, found = self._group(name, group)
        outcomes = []
        for entry_id in ids:
            one = found.find(entry_id)
            if one is None:
                outcomes.append(Outcome.NOT_PENDING)
            elif consumer is not None and one.owner not in (None, consumer):
                outcomes.append(Outcome.CLAIMED)
            else:
                outcomes.append(act(found, one))
        return outcomes

    def ack(
        self, name: bytes, group: bytes, ids: Sequence[EntryId], consumer: bytes | None
    ) -> list[Outcome]:
        def act(found: RefGroup, one: Pending) -> Outcome:
            found.drop(one.id)
            return Outcome.ACKED

        return self._each(name, group, ids, consumer, act)

    def ack_and_delete(
        self, name: bytes, group: bytes, ids: Sequence[EntryId], references: References
    ) -> list[Deletion]:
        if name not in self.streams or group not in self.streams[name].groups:
            return [Deletion.NOT_FOUND for _ in ids]
        stream, found = self._group(name, group)
        outcomes = []
        for entry_id in ids:
            if not found.drop(entry_id):
                outcomes.append(Deletion.NOT_FOUND)
            elif stream.get(entry_id) is not None:
                outcomes.append(self._delete(stream, entry_id, references))
            else:  # only the pending entry was left
                outcomes.append(Deletion.DELETED)
                if references is References.DELETE:
                    stream.purge([entry_id])
        return outcomes

    def nack(
        self,
        name: bytes,
        group: bytes,
        ids: Sequence[EntryId],
        request: NackRequest,
        consumer: bytes | None,
    ) -> list[Outcome]:
        stream, found = self._group(name, group)

        def act(found: RefGroup, one: Pending) -> Outcome:
            found.stamp(one, None, 0, nack_count(request, one))
            return Outcome.RELEASED

        outcomes = []
        for entry_id in ids:
            if request.force and found.find(entry_id) is None and stream.get(entry_id) is not None:
                found.stamp(Pending(entry_id), None, 0, 0)
            outcomes += self._each(name, group, [entry_id], consumer, act)
        return outcomes

    def give_back(
        self, name: bytes, group: bytes, consumer: bytes, counts: Mapping[EntryId, int]
    ) -> None:
        """Ours: undo deliveries, unless the entry was delivered again since."""
        if name not in self.streams or group not in self.streams[name].groups:
            return
        found = self.streams[name].groups[group]
        for entry_id, count in counts.items():
            one = found.find(entry_id)
            if one is not None and one.owner == consumer and one.count == count:
                found.stamp(one, None, 0, max(count - 1, 0))

    def extend(
        self, name: bytes, group: bytes, ids: Sequence[EntryId], consumer: bytes, now_ms: int
    ) -> list[Outcome]:
        """Ours: XCLAIM JUSTID of what one holds oneself, and nothing else."""

        def act(found: RefGroup, one: Pending) -> Outcome:
            if one.owner is None:
                return Outcome.NOT_PENDING
            found.stamp(one, consumer, now_ms, one.count)
            found.see(consumer, now_ms).active_ms = now_ms
            return Outcome.EXTENDED

        return self._each(name, group, ids, consumer, act)

    def claim(
        self,
        name: bytes,
        group: bytes,
        consumer: bytes,
        ids: Sequence[EntryId],
        request: ClaimRequest,
        now_ms: int,
    ) -> Claimed:
        stream, found = self._group(name, group)
        found.last_id = max(found.last_id, request.last_id)
        reader = found.see(consumer, now_ms)
        deliveries: list[Delivery] = []
        purged: list[EntryId] = []
        for entry_id in ids:
            one, entry = found.find(entry_id), stream.get(entry_id)
            if entry is None:
                purged += [entry_id] if found.drop(entry_id) else []
                continue
            if one is None and request.force:
                deliveries.append(Delivery(entry_id, entry.fields, 0, 0, None))
                one = Pending(entry_id, count=1)
            elif one is not None and is_idle(one, request.min_idle_ms, now_ms):
                deliveries.append(before(one, entry.fields, consumer, now_ms))
            else:
                continue
            count = claim_count(request, one)
            deliveries[-1] = deliveries[-1]._replace(count_set=count)
            found.stamp(one, consumer, claim_time(request, now_ms), count)
            reader.active_ms = now_ms
        return Claimed(deliveries, purged, MIN_ID)

    def autoclaim(
        self,
        name: bytes,
        group: bytes,
        consumer: bytes,
        *,
        min_idle_ms: int,
        start: EntryId,
        limit: int,
        just_id: bool,
        now_ms: int,
    ) -> Claimed:
        stream, found = self._group(name, group)
        reader = found.see(consumer, now_ms)
        deliveries: list[Delivery] = []
        purged: list[EntryId] = []
        ahead = [one for one in found.pel if one.id >= start]
        for _ in range(10 * limit):
            if not ahead or len(deliveries) + len(purged) == limit:
                break
            one = ahead.pop(0)
            entry = stream.get(one.id)
            if entry is None:
                found.drop(one.id)
                purged.append(one.id)
            elif is_idle(one, min_idle_ms, now_ms):
                deliveries.append(before(one, entry.fields, consumer, now_ms))
                count = claim_count(ClaimRequest(min_idle_ms, just_id=just_id), one)
                deliveries[-1] = deliveries[-1]._replace(count_set=count)
                found.stamp(one, consumer, now_ms, count)
                reader.active_ms = now_ms
        return Claimed(deliveries, purged, ahead[0].id if ahead else MIN_ID)

    def pending(
        self, name: bytes, group: bytes, request: PendingRequest, now_ms: int
    ) -> list[PendingItem]:
        _, found = self._group(name, group)
        return [
            PendingItem(
                id=one.id,
                consumer=one.owner,
                idle_ms=None if one.owner is None else max(now_ms - one.at_ms, 0),
                delivery_count=one.count,
            )
            for one in found.pel
            if request.start <= one.id <= request.end
            and request.consumer in (None, one.owner)
            and is_idle(one, request.min_idle_ms, now_ms)
        ][: request.limit]

    def pending_summary(self, name: bytes, group: bytes) -> PendingSummary:
        _, found = self._group(name, group)
        ids = [one.id for one in found.pel]
        holders = [(name, len(found.held_by(name))) for name in sorted(found.readers)]
        return PendingSummary(
            total=len(ids),
            min_id=min(ids, default=None),
            max_id=max(ids, default=None),
            consumers=[(name, count) for name, count in holders if count],
        )


def position(stream: RefStream, start: GroupStart) -> tuple[EntryId, int | None]:
    last_id = stream.last_id if start.last_id is None else start.last_id
    if start.entries_read is None:
        return last_id, None
    return last_id, min(start.entries_read, stream.added)


def room_for(request: GroupRequest, held: int) -> int | None:
    """Ours: what a consumer may still get before it holds max_pending."""
    if request.max_pending is None:
        return request.limit
    room = max(request.max_pending - held, 0)
    return room if request.limit is None else min(room, request.limit)


def is_idle(one: Pending, min_idle_ms: int, now_ms: int) -> bool:
    return one.owner is None or max(now_ms - one.at_ms, 0) >= min_idle_ms


def size_of(deliveries: Sequence[Delivery]) -> int:
    return sum(len(text) for one in deliveries for text in one.fields or ())


def is_too_much(request: GroupRequest, found: Sequence[Delivery], fields: Fields | None) -> bool:
    """Tell whether one more entry passes the bound in bytes (ours)."""
    if request.size_bytes_max is None or not found or fields is None:
        return False
    return size_of(found) + sum(map(len, fields)) > request.size_bytes_max


def within(new: list[Entry], request: GroupRequest, taken: Sequence[Delivery]) -> list[Entry]:
    """Return the new entries that fit besides what was taken; the first one if there is room."""
    if request.size_bytes_max is None:
        return new
    left = max(request.size_bytes_max - size_of(taken), 0)
    if taken and left == 0:
        return []
    fitting = new[:1]
    for entry in new[1:]:
        if sum(one.size_bytes for one in fitting) + entry.size_bytes > left:
            break
        fitting.append(entry)
    return fitting


def before(one: Pending, fields: Fields | None, consumer: bytes, now_ms: int) -> Delivery:
    """Describe a pending entry as it is before it is delivered again."""
    idle_ms = 0 if one.owner is None else max(now_ms - one.at_ms, 0)
    return Delivery(
        one.id, fields, idle_ms, one.count, None if one.owner == consumer else one.owner
    )


def claim_time(request: ClaimRequest, now_ms: int) -> int:
    at_ms = now_ms
    if request.idle_ms is not None:
        at_ms = now_ms - request.idle_ms
    if request.time_ms is not None:
        at_ms = request.time_ms
    return now_ms if at_ms < 0 or at_ms > now_ms else at_ms


def nack_count(request: NackRequest, one: Pending) -> int:
    if request.retry_count is not None:
        return request.retry_count
    if request.mode is NackMode.FATAL:
        return COUNT_MAX
    return max(one.count - 1, 0) if request.mode is NackMode.SILENT else one.count


def claim_count(request: ClaimRequest, one: Pending) -> int:
    if request.retry_count is not None:
        return request.retry_count
    return one.count if request.just_id else min(one.count + 1, COUNT_MAX)
