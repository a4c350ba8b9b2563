"""The obvious implementation: plain lists and dicts, scanned from end to end for every question.

Written from the description of Redis Streams, never from the engine. It speaks the engine's words
(entries, replies, errors) so that answers can be compared as they are. Where Headgate differs from
Redis on purpose, the line says `Ours:`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from engine.decisions.deliveries import ClaimRequest, GroupRequest, NackMode
from engine.decisions.groups import GroupStart
from engine.decisions.streams import Deletion, TrimRequest
from engine.entry import MAX_ID, MIN_ID, Draft, Entry, EntryId, Fields, IdRequest, PartialId
from engine.errors import (
    GroupExists,
    GroupNotFound,
    IdNotGreater,
    IdsExhausted,
    Invalid,
    LastIdMismatch,
    StreamExists,
    StreamNotFound,
)
from engine.replies import (
    Claimed,
    ConsumerInfo,
    Delivery,
    Gap,
    GroupDetail,
    GroupInfo,
    GroupRead,
    GroupState,
    Outcome,
    PendingItem,
    PendingSummary,
    StreamDetail,
    StreamInfo,
    StreamRead,
)
from engine.stream import StreamConfig
from engine.views import From, PendingRequest, StreamCursor

T = TypeVar("T")

COUNT_MAX = 2**63 - 1
NODES_PER_TRIM = 100


@dataclass
class Slot:
    """Where an entry is, or was: a dead one still takes its place in the node."""

    id: EntryId
    fields: Fields
    node: int
    alive: bool = True


@dataclass
class Pending:
    """One line of the PEL."""

    id: EntryId
    owner: bytes | None = None
    at_ms: int = 0
    count: int = 0
    turn: int = 0  # order of arrival


@dataclass
class Reader:
    """A consumer."""

    seen_ms: int
    active_ms: int | None = None


@dataclass
class RefGroup:
    """A consumer group."""

    last_id: EntryId
    entries_read: int | None
    pel: list[Pending] = field(default_factory=list)
    readers: dict[bytes, Reader] = field(default_factory=dict)
    turns: int = 0

    def find(self, entry_id: EntryId) -> Pending | None:
        found = [one for one in self.pel if one.id == entry_id]
        return found[0] if found else None

    def held_by(self, consumer: bytes | None) -> list[Pending]:
        return [one for one in self.pel if one.owner == consumer]

    def see(self, consumer: bytes, now_ms: int) -> Reader:
        reader = self.readers.setdefault(consumer, Reader(now_ms))
        reader.seen_ms = now_ms
        return reader

    def stamp(self, one: Pending, owner: bytes | None, at_ms: int, count: int) -> None:
        self.turns += 1
        one.owner, one.at_ms, one.count, one.turn = owner, at_ms, count, self.turns
        if one not in self.pel:
            self.pel = sorted([*self.pel, one], key=lambda each: each.id)

    def drop(self, entry_id: EntryId) -> bool:
        before = len(self.pel)
        self.pel = [one for one in self.pel if one.id != entry_id]
        return len(self.pel) < before

    def longest_idle_first(self) -> list[Pending]:
        """Nobody's come first, in the order in which they were given back; then by time."""
        nobodys = sorted(self.held_by(None), key=lambda one: one.turn)
        owned = [one for one in self.pel if one.owner is not None]
        return nobodys + sorted(owned, key=lambda one: (one.at_ms, one.turn))


