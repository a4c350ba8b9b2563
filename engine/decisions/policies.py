"""Decisions that a group's policy asks for: dead letters, their return, idle consumers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

from headgate.engine.commands import (
    Command,
    ConsumerDeleted,
    EntriesDeleted,
    EntriesHeld,
    EntriesReleased,
)
from headgate.engine.config import GroupPolicy
from headgate.engine.decisions import Decision, Decisions
from headgate.engine.decisions.entries import add
from headgate.engine.decisions.name_ranges import shown_by, shows
from headgate.engine.entry import MAX_ID, MIN_ID, Draft, Entry, EntryId, EntryTimes, Fields, key_of
from headgate.engine.errors import Invalid, OutOfReach
from headgate.engine.limits import (
    BLOCK_BYTES_MAX,
    CONSUMERS_AT_ONCE_MAX,
    KEY_AHEAD_MAX,
    REDRIVE_SCAN_MAX,
    REDRIVEN_AT_ONCE_MAX,
)
from headgate.engine.origin import entry_of
from headgate.engine.replies import Redriven, RedriveOutcome
from headgate.engine.requests.deliveries import Redrive
from headgate.engine.requests.entries import Add
from headgate.engine.requests.keyspace import NameFilter
from headgate.engine.room import ReadRoom
from headgate.engine.state.group import Group
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.stream import Stream


def check_policy(stream: bytes, policy: GroupPolicy) -> None:
    if (policy.max_deliveries is None) != (policy.dead_letter_stream is None):
        text = "max_deliveries and dead_letter_stream belong together"
        raise Invalid(text, location=("policy",))
    if policy.on_expiry and policy.dead_letter_stream is None:
        text = "on_expiry needs a dead_letter_stream"
        raise Invalid(text, location=("policy", "on_expiry"))
    if policy.is_fair and policy.key_field not in (None, policy.fair_field):
        text = "key_field and fair_field name the same field, or key_field is left out"
        raise Invalid(text, location=("policy", "fair_field"))
    if not policy.is_fair and (policy.key_ahead_max or 0) > KEY_AHEAD_MAX:
        text = f"key_ahead_max is {KEY_AHEAD_MAX:,} at most without fair_field"
        raise Invalid(text, location=("policy", "key_ahead_max"))
    if policy.weights and policy.fair_field is None:
        text = "weights need a fair_field"
        raise Invalid(text, location=("policy", "weights"))
    if policy.priority_age_ms is not None and policy.priority_field is None:
        text = "priority_age_ms needs a priority_field"
        raise Invalid(text, location=("policy", "priority_age_ms"))
    if policy.dead_letter_stream == stream:
        text = "a stream cannot be its own dead letter stream"
        raise Invalid(text, location=("policy", "dead_letter_stream"))


def check_reach(stream: Stream, to: bytes, reach: NameFilter | None) -> None:
    """Raise OutOfReach if a policy would name a stream outside `reach`, once in force for `to`."""
    if reach is None:
        return
    policies = {group.policy for group in stream.groups.values()}
    names = {name for policy in policies for name in policy.on(to).other_streams}
    if names:
        ranges = shown_by(reach)
        for name in sorted(names):
            if not shows(ranges, name):
                raise OutOfReach(name)


def redrive(keyspace: Keyspace, request: Redrive, now_ms: int) -> Decision[list[Redriven]]:
    """Decide to send dead letters of a group back, the oldest first, in parts.

    An original entry that still exists goes to the next reader with a delivery count of 0. If it is
    gone, the dead letter is appended as a new entry. Either way, the dead letter is deleted in the
    same step.
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
    """Return replies and commands: release entries that still exist, append the others.

    One whose deadline is over is appended without a deadline, or nobody would get it.
    """
    stream.log.require_all(origin for _, origin, _ in sent)
    steady_ms = keyspace.steady_ms(now_ms)
    there = [
        entry
        for _, origin, _ in sent
        if (entry := stream.log.get(origin)) is not None
        and not _is_over(stream.times_of(origin), steady_ms)
    ]
    commands = _given_again(stream, stream.groups[group], there)
    origins_there = {entry.id for entry in there}
    gone = [each for each in sent if each[1] not in origins_there]
    new_ids: dict[EntryId, EntryId] = {}
    if gone:
        drafts = [Draft(None, fields) for _, _, fields in gone]
        adding = Add(stream.name, drafts, create_stream=False)
        appended = add(keyspace, adding, now_ms, has_schema=False)
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


def _given_again(stream: Stream, group: Group, entries: Sequence[Entry]) -> list[Command]:
    released: list[tuple[EntryId, int]] = []
    held: list[tuple[EntryId, bytes]] = []
    key_field = group.policy.key_field
    for entry in entries:
        key = None if key_field is None else key_of(entry.fields, key_field)
        if key is None or entry.id in group.pel.by_id:
            released.append((entry.id, 0))
        else:
            held.append((entry.id, key))
    commands: list[Command] = []
    if released:
        commands.append(EntriesReleased(stream.name, group.name, released))
    if held:
        commands.append(EntriesHeld(stream.name, group.name, held))
    return commands


def _is_over(times: EntryTimes | None, steady_ms: int) -> bool:
    return times is not None and times.is_over(steady_ms)


def forget_consumers(
    keyspace: Keyspace, stream: bytes, group: bytes, now_ms: int, *, after: bytes = b""
) -> Decision[bytes | None]:
    """Decide to delete consumers that are idle for too long; those that hold entries stay.

    One decision looks at some names behind `after`; it replies where to go on, None at the end.
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


DECISIONS: Decisions = {Redrive: redrive}
