"""Activity: how much was appended, delivered and settled, and how many changes Redis would count.

A table maps the kind of a command to what it counts as. One look-up shows that most commands count
as nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headgate.engine import commands as c
from headgate.engine.entry import MIN_ID
from headgate.engine.state.group import Activity, Group
from headgate.engine.state.keyspace import Keyspace


class TotalActivity(Activity):
    __slots__ = ("appended_count",)

    def __init__(self) -> None:
        super().__init__()
        self.appended_count = 0

    def note(self, keyspace: Keyspace, command: c.Command) -> None:
        """Count the effects of a command. Call this before the command is applied."""
        count = _COUNTS.get(type(command))
        if count is not None:
            count(self, keyspace, command)


def _append(total: TotalActivity, _: Keyspace, command: c.EntriesAdded) -> None:
    total.appended_count += len(command.entries)


def _append_chunks(total: TotalActivity, _: Keyspace, command: c.ChunksAdded) -> None:
    total.appended_count += sum(chunk.entry_count for chunk in command.chunks)


def _deliver(total: TotalActivity, keyspace: Keyspace, command: c.EntriesDelivered) -> None:
    group = keyspace.group(command.stream, command.group)
    new_count = len(command.delivered) or _read_without_ack(group, command)
    for activity in (total, group.activity):
        activity.delivered_count += new_count
        activity.redelivered_count += len(command.claimed)
        activity.passed_count += command.passed_count
        activity.expired_count += command.expired_count


def _pass(total: TotalActivity, keyspace: Keyspace, command: c.EntriesPassed) -> None:
    for activity in (total, keyspace.group(command.stream, command.group).activity):
        activity.delivered_count += command.delivered_count


def _read_without_ack(group: Group, command: c.EntriesDelivered) -> int:
    """Return the number of entries that a read without acks (NOACK) delivers; 0: it is unknown."""
    if group.entries_read is None or command.entries_read is None:
        return 0
    not_delivered = command.passed_count + command.expired_count
    return max(command.entries_read - group.entries_read - not_delivered, 0)


def _redeliver(
    total: TotalActivity, keyspace: Keyspace, command: c.EntriesRedelivered | c.EntriesClaimed
) -> None:
    again = command.counts if isinstance(command, c.EntriesClaimed) else command.ids
    total.redelivered_count += len(again)
    keyspace.group(command.stream, command.group).activity.redelivered_count += len(again)


def _settle(total: TotalActivity, keyspace: Keyspace, command: c.EntriesAcked) -> None:
    for activity in (total, keyspace.group(command.stream, command.group).activity):
        if command.are_dead_letters:
            activity.dead_letter_count += len(command.ids)
        else:
            activity.acked_count += len(command.ids)


def _expire(total: TotalActivity, keyspace: Keyspace, command: c.EntriesExpired) -> None:
    for activity in (total, keyspace.group(command.stream, command.group).activity):
        activity.expired_count += len(command.ids)


_COUNTS: dict[type, Callable[[TotalActivity, Keyspace, Any], None]] = {
    c.EntriesPassed: _pass,
    c.EntriesAdded: _append,
    c.ChunksAdded: _append_chunks,
    c.EntriesDelivered: _deliver,
    c.EntriesRedelivered: _redeliver,
    c.EntriesClaimed: _redeliver,
    c.EntriesAcked: _settle,
    c.EntriesExpired: _expire,
}


def changes_by(keyspace: Keyspace, commands: Sequence[c.Command]) -> int:
    """Return how many changes a decision makes. Call this before the decision is applied.

    1. An append counts its entries. The stream it creates, the keys it remembers and the entries it
       trims count nothing more.
    2. A rename, a copy and what is restored count once, even if they replace another stream.
    3. Any other decision counts what it does: each entry that is deleted, trimmed, acknowledged,
       given back or claimed, each stream that is deleted, and each consumer that a read creates. A
       group read counts once for each stream, however many entries it delivers. A read of the
       consumer's own history counts nothing.
    4. The commands in `_ALONE` count once, and only if nothing else in the decision counts.
    """
    appended = 0
    for command in commands:
        if isinstance(command, c.EntriesAdded):
            appended += len(command.entries)
        elif isinstance(command, c.ChunksAdded):
            appended += sum(chunk.entry_count for chunk in command.chunks)
    if appended:
        return appended
    if any(isinstance(command, _REPLACING) for command in commands):
        return 1
    counted = sum(
        count(keyspace, command)
        for command in commands
        if (count := _CHANGE_COUNTS.get(type(command))) is not None
    )
    return counted or int(any(isinstance(command, _ALONE) for command in commands))


_REPLACING = c.StreamRenamed | c.StreamRestored | c.StreamCopied

_ALONE = c.StreamCreated | c.PendingPurged | c.KeyRemembered | c.PolicySet | c.BatchCommitted
"""Commands that count only if nothing else in the decision counts."""


def _once(_: Keyspace, __: c.Command) -> int:
    return 1


def _newcomer(
    keyspace: Keyspace,
    command: c.ConsumerSeen | c.EntriesDelivered | c.EntriesRedelivered | c.EntriesClaimed,
) -> int:
    return command.consumer not in keyspace.group(command.stream, command.group).consumers


def _claimed(keyspace: Keyspace, command: c.EntriesClaimed) -> int:
    group = keyspace.group(command.stream, command.group)
    changed = len(command.counts) + len(command.purged)
    return (changed or command.last_id > group.last_id) + _newcomer(keyspace, command)


def _trimmed(keyspace: Keyspace, command: c.StreamTrimmed) -> int:
    return keyspace.stream(command.stream).log.count(MIN_ID, command.through)


_CHANGE_COUNTS: dict[type, Callable[[Keyspace, Any], int]] = {
    c.StreamConfigured: _once,
    c.StreamDeleted: _once,
    c.StreamClosed: _once,
    c.StreamTrimmed: _trimmed,
    c.EntriesDeleted: lambda _, command: len(command.ids),
    c.EntriesEvicted: lambda _, command: len(command.ids),
    c.GroupCreated: _once,
    c.GroupMoved: _once,
    c.GroupDestroyed: _once,
    c.ConsumerSeen: _newcomer,
    c.ConsumerDeleted: _once,
    c.EntriesDelivered: lambda keyspace, command: 1 + _newcomer(keyspace, command),
    c.EntriesRedelivered: _newcomer,
    c.EntriesExpired: lambda _, command: len(command.ids),
    c.EntriesAcked: lambda _, command: len(command.ids),
    c.EntriesReleased: lambda _, command: len(command.counts),
    c.EntriesDelayed: lambda _, command: len(command.entries),
    c.EntriesClaimed: _claimed,
    c.DuplicateCounted: _once,
    c.CountersSet: _once,
    c.ExpirySet: _once,
    c.AttributesChanged: _once,
    c.AllDeleted: lambda keyspace, _: len(keyspace.streams),
}
