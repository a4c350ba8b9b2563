"""The obvious implementation: plain lists and dicts, scanned from end to end for every question.

Written from the description of Redis Streams, never from the engine. It speaks the engine's words
(entries, replies, errors) so that answers can be compared as they are. Where Headgate differs from
Redis on purpose, the line says `Ours:`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction

from msgspec import UNSET
from msgspec.structs import asdict, replace

from headgate.engine.config import NO_POLICY, GroupPolicy, StreamConfig
from headgate.engine.entry import MIN_ID, Draft, Entry, EntryId, Fields
from headgate.engine.errors import (
    ClosedToAppends,
    GroupExists,
    IdsExhausted,
    Invalid,
    StreamNotFound,
)
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
from tests.filter_cases import holds
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
        stream, ref_group = self._group(request.stream, request.group)
        patch = request.policy
        changes = {name: getattr(patch.values, name) for name in patch.names}
        policy = GroupPolicy(**asdict(ref_group.policy) | changes)
        if policy != ref_group.policy:
            check_policy(request.stream, policy)
        ref_group.policy = policy
        if request.moves:
            last_id = ref_group.last_id if request.last_id is UNSET else request.last_id
            entries_read = None if request.entries_read is UNSET else request.entries_read
            start = GroupStart(last_id, entries_read)
            ref_group.last_id, ref_group.entries_read = position(stream, start)
        return self.group(request.stream, request.group)

    def destroy_group(self, name: bytes, group: bytes) -> bool:
        return self._stream(name).groups.pop(group, None) is not None

    def groups(self, name: bytes) -> list[GroupInfo]:
        return [self.group(name, group) for group in sorted(self._stream(name).groups)]

    def group(self, name: bytes, group: bytes) -> GroupInfo:
        stream, ref_group = self._group(name, group)
        return GroupInfo(
            name=group,
            last_id=ref_group.last_id,
            entries_read=ref_group.entries_read,
            lag=stream.lag(ref_group),
            pending_count=len(ref_group.pel),
            released_count=len(ref_group.held_by(None)),
            consumer_count=len(ref_group.readers),
            policy=ref_group.policy,
            closed_at_ms=stream.closed_at_ms,
            is_over=is_over(stream, ref_group),
        )

    def create_consumer(self, name: bytes, group: bytes, consumer: bytes, now_ms: int) -> bool:
        _, ref_group = self._group(name, group)
        if consumer in ref_group.readers:
            return False
        ref_group.see(consumer, now_ms)
        return True

    def delete_consumer(
        self, name: bytes, group: bytes, consumer: bytes, *, release: bool
    ) -> int | None:
        _, ref_group = self._group(name, group)
        if ref_group.readers.pop(consumer, None) is None:
            return None
        held = ref_group.held_by(consumer)
        for entry in held:
            if release:  # Ours: Redis only drops.
                ref_group.stamp(entry, None, 0, entry.count)
            else:
                ref_group.drop(entry.id)
        return len(held)

    def consumers(self, name: bytes, group: bytes, now_ms: int) -> list[ConsumerInfo]:
        _, ref_group = self._group(name, group)
        return [
            ConsumerInfo(
                name=consumer,
                pending_count=len(ref_group.held_by(consumer)),
                idle_ms=max(now_ms - reader.seen_ms, 0),
                inactive_ms=(
                    None if reader.active_ms is None else max(now_ms - reader.active_ms, 0)
                ),
            )
            for consumer, reader in sorted(ref_group.readers.items())
        ]

    def consumer(
        self, name: bytes, group: bytes, consumer: bytes, now_ms: int
    ) -> ConsumerInfo | None:
        named = [named for named in self.consumers(name, group, now_ms) if named.name == consumer]
        return named[0] if named else None

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
                self.settle(cursor.stream, request.group, request.claim_idle_ms, now_ms)
        positions = [group.last_id for _, group in pairs]
        reads = self.read_group_once(request, now_ms)
        if any(read.served for read in reads) or positions == [group.last_id for _, group in pairs]:
            return reads
        return self.read_group(request, (), now_ms)  # there may be more behind what was passed by

    def read_group_once(self, request: ReadGroup, now_ms: int) -> list[GroupRead]:
        """Read without anything that a policy does."""
        pairs = [self._group(cursor.stream, request.group) for cursor in request.cursors]
        for stream, group in pairs:
            stream.settle_turns()  # within a transaction, entries may just have gone
            group.turns_before = group.turns
            if request.by_policy:
                group.join(now_ms)
        reads = []
        asked = request
        for cursor, (stream, group) in zip(request.cursors, pairs, strict=True):
            reader = group.see(request.consumer, now_ms)
            if cursor.after is None:
                allowed = self._allowed(group, asked, now_ms)
                delivered, room = self._take(stream, group, reader, asked, allowed, now_ms)
                self._use_rate(group, asked, len(delivered), now_ms)
                state = self._state_after(stream, group, request, allowed, len(delivered), now_ms)
            else:
                delivered, room = self._history(stream, group, request, cursor.after, now_ms)
                state = GroupState.MAX_PENDING if room == 0 else GroupState.LIVE
                # For all streams that follow.
                asked = replace(request, claim_idle_ms=None, claim_released=False)
            held = len(group.held_by(request.consumer))
            served = bool(delivered) if cursor.after is None else room != 0
            served = served or state is GroupState.CLOSED
            reads.append(
                GroupRead(
                    *(cursor.stream, stream.timed(delivered), served, stream.lag(group), held),
                    state,
                )
            )
        return reads

    def _state_after(
        self,
        stream: RefStream,
        group: RefGroup,
        request: ReadGroup,
        allowed: int | None,
        count: int,
        now_ms: int,
    ) -> GroupState:
        """Ours: a consumer learns why it got what it got."""
        held = len(group.held_by(request.consumer))
        until_ms = group.policy.paused_until_ms
        is_at_end = not stream.ids or stream.ids[-1] <= group.last_id
        if request.by_policy and is_over(stream, group):
            return GroupState.CLOSED
        if request.by_policy and until_ms is not None and now_ms < until_ms:
            return GroupState.PAUSED
        if allowed == count and not is_at_end:
            return GroupState.RATE_LIMITED
        if request.max_pending is not None and held >= request.max_pending:
            return GroupState.MAX_PENDING
        if group.is_blocked:
            return GroupState.KEY_BLOCKED
        return GroupState.CAUGHT_UP if is_at_end else GroupState.LIVE

    def _allowed(self, group: RefGroup, request: ReadGroup, now_ms: int) -> int | None:
        """Ours: how many entries pause and rate let be delivered."""
        policy = group.policy if request.by_policy else NO_POLICY
        if policy.paused_until_ms is not None and now_ms < policy.paused_until_ms:
            return 0
        if policy.rate_per_s is None:
            return None
        gap_ms = Fraction(1000, policy.rate_per_s)
        latest_ms = now_ms + gap_ms * (policy.rate_burst or policy.rate_per_s)
        used_ms, allowed = max(group.rate_used_ms, Fraction(now_ms)), 0
        while used_ms + gap_ms <= latest_ms:
            used_ms, allowed = used_ms + gap_ms, allowed + 1
        return allowed

    def _use_rate(self, group: RefGroup, request: ReadGroup, count: int, now_ms: int) -> None:
        if request.by_policy and group.policy.rate_per_s is not None and count:
            used_ms = max(group.rate_used_ms, Fraction(now_ms))
            group.rate_used_ms = used_ms + Fraction(1000 * count, group.policy.rate_per_s)

    def _take(
        self,
        stream: RefStream,
        group: RefGroup,
        reader: Reader,
        request: ReadGroup,
        allowed: int | None,
        now_ms: int,
    ) -> tuple[list[Delivery], int | None]:
        """Take idle entries, then new ones."""
        room = room_for(request, len(group.held_by(request.consumer)))
        room = min((bound for bound in (room, allowed) if bound is not None), default=None)
        keys_behind = set(group.held.values())
        taken = self._claim_idle(stream, group, request, room, now_ms)
        new, group.is_blocked = self._new(stream, group, request, room, taken, keys_behind, now_ms)
        for entry in new:
            if not request.no_ack:
                item = group.find(entry.id) or Pending(entry.id)
                group.stamp(item, request.consumer, now_ms, 1)
        if taken or (new and not request.no_ack):
            reader.active_ms = now_ms
        return taken + [Delivery(entry.id, entry.fields, 0, 0, None) for entry in new], room

    def _new(
        self,
        stream: RefStream,
        group: RefGroup,
        request: ReadGroup,
        room: int | None,
        taken: list[Delivery],
        keys_behind: set[bytes],
        now_ms: int,
    ) -> tuple[list[Entry], bool]:
        """Return the new entries that are delivered, and whether no more can be held back.

        Ours: filters pass entries by, and keys hold them back.
        """
        policy = group.policy if request.by_policy else NO_POLICY
        new: list[Entry] = []
        left = None if request.size_bytes_max is None else request.size_bytes_max - size_of(taken)
        if room == len(taken) or (taken and left is not None and left <= 0):
            return [], False
        for entry in [entry for entry in stream.entries if entry.id > group.last_id]:
            values = dict(zip(entry.fields[::2], entry.fields[1::2], strict=True))
            key = None if policy.key_field is None else values.get(policy.key_field)
            if self._lets(stream, group, policy, entry.id, values, now_ms):
                if room == len(taken) + len(new):
                    break
                if key is not None and (
                    key in keys_behind or group.turns_of(key) >= (policy.key_turns or COUNT_MAX)
                ):
                    if group.find(entry.id) is None:
                        if len(group.held) >= (policy.key_ahead_max or 10_000):
                            return new, True
                        group.hold(entry.id, key)
                        keys_behind.add(key)
                else:
                    size_bytes = sum(item.size_bytes for item in new) + entry.size_bytes
                    if new and left is not None and size_bytes > max(left, 0):
                        break
                    new.append(entry)
                    if key is not None and not request.no_ack:
                        group.turns_taken.setdefault(entry.id, key)
            stream.advance(group, entry.id)
        return new, False

    def _lets(
        self,
        stream: RefStream,
        group: RefGroup,
        policy: GroupPolicy,
        entry_id: EntryId,
        values: dict[bytes, bytes],
        now_ms: int,
    ) -> bool:
        """Ours: tell whether a filter and the times of an entry let it be delivered."""
        if policy.filters is not None and not holds(json.loads(policy.filters), values):
            return False
        if policy is not group.policy:  # the request does not go by the rules
            return True
        key = None if policy.key_field is None else values.get(policy.key_field)
        return not self._waits(stream, group, entry_id, key, now_ms)

    def _waits(
        self, stream: RefStream, group: RefGroup, entry_id: EntryId, key: bytes | None, now_ms: int
    ) -> bool:
        """Ours: pass by an entry that is expired or not due; tells whether it was so."""
        due_ms = stream.times[entry_id].deliver_at_ms if entry_id in stream.times else None
        is_over = stream.is_over(entry_id, now_ms)
        if not is_over and (due_ms is None or due_ms <= now_ms):
            return False
        if group.find(entry_id) is not None:
            return True
        if not is_over and key is not None:
            group.hold(entry_id, key, due_ms)
        elif not is_over or group.policy.on_expiry:
            group.delay(entry_id, now_ms if is_over or due_ms is None else due_ms)
        return True

    def _claim_idle(
        self,
        stream: RefStream,
        group: RefGroup,
        request: ReadGroup,
        room: int | None,
        now_ms: int,
    ) -> list[Delivery]:
        taken: list[Delivery] = []
        ready = group.ready() if request.by_policy else []
        for entry_id in [each for each in ready if not stream.is_over(each, now_ms)]:
            pending, entry = group.find(entry_id), stream.get(entry_id)
            assert pending is not None
            assert entry is not None
            if len(taken) == room or is_too_much(request.size_bytes_max, taken, entry.fields):
                return taken
            taken.append(before(pending, entry.fields, request.consumer, now_ms))
            group.stamp(pending, request.consumer, now_ms, 1)
        if request.claim_idle_ms is None and not request.claim_released:
            return taken
        idle_ms = COUNT_MAX if request.claim_idle_ms is None else request.claim_idle_ms
        for pending in group.longest_idle_first(now_ms):
            entry = stream.get(pending.id)
            if entry is None or not is_idle(pending, idle_ms, now_ms):
                continue
            if not request.claim_own and pending.owner == request.consumer:
                continue
            is_over = request.by_policy and stream.is_over(pending.id, now_ms)
            if is_over or is_spent(self._policy(stream, group), pending.count):
                continue
            if pending.turn > group.turns_before:  # this very read has delivered it
                continue
            if len(taken) == room or is_too_much(request.size_bytes_max, taken, entry.fields):
                break
            taken.append(before(pending, entry.fields, request.consumer, now_ms))
            group.stamp(pending, request.consumer, now_ms, min(pending.count + 1, COUNT_MAX))
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
            room = room_for(request, sum(entry.id <= after for entry in mine))
        deliveries: list[Delivery] = []
        for held_entry in [entry for entry in mine if entry.id > after][:room]:
            entry = stream.get(held_entry.id)
            fields = None if entry is None else entry.fields
            if is_too_much(request.size_bytes_max, deliveries, fields):
                break
            deliveries.append(before(held_entry, fields, request.consumer, now_ms))
            if entry is not None:
                group.stamp(
                    held_entry, request.consumer, now_ms, min(held_entry.count + 1, COUNT_MAX)
                )
        return deliveries, room

    def _each(
        self,
        name: bytes,
        group: bytes,
        ids: Sequence[EntryId],
        consumer: bytes | None,
        act: Callable[[RefGroup, Pending], Outcome],
    ) -> list[Outcome]:
        """Ours: fenced by the consumer if one is named; what nobody owns may be anybody's."""
        _, ref_group = self._group(name, group)
        outcomes = []
        for entry_id in ids:
            pending = ref_group.find(entry_id)
            if pending is None:
                outcomes.append(Outcome.NOT_PENDING)
            elif consumer is not None and pending.owner not in (None, consumer):
                outcomes.append(Outcome.CLAIMED)
            else:
                outcomes.append(act(ref_group, pending))
        return outcomes

    def ack(
        self, name: bytes, group: bytes, ids: Sequence[EntryId], consumer: bytes | None
    ) -> list[Outcome]:
        def act(ref_group: RefGroup, pending: Pending) -> Outcome:
            ref_group.drop(pending.id)
            return Outcome.ACKED

        return self._each(name, group, ids, consumer, act)

    def ack_and_delete(
        self, name: bytes, group: bytes, ids: Sequence[EntryId], references: References
    ) -> list[Deletion]:
        if name not in self.streams or group not in self.streams[name].groups:
            return [Deletion.NOT_FOUND for _ in ids]
        stream, ref_group = self._group(name, group)
        outcomes = []
        for entry_id in ids:
            if not ref_group.drop(entry_id):
                outcomes.append(Deletion.NOT_FOUND)
            elif stream.get(entry_id) is not None:
                outcomes.append(self._delete(stream, entry_id, references))
            else:  # only the pending entry was left
                outcomes.append(Deletion.DELETED)
                if references is References.DELETE:
                    stream.purge([entry_id])
        return outcomes

    def nack(self, request: Nack, now_ms: int) -> list[Outcome]:
        stream, ref_group = self._group(request.stream, request.group)
        resting: list[Pending] = []

        def act(ref_group: RefGroup, pending: Pending) -> Outcome:
            if request.counts is not None and (
                pending.owner is None or pending.count != request.counts[pending.id]
            ):
                return Outcome.CLAIMED
            ref_group.stamp(pending, None, 0, nack_count(request, pending))
            pending.error = pending.error if request.error is None else request.error
            resting.append(pending)
            return Outcome.RELEASED

        outcomes = []
        for entry_id in request.ids:
            if (
                request.force
                and ref_group.find(entry_id) is None
                and stream.get(entry_id) is not None
            ):
                ref_group.stamp(Pending(entry_id), None, 0, 0)
            outcomes += self._each(request.stream, request.group, [entry_id], request.consumer, act)
        for pending in resting:
            delay_ms = delay_after(request, self._policy(stream, ref_group), pending.count)
            pending.delayed_until = min(now_ms + delay_ms, COUNT_MAX) if delay_ms else 0
        return outcomes

    # Ours: what a policy asks for

    def nack_and_dead_letter(self, request: Nack, now_ms: int) -> list[Outcome]:
        outcomes = self.nack(request, now_ms)
        released = [
            entry_id
            for entry_id, outcome in zip(request.ids, outcomes, strict=True)
            if outcome is Outcome.RELEASED
        ]
        self.settle(request.stream, request.group, None, now_ms, released)
        return outcomes

    def settle(
        self,
        name: bytes,
        group: bytes,
        claim_idle_ms: int | None,
        now_ms: int,
        released: Iterable[EntryId] | None = None,
    ) -> None:
        """Move entries delivered too often to the dead letter stream, and drop expired ones."""
        stream, ref_group = self._group(name, group)
        policy = self._policy(stream, ref_group)
        idle_ms = min(
            COUNT_MAX if limit_ms is None else limit_ms
            for limit_ms in (policy.claim_idle_ms, claim_idle_ms)
        )
        chosen = [*(ref_group.ready() if stream.times else ()), *dict.fromkeys(released or ())]
        candidates = [pending for each in chosen if (pending := ref_group.find(each)) is not None]
        if released is None:
            idle = ref_group.longest_idle_first(now_ms)
            candidates += [entry for entry in idle if is_idle(entry, idle_ms, now_ms)]
        else:
            candidates = [each for each in candidates if each.id in released and each.owner is None]
        dead: list[tuple[Pending, Entry]] = []
        drafts: list[Draft] = []
        for each in candidates:
            entry, is_over = stream.get(each.id), stream.is_over(each.id, now_ms)
            spent = is_spent(policy, each.count) and is_idle(each, 0, now_ms)
            becomes_dead = spent or (is_over and policy.on_expiry)
            if entry is not None and becomes_dead and policy.dead_letter_stream is not None:
                dead.append((each, entry))
                fields = dead_letter_fields(name, group, each, entry, is_expired=not spent)
                drafts.append(Draft(None, fields))
            elif is_over:
                ref_group.drop(each.id)
        if not drafts or policy.dead_letter_stream is None:
            return
        with suppress(IdsExhausted, ClosedToAppends):
            self.add_once(
                policy.dead_letter_stream,
                drafts,
                None,
                create_stream=True,
                expected_last_id=None,
                trim=None,
                now_ms=now_ms,
            )
            for pending, _ in dead:
                ref_group.drop(pending.id)

    def _policy(self, stream: RefStream, group: RefGroup) -> GroupPolicy:
        """Return the policy as it applies: a renamed stream is not its own dead letter stream."""
        name = group.policy.dead_letter_stream
        if name is None or self.streams.get(name) is not stream:
            return group.policy
        return replace(group.policy, max_deliveries=None, dead_letter_stream=None)

    def _give_again(self, stream: RefStream, group: RefGroup, entry_id: EntryId) -> None:
        """Make an entry nobody's; one with a key waits for its turn."""
        entry, pending = stream.get(entry_id), group.find(entry_id)
        assert entry is not None
        values = dict(zip(entry.fields[::2], entry.fields[1::2], strict=True))
        field = group.policy.key_field
        key = None if field is None else values.get(field)
        if key is None or pending is not None:
            group.stamp(pending or Pending(entry_id), None, 0, 0)
        else:
            group.hold(entry_id, key)

    def run_housekeeping(self, now_ms: int) -> None:
        """Ours: what goes by time goes by itself: first by age, then by policy."""
        for name, stream in self.streams.items():
            over = [each for each in stream.times if stream.is_over(each, now_ms)]
            unlooked = sorted(set(over) - stream.looked)
            stream.looked |= set(unlooked)
            for group in sorted(stream.groups) if unlooked else []:
                self.settle(name, group, None, now_ms, unlooked)
            self.keep_stream(name, now_ms)
        for name in sorted(self.streams):
            for group, ref_group in sorted(self.streams[name].groups.items()):
                self.settle(name, group, None, now_ms)
                ttl_ms = ref_group.policy.consumer_ttl_ms
                for consumer, reader in list(ref_group.readers.items()):
                    is_idle_now = ttl_ms is not None and now_ms - reader.seen_ms >= ttl_ms
                    if is_idle_now and not ref_group.held_by(consumer):
                        del ref_group.readers[consumer]

    def redrive(
        self, name: bytes, group: bytes, ids: Sequence[EntryId] | None, limit: int, now_ms: int
    ) -> list[Redriven]:
        stream, ref_group = self._group(name, group)
        dead_letters = ref_group.policy.dead_letter_stream
        if dead_letters is None:
            raise Invalid("the group's policy names no dead_letter_stream")
        if dead_letters == name:
            return []
        source = self.streams.get(dead_letters)
        entries = [] if source is None else source.entries
        if ids is not None:
            order = list(dict.fromkeys(ids))
            entries = sorted((e for e in entries if e.id in order), key=lambda e: order.index(e.id))
        parted = [(entry, without_error(entry.fields)) for entry in entries]
        chosen = [
            (entry, EntryId.parse(fields[-7].decode()), fields[:-10])
            for entry, fields in parted
            if fields[-10::2] == ORIGIN
            and (fields[-9], fields[-5]) == (name, group)
            and len(fields) > 10
        ][:limit]
        alive = {
            origin
            for _, origin, _ in chosen
            if stream.get(origin) is not None and not stream.is_over(origin, now_ms)
        }
        drafts = [Draft(None, own) for _, origin, own in chosen if origin not in alive]
        new_ids: list[EntryId] = []
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
        for entry, origin, _ in chosen:
            if origin in alive:
                self._give_again(stream, ref_group, origin)
                reply.append(Redriven(entry.id, RedriveOutcome.RELEASED, origin))
            else:
                reply.append(Redriven(entry.id, RedriveOutcome.APPENDED, new_ids.pop(0)))
        if chosen:
            self.delete(dead_letters, [entry.id for entry, _, _ in chosen], References.KEEP)
        return reply

    def give_back(
        self, name: bytes, group: bytes, consumer: bytes, counts: Mapping[EntryId, int]
    ) -> None:
        """Ours: undo deliveries, unless the entry was delivered again since."""
        if name not in self.streams or group not in self.streams[name].groups:
            return
        ref_group = self.streams[name].groups[group]
        for entry_id, count in counts.items():
            pending = ref_group.find(entry_id)
            if pending is not None and pending.owner == consumer and pending.count == count:
                ref_group.stamp(pending, None, 0, max(count - 1, 0))

    def extend(
        self, name: bytes, group: bytes, ids: Sequence[EntryId], consumer: bytes, now_ms: int
    ) -> list[Outcome]:
        """Ours: XCLAIM JUSTID of what one holds oneself, and nothing else."""

        def act(ref_group: RefGroup, pending: Pending) -> Outcome:
            if pending.owner is None:
                return Outcome.NOT_PENDING
            ref_group.stamp(pending, consumer, now_ms, pending.count)
            ref_group.see(consumer, now_ms).active_ms = now_ms
            return Outcome.EXTENDED

        return self._each(name, group, ids, consumer, act)

    def claim(self, request: Claim, now_ms: int) -> Claimed:
        stream, ref_group = self._group(request.stream, request.group)
        consumer = request.consumer
        ref_group.last_id = max(ref_group.last_id, request.last_id)
        reader = ref_group.see(consumer, now_ms)
        deliveries: list[Delivery] = []
        purged: list[EntryId] = []
        for entry_id in request.ids:
            item, entry = ref_group.find(entry_id), stream.get(entry_id)
            if entry is None:
                purged += [entry_id] if ref_group.drop(entry_id) else []
                continue
            fields = None if request.just_id else entry.fields
            if item is None and request.force:
                delivery = Delivery(entry_id, fields, 0, 0, None)
                item = Pending(entry_id, count=1)
            elif item is not None and is_idle(item, request.min_idle_ms, now_ms):
                delivery = before(item, fields, consumer, now_ms)
            else:
                continue
            if is_too_much(request.size_bytes_max, deliveries, fields):
                break
            deliveries.append(delivery)
            count = request.retry_count
            if count is None:
                count = claim_count(item, just_id=request.just_id)
            deliveries[-1] = deliveries[-1]._replace(count_set=count)
            at_ms = max(claim_time(request, now_ms), self.clock_set_ms)
            ref_group.stamp(item, consumer, at_ms, count)
            reader.active_ms = now_ms
        return Claimed(stream.timed(deliveries), purged, MIN_ID)

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
        size_bytes_max: int | None,
        now_ms: int,
    ) -> Claimed:
        self._group(name, group)
        self.settle(name, group, min_idle_ms, now_ms)
        stream, ref_group = self._group(name, group)
        reader = ref_group.see(consumer, now_ms)
        deliveries: list[Delivery] = []
        purged: list[EntryId] = []
        ahead = [entry for entry in ref_group.pel if entry.id >= start]
        for _ in range(10 * limit):
            if not ahead or len(deliveries) + len(purged) == limit:
                break
            delivery = ahead.pop(0)
            entry = stream.get(delivery.id)
            if entry is None:
                ref_group.drop(delivery.id)
                purged.append(delivery.id)
            elif is_idle(delivery, min_idle_ms, now_ms):
                fields = None if just_id else entry.fields
                if is_too_much(size_bytes_max, deliveries, fields):
                    return Claimed(stream.timed(deliveries), purged, delivery.id)
                deliveries.append(before(delivery, fields, consumer, now_ms))
                count = claim_count(delivery, just_id=just_id)
                deliveries[-1] = deliveries[-1]._replace(count_set=count)
                ref_group.stamp(delivery, consumer, now_ms, count)
                reader.active_ms = now_ms
        return Claimed(stream.timed(deliveries), purged, ahead[0].id if ahead else MIN_ID)

    def pending(self, request: ListPending, now_ms: int) -> list[PendingItem]:
        _, ref_group = self._group(request.stream, request.group)
        return [
            PendingItem(
                id=entry.id,
                consumer=entry.owner,
                idle_ms=None if entry.owner is None else max(now_ms - entry.at_ms, 0),
                delivery_count=entry.count,
                delay_ms=ref_group.delay_of(entry, now_ms),
                last_error=entry.error,
                waits_for=ref_group.waits_for(entry.id),
            )
            for entry in ref_group.pel
            if request.start <= entry.id <= request.end
            and request.consumer in (None, entry.owner)
            and (entry.owner is None or max(now_ms - entry.at_ms, 0) >= request.min_idle_ms)
        ][: request.limit]

    def pending_summary(self, name: bytes, group: bytes) -> PendingSummary:
        _, ref_group = self._group(name, group)
        ids = [entry.id for entry in ref_group.pel]
        counts = [(name, len(ref_group.held_by(name))) for name in sorted(ref_group.readers)]
        holders = [(name, count) for name, count in counts if count]
        return PendingSummary(
            total=len(ids),
            min_id=min(ids, default=None),
            max_id=max(ids, default=None),
            consumers=holders,
            holder_count=len(holders),
        )