@dataclass
class RefStream:
    """A stream."""

    epoch: int
    config: StreamConfig
    slots: list[Slot] = field(default_factory=list)
    last_id: EntryId = MIN_ID
    deleted_max: EntryId = MIN_ID
    trimmed_max: EntryId = MIN_ID
    added: int = 0
    groups: dict[bytes, RefGroup] = field(default_factory=dict)

    @property
    def entries(self) -> list[Entry]:
        return [Entry(slot.id, slot.fields) for slot in self.slots if slot.alive]

    @property
    def ids(self) -> list[EntryId]:
        return [entry.id for entry in self.entries]

    @property
    def first_id(self) -> EntryId:
        return self.ids[0] if self.ids else MIN_ID

    @property
    def nodes(self) -> list[list[Slot]]:
        numbers = sorted({slot.node for slot in self.slots})
        return [[slot for slot in self.slots if slot.node == number] for number in numbers]

    def get(self, entry_id: EntryId) -> Entry | None:
        found = [entry for entry in self.entries if entry.id == entry_id]
        return found[0] if found else None

    def append(self, entry: Entry, node_max: int) -> None:
        newest = self.nodes[-1] if self.nodes else []
        number = self.slots[-1].node if self.slots else 0
        if len(newest) >= node_max:
            number += 1
        self.slots.append(Slot(entry.id, entry.fields, number))
        self.last_id = entry.id
        self.added += 1

    def remove(self, ids: Sequence[EntryId]) -> None:
        """Mark entries dead, and free the nodes in which nothing lives."""
        for slot in self.slots:
            slot.alive = slot.alive and slot.id not in ids
        living = {slot.node for slot in self.slots if slot.alive}
        self.slots = [slot for slot in self.slots if slot.node in living]

    def trim(self, ids: Sequence[EntryId]) -> int:
        self.remove(ids)
        self.trimmed_max = max([self.trimmed_max, *ids])
        return len(ids)

    # What a group has read, and what is left

    def has_tombstone_from(self, entry_id: EntryId) -> bool:
        return bool(self.ids) and self.deleted_max != MIN_ID and entry_id <= self.deleted_max

    def estimate(self, entry_id: EntryId) -> int | None:
        added, length, first = self.added, len(self.ids), self.first_id
        if added == 0:
            return 0
        if length == 0 and entry_id <= self.last_id:
            return added
        if entry_id != MIN_ID and entry_id < self.deleted_max:
            return None
        if entry_id == self.last_id:
            return added
        if entry_id > self.last_id:
            return None
        if self.deleted_max == MIN_ID or self.deleted_max < first:
            if entry_id < first:
                return added - length
            if entry_id == first:
                return added - length + 1
        return None

    def lag(self, group: RefGroup) -> int | None:
        if self.added == 0 or not self.ids:
            return 0
        if group.last_id < self.first_id and self.deleted_max < self.first_id:
            return len(self.ids)
        if group.entries_read is not None and not self.has_tombstone_from(group.last_id):
            return self.added - group.entries_read
        place = self.estimate(group.last_id)
        return self.added - place if place is not None else None

    def advance(self, group: RefGroup, entry_id: EntryId) -> None:
        """Move a group past an entry that it is given."""
        counts_on = group.last_id >= self.first_id and not self.has_tombstone_from(group.last_id)
        if group.entries_read is not None and counts_on:
            group.entries_read += 1
        else:
            group.entries_read = self.estimate(entry_id)
        group.last_id = entry_id


