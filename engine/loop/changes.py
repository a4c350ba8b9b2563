"""Changes: how many of them Redis would count (`rdb_changes_since_last_save`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headgate.engine import commands as c
from headgate.engine.entry import MIN_ID
from headgate.engine.state.keyspace import Keyspace


def changes_by(keyspace: Keyspace, commands: Sequence[c.Command]) -> int:
    """Return how many changes a decision makes; ask before it is applied.

    1. An append counts its entries, whatever it creates, remembers or trims.
    2. Anything else counts what it does: each entry that is deleted, trimmed, acknowledged, given
       back or claimed, each stream that goes, each consumer that comes with a read.
    3. A read counts once for a stream, however many entries it takes. One of what the consumer
       holds already counts nothing, nor does what only makes room for something else.
    """
    appended = 0
    for command in commands:
        if isinstance(command, c.EntriesAdded):
            appended += len(command.entries)
        elif isinstance(command, c.ChunksAdded):
            appended += sum(chunk.entry_count for chunk in command.chunks)
    if appended:
        return appended
    if any(isinstance(command, c.StreamRenamed) for command in commands):
        return 1
    counted = sum(
        count(keyspace, command)
        for command in commands
        if (count := _COUNTS.get(type(command))) is not None
    )
    return counted or int(any(isinstance(command, _ALONE) for command in commands))


_ALONE = c.StreamCreated | c.PendingPurged | c.KeyRemembered | c.PolicySet | c.BatchCommitted
"""What counts only where nothing else does."""


def _once(_: Keyspace, __: c.Command) -> int:
    return 1


def _newcomer(
    keyspace: Keyspace,
    command: c.ConsumerSeen | c.EntriesDelivered | c.EntriesRedelivered | c.EntriesClaimed,
) -> int:
    """Return 1 if the consumer comes to be by this."""
    return command.consumer not in keyspace.group(command.stream, command.group).consumers


def _claimed(keyspace: Keyspace, command: c.EntriesClaimed) -> int:
    group = keyspace.group(command.stream, command.group)
    changed = len(command.counts) + len(command.purged)
    return (changed or command.last_id > group.last_id) + _newcomer(keyspace, command)


def _trimmed(keyspace: Keyspace, command: c.StreamTrimmed) -> int:
    return keyspace.stream(command.stream).log.count(MIN_ID, command.through)


_COUNTS: dict[type, Callable[[Keyspace, Any], int]] = {
    c.StreamConfigured: _once,
    c.StreamDeleted: _once,
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
    c.EntriesAcked: lambda _, command: len(command.ids),
    c.EntriesReleased: lambda _, command: len(command.counts),
    c.EntriesDelayed: lambda _, command: len(command.entries),
    c.EntriesClaimed: _claimed,
    c.DuplicateCounted: _once,
    c.CountersSet: _once,
    c.ExpirySet: _once,
    c.AllDeleted: lambda keyspace, _: len(keyspace.streams),
}
