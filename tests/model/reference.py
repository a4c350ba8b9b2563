"""The obvious implementation: plain lists and dicts, scanned from end to end for every question.

Written from the description of Redis Streams, never from the engine. It speaks the engine's words
(entries, replies, errors) so that answers can be compared as they are. Where Headgate differs from
Redis on purpose, the line says `Ours:`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from msgspec import UNSET
from msgspec.structs import asdict, replace

from headgate.engine.config import NO_POLICY, GroupPolicy, StreamConfig
from headgate.engine.entry import MIN_ID, Draft, Entry, EntryId, Fields
from headgate.engine.errors import GroupExists, IdsExhausted, Invalid, StreamNotFound
from headgate.engine.replies import (
    Claimed,
    ConsumerInfo,
    Deletion,
    Delivery,
    GroupDetail,
    GroupInfo,
    GroupRead,
    GroupState,
    Outcome,
    PendingItem,
    PendingSummary,
    Redriven,
    RedriveOutcome,
    StreamDetail,
)
from headgate.engine.requests.deliveries import Claim, ListPending, Nack, NackMode, ReadGroup
from headgate.engine.requests.entries import References
from headgate.engine.requests.groups import GroupStart, UpdateGroup
from tests.model.reference_keyspace import RefKeyspace
from tests.model.reference_stream import Pending, Reader, RefGroup, RefStream

COUNT_MAX = 2**63 - 1
ORIGIN = (b"_stream", b"_id", b"_group", b"_deliveries", b"_reason")


class Reference(RefKeyspace):
    """All streams; methods as the engine's, without waiting and with the time as an argument."""

    def stream_detail(self, name: bytes, count: int | None, now_ms: int) -> StreamDetail:
        info, stream = self.stream_info(name), self._stream(name)
        groups = [
            GroupDetail(
                info=self.group(name, group),
                pending=self.pending(ListPending(name, group, limit=10**9), now_ms)[:count],
                consumers=self.consumers(name, group, now_ms),
            )
            for group in sorted(stream.groups)
        ]
        return StreamDetail(info, stream.entries[:count], groups)

    # Groups and consumers

    def create_group(
        self,
        name: bytes,
        group: bytes,
        start: GroupStart,
        *,
        create_stream: bool,
        policy: GroupPolicy | None = None,
        now_ms: int,
    ) -> bool:
        check_policy(name, policy or NO_POLICY)
        if name not in self.streams and not create_stream:
            raise StreamNotFound(name)
        stream = self.streams.get(name) or self._make(name, StreamConfig(), now_ms)
        if group not in stream.groups:
            stream.groups[group] = RefGroup(*position(stream, start), policy or NO_POLICY)
            return True
        if policy not in (None, stream.groups[group].policy):
            raise GroupExists(name, group)
        return False

    def update_group(self, request: UpdateGroup) -> GroupInfo:
        stream, found = self._group(request.stream, request.group)
        said = {name: new for name, new in asdict(request.policy).items() if new is not UNSET}
        policy = GroupPolicy(**asdict(found.policy) | said)
        if policy != found.policy:
            check_policy(request.stream, policy)
        found.policy = policy
        if request.moves:
            last_id = found.last_id if request.last_id is UNSET else request.last_id
            entries_read = None if request.entries_read is UNSET else request.entries_read
            start = GroupStart(last_id, entries_read)
            found.last_id, found.entries_read = position(stream, start)
        return self.group(request.stream, request.group)

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
            policy=found.policy,
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
        self, request: ReadGroup, acked: Sequence[EntryId], now_ms: int
    ) -> list[GroupRead]:
        pairs = [self._group(cursor.stream, request.group) for cursor in request.cursors]
        request = under_policy(request, pairs[0][1].policy)
        for cursor in request.cursors:
            self.ack(cursor.stream, request.group, acked, request.consumer)
        for cursor in request.cursors:
            if cursor.after is None:
                self.dead_letter(cursor.stream, request.group, request.claim_idle_ms, now_ms)
        return self.read_group_once(request, now_ms)

    def read_group_once(self, request: ReadGroup, now_ms: int) -> list[GroupRead]:
        """Read without anything that a policy does."""
        pairs = [self._group(cursor.stream, request.group) for cursor in request.cursors]
        for _, group in pairs:
            group.turns_before = group.turns
        reads = []
        asked = request
        for cursor, (stream, group) in zip(request.cursors, pairs, strict=True):
            reader = group.see(request.consumer, now_ms)
            if cursor.after is None:
                found, room = self._take(stream, group, reader, asked, now_ms)
            else:
                found, room = self._history(stream, group, request, cursor.after, now_ms)
                # For all streams that follow.
                asked = replace(request, claim_idle_ms=None, claim_released=False)
            state = self._state(stream, group, request, cursor.after is None, room)
            held = len(group.held_by(request.consumer))
            served = bool(found) if cursor.after is None else room != 0
            reads.append(GroupRead(cursor.stream, found, served, stream.lag(group), held, state))
        return reads

    def _state(
        self,
        stream: RefStream,
        group: RefGroup,
        request: ReadGroup,
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
        request: ReadGroup,
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
        request: ReadGroup,
        room: int | None,
        now_ms: int,
    ) -> list[Delivery]:
        if request.claim_idle_ms is None and not request.claim_released:
            return []
        idle_ms = COUNT_MAX if request.claim_idle_ms is None else request.claim_idle_ms
        taken: list[Delivery] = []
        for one in group.longest_idle_first(now_ms):
            entry = stream.get(one.id)
            if entry is None or not is_idle(one, idle_ms, now_ms):
                continue
            if not request.claim_own and one.owner == request.consumer:
                continue
            if is_spent(group.policy, one.count):
                continue
            if one.turn > group.turns_before:  # this very read has delivered it
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
        request: ReadGroup,
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

    def nack(self, request: Nack, now_ms: int) -> list[Outcome]:
        stream, found = self._group(request.stream, request.group)
        resting: list[Pending] = []

        def act(found: RefGroup, one: Pending) -> Outcome:
            found.stamp(one, None, 0, nack_count(request, one))
            resting.append(one)
            return Outcome.RELEASED

        outcomes = []
        for entry_id in request.ids:
            if request.force and found.find(entry_id) is None and stream.get(entry_id) is not None:
                found.stamp(Pending(entry_id), None, 0, 0)
            outcomes += self._each(request.stream, request.group, [entry_id], request.consumer, act)
        for one in resting:
            rest_ms = rest_after(request, found.policy, one.count)
            one.rests_until = min(now_ms + rest_ms, COUNT_MAX) if rest_ms else 0
        return outcomes

    # Ours: what a policy asks for

    def nack_and_bury(self, request: Nack, now_ms: int) -> list[Outcome]:
        outcomes = self.nack(request, now_ms)
        nacked = dict.fromkeys(request.ids)
        self.dead_letter(request.stream, request.group, None, now_ms, nacked)
        return outcomes

    def dead_letter(
        self,
        name: bytes,
        group: bytes,
        claim_idle_ms: int | None,
        now_ms: int,
        nacked: Iterable[EntryId] | None = None,
    ) -> None:
        """Move what was delivered too often, and is idle again, to the dead letter stream."""
        stream, found = self._group(name, group)
        policy = found.policy
        if policy.max_deliveries is None or policy.dead_letter_stream is None:
            return
        idle_ms = min(
            COUNT_MAX if one is None else one for one in (policy.claim_idle_ms, claim_idle_ms)
        )
        candidates = found.longest_idle_first(now_ms)
        if nacked is not None:
            known = [found.find(entry_id) for entry_id in nacked]
            candidates = [one for one in known if one is not None and one.owner is None]
        dead = [
            (one, entry)
            for one in candidates
            if is_idle(one, idle_ms, now_ms) and one.count >= policy.max_deliveries
            if (entry := stream.get(one.id)) is not None
        ]
        drafts = [Draft(None, letter(name, group, one, entry)) for one, entry in dead]
        if not drafts:
            return
        with suppress(IdsExhausted):
            self.add_once(
                policy.dead_letter_stream,
                drafts,
                None,
                create_stream=True,
                expected_last_id=None,
                trim=None,
                now_ms=now_ms,
            )
            for one, _ in dead:
                found.drop(one.id)

    def run_housekeeping(self, now_ms: int) -> None:
        """Ours: what goes by time goes by itself: first by age, then by policy."""
        for name in self.streams:
            self.keep_stream(name, now_ms)
        for name in sorted(self.streams):
            for group, found in sorted(self.streams[name].groups.items()):
                self.dead_letter(name, group, None, now_ms)
                ttl_ms = found.policy.consumer_ttl_ms
                for consumer, reader in list(found.readers.items()):
                    is_idle_now = ttl_ms is not None and now_ms - reader.seen_ms >= ttl_ms
                    if is_idle_now and not found.held_by(consumer):
                        del found.readers[consumer]

    def redrive(
        self, name: bytes, group: bytes, ids: Sequence[EntryId] | None, limit: int, now_ms: int
    ) -> list[Redriven]:
        stream, found = self._group(name, group)
        letters = found.policy.dead_letter_stream
        if letters is None:
            raise Invalid("the group's policy names no dead_letter_stream")
        source = self.streams.get(letters)
        entries = [] if source is None else source.entries
        if ids is not None:
            order = list(dict.fromkeys(ids))
            entries = sorted((e for e in entries if e.id in order), key=lambda e: order.index(e.id))
        chosen = [
            (one, EntryId.parse(one.fields[-7].decode()), one.fields[:-10])
            for one in entries
            if one.fields[-10::2] == ORIGIN
            and (one.fields[-9], one.fields[-5]) == (name, group)
            and len(one.fields) > 10
        ][:limit]
        drafts = [Draft(None, own) for _, origin, own in chosen if stream.get(origin) is None]
        new_ids: list[EntryId] = []
        alive = {origin for _, origin, _ in chosen if stream.get(origin) is not None}
        if drafts:
            new_ids = self.add_once(
                name,
                drafts,
                None,
                create_stream=False,
                expected_last_id=None,
                trim=None,
                now_ms=now_ms,
            ).ids
        reply = []
        for one, origin, _ in chosen:
            if origin in alive:
                found.stamp(found.find(origin) or Pending(origin), None, 0, 0)
                reply.append(Redriven(one.id, RedriveOutcome.RELEASED, origin))
            else:
                reply.append(Redriven(one.id, RedriveOutcome.APPENDED, new_ids.pop(0)))
        if chosen:
            self.delete(letters, [one.id for one, _, _ in chosen], References.KEEP)
        return reply

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

    def claim(self, request: Claim, now_ms: int) -> Claimed:
        stream, found = self._group(request.stream, request.group)
        consumer = request.consumer
        found.last_id = max(found.last_id, request.last_id)
        reader = found.see(consumer, now_ms)
        deliveries: list[Delivery] = []
        purged: list[EntryId] = []
        for entry_id in request.ids:
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
            count = request.retry_count
            if count is None:
                count = claim_count(one, just_id=request.just_id)
            deliveries[-1] = deliveries[-1]._replace(count_set=count)
            at_ms = max(claim_time(request, now_ms), self.clock_set_ms)
            found.stamp(one, consumer, at_ms, count)
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
        self._group(name, group)
        self.dead_letter(name, group, min_idle_ms, now_ms)
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
                count = claim_count(one, just_id=just_id)
                deliveries[-1] = deliveries[-1]._replace(count_set=count)
                found.stamp(one, consumer, now_ms, count)
                reader.active_ms = now_ms
        return Claimed(deliveries, purged, ahead[0].id if ahead else MIN_ID)

    def pending(self, request: ListPending, now_ms: int) -> list[PendingItem]:
        _, found = self._group(request.stream, request.group)
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
            and (one.owner is None or max(now_ms - one.at_ms, 0) >= request.min_idle_ms)
        ][: request.limit]

    def pending_summary(self, name: bytes, group: bytes) -> PendingSummary:
        _, found = self._group(name, group)
        ids = [one.id for one in found.pel]
        counts = [(name, len(found.held_by(name))) for name in sorted(found.readers)]
        holders = [(name, count) for name, count in counts if count]
        return PendingSummary(
            total=len(ids),
            min_id=min(ids, default=None),
            max_id=max(ids, default=None),
            consumers=holders,
            holder_count=len(holders),
        )