class Reference:
    """All streams; methods as the engine's, without waiting and with the time as an argument."""

    def __init__(self, node_max: int) -> None:
        self.node_max = node_max
        self.streams: dict[bytes, RefStream] = {}
        self.epoch = 0

    # Streams

    def _stream(self, name: bytes) -> RefStream:
        if name not in self.streams:
            raise StreamNotFound(name)
        return self.streams[name]

    def _group(self, name: bytes, group: bytes) -> tuple[RefStream, RefGroup]:
        if name not in self.streams or group not in self.streams[name].groups:
            raise GroupNotFound(name, group, stream_exists=name in self.streams)
        return self.streams[name], self.streams[name].groups[group]

    def _make(self, name: bytes, config: StreamConfig, now_ms: int) -> RefStream:
        self.epoch = max(now_ms, self.epoch + 1)
        self.streams[name] = RefStream(self.epoch, config)
        return self.streams[name]

    def create_stream(self, name: bytes, config: StreamConfig, now_ms: int) -> bool:
        if name not in self.streams:
            self._make(name, config, now_ms)
            return True
        if self.streams[name].config != config:
            raise StreamExists(name)
        return False

    def configure_stream(self, name: bytes, config: StreamConfig, now_ms: int) -> None:
        stream = self._stream(name)
        if stream.config != config:
            stream.config = config
            self._retain(stream, now_ms)

    def delete_stream(self, name: bytes) -> bool:
        return self.streams.pop(name, None) is not None

    def enforce_retention(self, now_ms: int) -> None:
        for stream in self.streams.values():
            if stream.config.max_age_ms is not None:
                self._retain(stream, now_ms)

    def list_streams(self, prefix: bytes, after: bytes | None, limit: int) -> list[StreamInfo]:
        names = sorted(name for name in self.streams if name.startswith(prefix))
        names = [name for name in names if after is None or name > after]
        return [self.stream_info(name) for name in names[:limit]]

    def stream_info(self, name: bytes) -> StreamInfo:
        stream = self._stream(name)
        entries = stream.entries
        return StreamInfo(
            name=name,
            epoch=stream.epoch,
            config=stream.config,
            length=len(entries),
            chunk_count=len(stream.nodes),
            first_id=stream.first_id,
            last_id=stream.last_id,
            max_deleted_id=stream.deleted_max,
            entries_added=stream.added,
            group_count=len(stream.groups),
        )

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

    # Entries

    def add(
        self,
        name: bytes,
        drafts: Sequence[Draft],
        *,
        create_stream: bool,
        expected_last_id: EntryId | None,
        trim: TrimRequest | None,
        now_ms: int,
    ) -> list[EntryId]:
        if trim is not None:
            check_trim(trim)
        if name not in self.streams and not create_stream:
            raise StreamNotFound(name)
        last_id = self.streams[name].last_id if name in self.streams else MIN_ID
        if expected_last_id not in (None, last_id):
            raise LastIdMismatch(expected=expected_last_id, last_id=last_id)
        entries: list[Entry] = []
        for index, draft in enumerate(drafts):
            check_fields(draft.fields, index)
            last_id = generate_id(draft.id, last_id, index, now_ms)
            entries.append(Entry(last_id, draft.fields))
        stream = self.streams.get(name) or self._make(name, StreamConfig(), now_ms)
        for entry in entries:
            stream.append(entry, self.node_max)
        if entries:
            self._trim_after(stream, trim, now_ms)
        return [entry.id for entry in entries]

    def _trim_after(self, stream: RefStream, trim: TrimRequest | None, now_ms: int) -> None:
        """Ours: both the retention and the request look at the stream as it is after the append."""
        gone = self._too_old_or_many(stream, now_ms)
        if trim is not None:
            gone += self._to_trim(stream, trim)
        stream.trim(gone)

    def _retain(self, stream: RefStream, now_ms: int) -> None:
        stream.trim(self._too_old_or_many(stream, now_ms))

    def _too_old_or_many(self, stream: RefStream, now_ms: int) -> list[EntryId]:
        """Ours: a stream can be configured to forget by number and by age."""
        gone: list[EntryId] = []
        if stream.config.max_length is not None:
            gone += self._to_trim(stream, TrimRequest(max_length=stream.config.max_length))
        if stream.config.max_age_ms is not None:
            oldest = EntryId(max(now_ms - stream.config.max_age_ms, 0), 0)
            gone += self._to_trim(stream, TrimRequest(min_id=oldest))
        return gone

    def _to_trim(self, stream: RefStream, request: TrimRequest) -> list[EntryId]:
        ids = stream.ids
        if request.approximate:
            return self._nodes_to_trim(stream, request)
        if request.max_length is not None:
            return ids[: max(len(ids) - request.max_length, 0)]
        assert request.min_id is not None
        return [entry_id for entry_id in ids if entry_id < request.min_id]

    def _nodes_to_trim(self, stream: RefStream, request: TrimRequest) -> list[EntryId]:
        limit = NODES_PER_TRIM * self.node_max if request.limit is None else request.limit
        gone: list[EntryId] = []
        for node in stream.nodes:
            alive = [slot.id for slot in node if slot.alive]
            left = len(stream.ids) - len(gone) - len(alive)
            if request.max_length is not None and left < request.max_length:
                break
            if request.min_id is not None and node[-1].id >= request.min_id:
                break
            if limit and len(gone) + len(alive) > limit:
                break
            gone += alive
        return gone

    def length(self, name: bytes) -> int:
        return len(self.streams[name].entries) if name in self.streams else 0

    def range(self, name: bytes, start: EntryId, end: EntryId, limit: int | None) -> list[Entry]:
        return [one for one in self._stream(name).entries if start <= one.id <= end][:limit]

    def reverse_range(
        self, name: bytes, end: EntryId, start: EntryId, limit: int | None
    ) -> list[Entry]:
        found = [one for one in self._stream(name).entries if start <= one.id <= end]
        return found[::-1][:limit]

    def read(
        self, cursors: Sequence[StreamCursor], limit: int | None, *, missing_ok: bool
    ) -> list[StreamRead]:
        for cursor in cursors:
            if not missing_ok:
                self._stream(cursor.stream)
        return [self._read_one(cursor, limit) for cursor in cursors]

    def _read_one(self, cursor: StreamCursor, limit: int | None) -> StreamRead:
        stream = self.streams.get(cursor.stream, RefStream(0, StreamConfig()))
        after = MIN_ID
        if isinstance(cursor.after, EntryId):
            after = cursor.after
        elif cursor.after is From.NOW:
            after = stream.last_id
        found = [entry for entry in stream.entries if entry.id > after][:limit]
        if cursor.after is From.LAST:
            found = stream.entries[-1:]
        # Ours: a cursor above 0-0 that trimming has overtaken learns what it missed.
        missed = MIN_ID < after < stream.trimmed_max
        return StreamRead(
            stream=cursor.stream,
            entries=found,
            next_after=found[-1].id if found else (stream.trimmed_max if missed else after),
            last_id=stream.last_id,
            gap=Gap(after, stream.trimmed_max) if missed else None,
            after=after,
        )

    def delete(self, name: bytes, ids: Sequence[EntryId]) -> list[Deletion]:
        stream = self.streams.get(name)
        outcome: list[Deletion] = []
        for entry_id in ids:
            found = stream is not None and stream.get(entry_id) is not None
            outcome.append(Deletion.DELETED if found else Deletion.NOT_FOUND)
            if stream is not None and found:
                stream.remove([entry_id])
                stream.deleted_max = max(stream.deleted_max, entry_id)
        return outcome

    def trim(self, name: bytes, request: TrimRequest) -> int:
        check_trim(request)
        stream = self.streams.get(name)
        return 0 if stream is None else stream.trim(self._to_trim(stream, request))

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

    # Delivery

    def read_group(self, request: GroupRequest, now_ms: int) -> list[GroupRead]:
        pairs = [self._group(cursor.stream, request.group) for cursor in request.cursors]
        reads = []
        claim_idle_ms = request.claim_idle_ms
        stamped: defaultdict[bytes, set[EntryId]] = defaultdict(set)  # by this read, per stream
        for cursor, (stream, group) in zip(request.cursors, pairs, strict=True):
            reader = group.see(request.consumer, now_ms)
            own = stamped[cursor.stream]
            if cursor.after is None:
                asked = request._replace(claim_idle_ms=claim_idle_ms)
                found, room = self._take(stream, group, reader, asked, own, now_ms)
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
        stamped: set[EntryId],
        now_ms: int,
    ) -> tuple[list[Delivery], int | None]:
        """Take idle entries, then new ones."""
        room = room_for(request, len(group.held_by(request.consumer)))
        taken = self._claim_idle(stream, group, request, room, stamped, now_ms)
        stamped |= {one.id for one in taken}
        new = [entry for entry in stream.entries if entry.id > group.last_id]
        new = new[: None if room is None else room - len(taken)]
        new = within(new, request, taken)
        for entry in new:
            stream.advance(group, entry.id)
            if not request.no_ack:
                one = group.find(entry.id) or Pending(entry.id)
                group.stamp(one, request.consumer, now_ms, 1)
                stamped.add(entry.id)
        if taken or (new and not request.no_ack):
            reader.active_ms = now_ms
        return taken + [Delivery(entry.id, entry.fields, 0, 0, None) for entry in new], room

    def _claim_idle(
        self,
        stream: RefStream,
        group: RefGroup,
        request: GroupRequest,
        room: int | None,
        stamped: set[EntryId],
        now_ms: int,
    ) -> list[Delivery]:
        if request.claim_idle_ms is None:
            return []
        taken: list[Delivery] = []
        for one in group.longest_idle_first():
            entry = stream.get(one.id)
            if entry is None or not is_idle(one, request.claim_idle_ms, now_ms):
                continue
            if one.id in stamped:  # a read claims an entry once
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

    def nack(
        self,
        name: bytes,
        group: bytes,
        ids: Sequence[EntryId],
        mode: NackMode,
        consumer: bytes | None,
    ) -> list[Outcome]:
        def act(found: RefGroup, one: Pending) -> Outcome:
            counts = {"silent": max(one.count - 1, 0), "fail": one.count, "fatal": COUNT_MAX}
            found.stamp(one, None, 0, counts[mode.value])
            return Outcome.RELEASED

        return self._each(name, group, ids, consumer, act)

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