def is_over(stream: RefStream, group: RefGroup) -> bool:
    """Ours: tell whether all of a closed stream is settled in a group."""
    is_read = all(entry.id <= group.last_id for entry in stream.entries)
    return stream.closed_at_ms is not None and is_read and not group.pel


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


def is_idle(pending: Pending, min_idle_ms: int, now_ms: int) -> bool:
    """Tell whether it may change hands."""
    if pending.owner is None:
        return pending.delayed_until <= now_ms
    return max(now_ms - pending.at_ms, 0) >= min_idle_ms


def under_policy(request: ReadGroup, policy: GroupPolicy) -> ReadGroup:
    """Ours: what the request does not say, the policy says."""
    if request.claim_idle_ms is None:
        request = replace(request, claim_idle_ms=policy.claim_idle_ms)
    known = [entry for entry in (request.max_pending, policy.max_pending) if entry is not None]
    return replace(request, max_pending=min(known, default=None))


def is_spent(policy: GroupPolicy, count: int) -> bool:
    """Ours: tell whether it is not delivered again."""
    return policy.max_deliveries is not None and count >= policy.max_deliveries


def delay_after(request: Nack, policy: GroupPolicy, count: int) -> int:
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
    if policy.on_expiry and policy.dead_letter_stream is None:
        raise Invalid("on_expiry needs a dead_letter_stream", location=("policy", "on_expiry"))
    if policy.dead_letter_stream == name:
        text = "a stream cannot be its own dead letter stream"
        raise Invalid(text, location=("policy", "dead_letter_stream"))