def position(stream: RefStream, start: GroupStart) -> tuple[EntryId, int | None]:
    last_id = stream.last_id if start.last_id is None else start.last_id
    if start.entries_read is None:
        return last_id, None
    return last_id, min(start.entries_read, stream.added)


def room_for(request: ReadGroup, held: int) -> int | None:
    """Ours: what a consumer may still get before it holds max_pending."""
    if request.max_pending is None:
        return request.limit
    room = max(request.max_pending - held, 0)
    return room if request.limit is None else min(room, request.limit)


def is_idle(one: Pending, min_idle_ms: int, now_ms: int) -> bool:
    """Tell whether it may change hands."""
    if one.owner is None:
        return one.rests_until <= now_ms
    return max(now_ms - one.at_ms, 0) >= min_idle_ms


def under_policy(request: ReadGroup, policy: GroupPolicy) -> ReadGroup:
    """Ours: what the request does not say, the policy says."""
    if request.claim_idle_ms is None:
        request = replace(request, claim_idle_ms=policy.claim_idle_ms)
    known = [one for one in (request.max_pending, policy.max_pending) if one is not None]
    return replace(request, max_pending=min(known, default=None))


def is_spent(policy: GroupPolicy, count: int) -> bool:
    """Ours: tell whether it is not delivered again."""
    return policy.max_deliveries is not None and count >= policy.max_deliveries


