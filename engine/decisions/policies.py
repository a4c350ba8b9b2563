"""Decisions that a group's policy asks for: dead letters, their return, idle consumers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

from headgate.engine.commands import (
    Command,
    ConsumerDeleted,
    EntriesAcked,
    EntriesDeleted,
    EntriesReleased,
)
from headgate.engine.config import GroupPolicy
from headgate.engine.decisions import Decision, Decisions, Unclaimable
from headgate.engine.decisions.entries import add
from headgate.engine.decisions.name_ranges import shown_by, shows
from headgate.engine.entry import MAX_ID, MIN_ID, Draft, Entry, EntryId, Fields, is_storable
from headgate.engine.errors import Invalid, OutOfReach, StreamError
from headgate.engine.limits import (
    BLOCK_BYTES_MAX,
    CONSUMERS_AT_ONCE_MAX,
    COUNT_MAX,
    DEAD_LETTERS_AT_ONCE_MAX,
    DEAD_SCAN_MAX,
    REDRIVE_SCAN_MAX,
    REDRIVEN_AT_ONCE_MAX,
)
from headgate.engine.origin import Origin, entry_of, origins
from headgate.engine.replies import Redriven, RedriveOutcome
from headgate.engine.requests.deliveries import Redrive
from headgate.engine.requests.entries import Add
from headgate.engine.requests.names import NameFilter
from headgate.engine.room import ReadRoom
from headgate.engine.state.group import Group
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.pending import PendingEntry
from headgate.engine.state.stream import Stream


def check_policy(stream: bytes, policy: GroupPolicy) -> None:
    """Raise `Invalid` if the fields of a policy contradict each other."""
    if (policy.max_deliveries is None) != (policy.dead_letter_stream is None):
        text = "max_deliveries and dead_letter_stream belong together"
        raise Invalid(text, location=("policy",))
    if policy.dead_letter_stream == stream:
        text = "a stream cannot be its own dead letter stream"
        raise Invalid(text, location=("policy", "dead_letter_stream"))


def check_reach(stream: Stream, to: bytes, reach: NameFilter | None) -> None:
    """Refuse to take policies along that name a stream out of reach.

    Args:
        stream: whose groups have the policies.
        to: the name under which they will be in force.
        reach: which streams they may name; None: all.

    Raises:
        OutOfReach: one of them names another.
    """
    if reach is None:
        return
    policies = {group.policy for group in stream.groups.values()}
    names = {name for policy in policies for name in policy.on(to).other_streams}
    if names:
        ranges = shown_by(reach)
        for name in sorted(names):
            if not shows(ranges, name):
                raise OutOfReach(name)


def dead_letter(
    keyspace: Keyspace,
    stream: bytes,
    group: bytes,
    claim_idle_ms: int | None,
    now_ms: int,
    *,
    released: Sequence[EntryId] | None = None,
) -> Decision[int]:
    """Decide to move entries that were delivered too often to the dead letter stream.

    The entries stop being pending and are appended there in one step. One decision moves only so
    many that no read waits long. The reply is how many are moved. An entry that has been a dead
    letter of this group before stays pending, and can be claimed by its id; if it were moved, it
    would circulate and grow. So does an entry that has no room for the fields of its origin.

    Args:
        keyspace: all streams.
        stream: the name of the stream.
        group: the name of the group.
        claim_idle_ms: a delivery counts as failed when it is idle for this long, or for the time in
            the policy if that is shorter; None: only the policy counts.
        now_ms: unix time.
        released: look only at these entries, which were just given back; None: look at the longest
            idle.

    Raises:
        GroupNotFound: the group does not exist.
    """
    group_state, stream_state = keyspace.group(stream, group), keyspace.stream(stream)
    policy = group_state.policy.on(stream)
    if policy.max_deliveries is None or policy.dead_letter_stream is None:
        return Decision(0, [])
    idle_ms = min(
        COUNT_MAX if policy.claim_idle_ms is None else policy.claim_idle_ms,
        COUNT_MAX if claim_idle_ms is None else claim_idle_ms,
    )
    steady_ms = keyspace.steady_ms(now_ms)
    if released is None:
        dead = _idle_too_long(stream_state, group_state, idle_ms, steady_ms)
    else:
        dead = _given_back(stream_state, group_state, released, steady_ms)
    unclaimable = [Unclaimable(stream, group, dead.others)] if dead.others else []
    if not dead.drafts:
        return Decision(0, [], None, unclaimable)
    try:
        appended = add(keyspace, Add(policy.dead_letter_stream, dead.drafts), now_ms)
    except StreamError:  # the ids are exhausted, or a limit is reached: all stay pending
        return Decision(0, [], None, unclaimable)
    settled = EntriesAcked(stream, group, dead.ids, are_dead_letters=True)
    return Decision(len(dead.ids), [*appended.commands, settled], None, unclaimable)


def redrive(keyspace: Keyspace, request: Redrive, now_ms: int) -> Decision[list[Redriven]]:
    """Decide to send dead letters of a group back, the oldest first, in parts.

    If the original entry still exists, it goes to the next reader of the group with a delivery
    count of 0. If it is gone, the dead letter is appended as a new entry. In both cases the dead
    letter is deleted in the same step.
    """
    name, group, ids = request.stream, request.group, request.ids
    dead_letters = keyspace.group(name, group).policy.dead_letter_stream
    if dead_letters is None:
        raise Invalid("the group's policy names no dead_letter_stream")
    if dead_letters == name:
        return Decision([], [])
    unique = None if ids is None else list(dict.fromkeys(ids))
    return _Redrive(name, group, dead_letters, unique).part(
        [], 0, MIN_ID, request.limit, keyspace, now_ms
    )


class _Redrive(NamedTuple):
    """The dead letters that are to be sent back, part by part."""

    stream: bytes
    group: bytes
    dead_letters: bytes
    ids: list[EntryId] | None

    def part(
        self,
        before: list[Redriven],
        looked_at: int,
        start: EntryId,
        limit: int,
        keyspace: Keyspace,
        now_ms: int,
    ) -> Decision[list[Redriven]]:
        """Decide one part.

        Args:
            before: the replies of the earlier parts.
            looked_at: how many dead letters the earlier parts have looked at.
            start: where this part begins, if no ids were given.
            limit: how many may still be sent back.
            keyspace: all streams.
            now_ms: unix time.
        """
        source, stream = keyspace.find(self.dead_letters), keyspace.find(self.stream)
        if source is None or stream is None or self.group not in stream.groups:
            return Decision(before, [])
        entries, count = self._page(source, looked_at, start)
        sent: list[tuple[EntryId, EntryId, Fields]] = []
        for entry in entries:
            before_death = entry_of(entry.fields, self.stream, self.group)
            if before_death is not None and len(sent) < limit:
                sent.append((entry.id, *before_death))
        reply, commands = _send_back(keyspace, stream, self.group, self.dead_letters, sent, now_ms)
        looked_at += count
        limit -= len(sent)
        scan_max = REDRIVE_SCAN_MAX if self.ids is None else len(self.ids)
        is_over = not limit or looked_at >= scan_max
        if self.ids is None:
            is_over = is_over or not entries
            start = entries[-1].id.next() if entries else start
        next_part = None if is_over else partial(self.part, before + reply, looked_at, start, limit)
        return Decision(before + reply, commands, next_part)

    def _page(self, source: Stream, looked_at: int, start: EntryId) -> tuple[list[Entry], int]:
        """Return dead letters that one part looks at, and how many ids it has done with them."""
        room = ReadRoom(BLOCK_BYTES_MAX)
        if self.ids is None:
            entries = source.log.range(start, MAX_ID, REDRIVEN_AT_ONCE_MAX, room)
            return entries, len(entries)
        entries = []
        ids = self.ids[looked_at : looked_at + REDRIVEN_AT_ONCE_MAX]
        for at, entry_id in enumerate(ids):
            entry = source.log.get(entry_id)
            if entry is None:
                continue
            if not room.take(entry.fields, is_first=not entries):
                return entries, at
            entries.append(entry)
        return entries, len(ids)


def _send_back(
    keyspace: Keyspace,
    stream: Stream,
    group: bytes,
    dead_letters: bytes,
    sent: list[tuple[EntryId, EntryId, Fields]],
    now_ms: int,
) -> tuple[list[Redriven], list[Command]]:
    """Return replies and commands: release entries that still exist, append the others."""
    stream.log.require_all(origin for _, origin, _ in sent)
    released = [(origin, 0) for _, origin, _ in sent if stream.log.has(origin)]
    there = {origin for origin, _ in released}
    gone = [each for each in sent if each[1] not in there]
    commands: list[Command] = [EntriesReleased(stream.name, group, released)] if released else []
    new_ids: dict[EntryId, EntryId] = {}
    if gone:
        drafts = [Draft(None, fields) for _, _, fields in gone]
        appended = add(keyspace, Add(stream.name, drafts, create_stream=False), now_ms)
        commands += appended.commands
        new_ids = {
            letter_id: entry_id
            for (letter_id, _, _), entry_id in zip(gone, appended.reply.ids, strict=True)
        }
    if sent:
        commands.append(EntriesDeleted(dead_letters, [letter_id for letter_id, _, _ in sent]))
    reply = [
        Redriven(letter_id, RedriveOutcome.APPENDED, new_ids[letter_id])
        if letter_id in new_ids
        else Redriven(letter_id, RedriveOutcome.RELEASED, origin)
        for letter_id, origin, _ in sent
    ]
    return reply, commands


def forget_consumers(
    keyspace: Keyspace, stream: bytes, group: bytes, now_ms: int, *, after: bytes = b""
) -> Decision[bytes | None]:
    """Decide to delete consumers that are idle for too long; those that hold entries stay.

    One decision looks at some consumers, in order of their names, after `after`. The reply is the
    name after which to go on, or None at the end.

    Raises:
        GroupNotFound: the group does not exist.
    """
    group_state = keyspace.group(stream, group)
    ttl_ms = group_state.policy.consumer_ttl_ms
    if ttl_ms is None:
        return Decision(None, [])
    steady_ms = keyspace.steady_ms(now_ms)
    names = group_state.consumers.irange(after, inclusive=(not after, True))
    consumers = [group_state.consumers[each] for each in islice(names, CONSUMERS_AT_ONCE_MAX)]
    gone: list[Command] = [
        ConsumerDeleted(stream, group, consumer.name, release=True)
        for consumer in consumers
        if not consumer.pending and steady_ms - consumer.seen_at_ms >= ttl_ms
    ]
    return Decision(consumers[-1].name if len(consumers) == CONSUMERS_AT_ONCE_MAX else None, gone)


class _DeadLetters:
    """The dead letters that one decision makes, and the entries that cannot become any."""

    def __init__(self, stream: Stream, group: Group) -> None:
        self.drafts: list[Draft] = []
        self.ids: list[EntryId] = []  # of the entries that they are made of
        self.others: list[EntryId] = []
        self._stream = stream
        self._group = group
        self._room = ReadRoom(BLOCK_BYTES_MAX)

    @property
    def looked_at(self) -> int:
        """Return the number of entries looked at."""
        return len(self.ids) + len(self.others)

    def take(self, pending: PendingEntry) -> bool:
        """Take in a pending entry, if there is room to look at it. The first one has room.

        It cannot become a dead letter if it is gone from the stream, was one before, or would have
        too many fields.
        """
        entry = self._stream.log.get(pending.id)
        fields = () if entry is None else entry.fields
        if not self._room.take(fields, is_first=not self.looked_at):
            return False
        if entry is None or _was_dead_before(fields, self._stream.name, self._group.name):
            self.others.append(pending.id)
            return True
        fields = _dead_letter_fields(self._stream.name, self._group, pending, entry)
        if is_storable(fields):
            self.ids.append(pending.id)
            self.drafts.append(Draft(None, fields))
        else:
            self.others.append(pending.id)
        return True


def _idle_too_long(stream: Stream, group: Group, idle_ms: int, steady_ms: int) -> _DeadLetters:
    """Return the dead letters of entries that are idle for so long, the longest idle first."""
    dead = _DeadLetters(stream, group)
    for pending in islice(group.pel.longest_idle_first(steady_ms), DEAD_SCAN_MAX):
        is_over = dead.looked_at == DEAD_LETTERS_AT_ONCE_MAX
        if is_over or not pending.is_claimable(steady_ms, idle_ms):
            break
        if group.policy.is_spent(pending.delivery_count) and not dead.take(pending):
            break
    return dead


def _given_back(
    stream: Stream, group: Group, ids: Sequence[EntryId], steady_ms: int
) -> _DeadLetters:
    """Return the dead letters of entries that were just given back.

    Those that have no room are found when the longest idle are looked at.
    """
    dead = _DeadLetters(stream, group)
    for entry_id in dict.fromkeys(ids):
        pending = group.pel.by_id.get(entry_id)
        if pending is None or pending.owner is not None:
            continue
        is_spent = group.policy.is_spent(pending.delivery_count)
        if is_spent and pending.is_claimable(steady_ms, 0) and not dead.take(pending):
            break
    return dead


def _was_dead_before(fields: Fields, stream: bytes, group: bytes) -> bool:
    """Tell whether an entry was a dead letter of this group before. It came back to its stream.

    This happens if the dead letter stream has a group whose dead letters go to the first stream.
    """
    return any(origin.is_group(stream, group) for _, origin in origins(fields))


def _dead_letter_fields(stream: bytes, group: Group, pending: PendingEntry, entry: Entry) -> Fields:
    is_fatal = pending.delivery_count == COUNT_MAX
    deliveries = b"" if is_fatal else b"%d" % pending.delivery_count
    reason = b"fatal" if is_fatal else b"max_deliveries"
    error = group.pel.errors.get(pending.id)
    origin = Origin(stream, str(entry.id).encode(), group.name, deliveries, reason, error)
    return origin.behind(entry.fields)


DECISIONS: Decisions = {
    Redrive: redrive,
}