def claim_count(request: ClaimRequest, one: Pending) -> int:
    if request.retry_count is not None:
        return request.retry_count
    return one.count if request.just_id else min(one.count + 1, COUNT_MAX)


def generate_id(asked: IdRequest, last_id: EntryId, index: int, now_ms: int) -> EntryId:
    if asked == MIN_ID:
        text = "ERR The ID specified in XADD must be greater than 0-0"
        raise IdNotGreater(text, last_id=last_id, index=index)
    if last_id == MAX_ID:
        raise IdsExhausted
    if asked is None:
        if now_ms > last_id.ms:
            return EntryId(now_ms, 0)
        is_full = last_id.seq == MAX_ID.seq
        return EntryId(last_id.ms + 1, 0) if is_full else EntryId(last_id.ms, last_id.seq + 1)
    if isinstance(asked, PartialId):
        seq = last_id.seq + 1 if asked.ms == last_id.ms else 0
        asked = EntryId(asked.ms, seq if seq <= MAX_ID.seq else 0)
    if asked <= last_id:
        text = "ERR The ID specified in XADD is equal or smaller than the target stream top item"
        raise IdNotGreater(text, last_id=last_id, index=index)
    return asked


def check_fields(fields: Fields, index: int) -> None:
    if not fields or len(fields) % 2:
        text = "ERR wrong number of arguments for 'xadd' command"
        raise Invalid(text, field=f"entries[{index}].fields")


def check_trim(request: TrimRequest) -> None:
    if request.max_length is not None and request.min_id is not None:
        text = "MAXLEN and MINID options at the same time are not compatible"
        raise Invalid(f"ERR syntax error, {text}", field="min_id")
    if request.max_length is None and request.min_id is None:
        text = "XTRIM must be called with a trimming strategy"
        raise Invalid(f"ERR syntax error, {text}", field="max_length")
    if request.max_length is not None and request.max_length < 0:
        raise Invalid("ERR The MAXLEN argument must be >= 0.", field="max_length")
    if request.limit is not None and request.limit < 0:
        raise Invalid("ERR The LIMIT argument must be >= 0.", field="limit")
    if request.limit is not None and not request.approximate:
        text = "LIMIT cannot be used without the special ~ option"
        raise Invalid(f"ERR syntax error, {text}", field="limit")