def rest_after(request: Nack, policy: GroupPolicy, count: int) -> int:
    """Ours: a delay that was asked for, or what the policy says about a failure."""
    if is_spent(policy, count):
        return 0  # it is not delivered again
    if request.delay_ms is not None:
        return request.delay_ms
    if request.mode is not NackMode.FAIL or not policy.backoff_ms:
        return 0
    waits = dict(enumerate(policy.backoff_ms, 1))
    return waits.get(max(count, 1), policy.backoff_ms[-1])


def check_policy(name: bytes, policy: GroupPolicy) -> None:
    if (policy.max_deliveries is None) != (policy.dead_letter_stream is None):
        text = "max_deliveries and dead_letter_stream belong together"
        raise Invalid(text, location=("policy",))
    if policy.dead_letter_stream == name:
        text = "a stream cannot be its own dead letter stream"
        raise Invalid(text, location=("policy", "dead_letter_stream"))


def letter(name: bytes, group: bytes, one: Pending, entry: Entry) -> Fields:
    """Return the fields of a dead letter."""
    is_fatal = one.count == COUNT_MAX
    reason = b"fatal" if is_fatal else b"max_deliveries"
    origin = {
        b"_stream": name,
        b"_id": str(one.id).encode(),
        b"_group": group,
        b"_deliveries": b"" if is_fatal else str(one.count).encode(),
        b"_reason": reason,
    }
    return entry.fields + tuple(text for pair in origin.items() for text in pair)