def dead_letter_fields(
    name: bytes, group: bytes, pending: Pending, entry: Entry, *, is_expired: bool
) -> Fields:
    """Return the fields of a dead letter."""
    is_fatal = pending.count == COUNT_MAX
    reason = b"fatal" if is_fatal else b"expired" if is_expired else b"max_deliveries"
    origin = {
        b"_stream": name,
        b"_id": str(pending.id).encode(),
        b"_group": group,
        b"_deliveries": b"" if is_fatal else str(pending.count).encode(),
        b"_reason": reason,
    }
    if pending.error is not None:
        origin[b"_error"] = pending.error
    return entry.fields + tuple(text for pair in origin.items() for text in pair)


def without_error(fields: Fields) -> Fields:
    """Return the fields of an entry without the error that a dead letter may end with."""
    return fields[:-2] if fields[-2] == b"_error" else fields


def size_of(deliveries: Sequence[Delivery]) -> int:
    return sum(len(text) for delivery in deliveries for text in delivery.fields or ())


def is_too_much(
    size_bytes_max: int | None, delivered: Sequence[Delivery], fields: Fields | None
) -> bool:
    """Tell whether one more entry passes the bound in bytes (ours)."""
    if size_bytes_max is None or not delivered or fields is None:
        return False
    return size_of(delivered) + sum(map(len, fields)) > size_bytes_max


def before(pending: Pending, fields: Fields | None, consumer: bytes, now_ms: int) -> Delivery:
    """Describe a pending entry as it is before it is delivered again."""
    idle_ms = 0 if pending.owner is None else max(now_ms - pending.at_ms, 0)
    return Delivery(
        pending.id,
        fields,
        idle_ms,
        pending.count,
        None if pending.owner == consumer else pending.owner,
        last_error=pending.error,
    )


def claim_time(request: Claim, now_ms: int) -> int:
    at_ms = now_ms
    if request.idle_ms is not None:
        at_ms = now_ms - request.idle_ms
    if request.time_ms is not None:
        at_ms = request.time_ms
    return now_ms if at_ms < 0 or at_ms > now_ms else at_ms


def nack_count(request: Nack, pending: Pending) -> int:
    if request.retry_count is not None:
        return request.retry_count
    if request.mode is NackMode.FATAL:
        return COUNT_MAX
    return max(pending.count - 1, 0) if request.mode is NackMode.SILENT else pending.count


def claim_count(pending: Pending, *, just_id: bool) -> int:
    return pending.count if just_id else min(pending.count + 1, COUNT_MAX)