def size_of(deliveries: Sequence[Delivery]) -> int:
    return sum(len(text) for one in deliveries for text in one.fields or ())


def is_too_much(request: ReadGroup, found: Sequence[Delivery], fields: Fields | None) -> bool:
    """Tell whether one more entry passes the bound in bytes (ours)."""
    if request.size_bytes_max is None or not found or fields is None:
        return False
    return size_of(found) + sum(map(len, fields)) > request.size_bytes_max


def within(new: list[Entry], request: ReadGroup, taken: Sequence[Delivery]) -> list[Entry]:
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


def claim_time(request: Claim, now_ms: int) -> int:
    at_ms = now_ms
    if request.idle_ms is not None:
        at_ms = now_ms - request.idle_ms
    if request.time_ms is not None:
        at_ms = request.time_ms
    return now_ms if at_ms < 0 or at_ms > now_ms else at_ms


def nack_count(request: Nack, one: Pending) -> int:
    if request.retry_count is not None:
        return request.retry_count
    if request.mode is NackMode.FATAL:
        return COUNT_MAX
    return max(one.count - 1, 0) if request.mode is NackMode.SILENT else one.count


def claim_count(one: Pending, *, just_id: bool) -> int:
    return one.count if just_id else min(one.count + 1, COUNT_MAX)
