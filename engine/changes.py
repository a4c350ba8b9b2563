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
        if isinstance(command, c.Add):
            appended += len(command.entries)
        elif isinstance(command, c.AddPacked):
            appended += sum(chunk.entry_count for chunk in command.chunks)
    if appended:
        return appended
    if any(isinstance(command, c.RenameStream) for command in commands):
        return 1
    counted = sum(
        count(keyspace, command)
        for command in commands
        if (count := _COUNTS.get(type(command))) is not None
    )
    return counted or int(any(isinstance(command, _ALONE) for command in commands))


_ALONE = c.CreateStream | c.Purge | c.Remember | c.SetPolicy | c.CommitBatch
"""What counts only where nothing else does."""


def _once(_: Keyspace, __: c.Command) -> int:
    return 1


def _newcomer(
    keyspace: Keyspace, command: c.SeeConsumer | c.Deliver | c.Redeliver | c.Claim
) -> int:
    """Return 1 if the consumer comes to be by this."""
    return command.consumer not in keyspace.group(command.stream, command.group).consumers


def _claimed(keyspace: Keyspace, command: c.Claim) -> int:
    group = keyspace.group(command.stream, command.group)
    changed = len(command.counts) + len(command.purged)
    return (changed or command.last_id > group.last_id) + _newcomer(keyspace, command)


def _trimmed(keyspace: Keyspace, command: c.Trim) -> int:
    return keyspace.stream(command.stream).log.count(MIN_ID, command.through)


_COUNTS: dict[type, Callable[[Keyspace, Any], int]] = {
    c.ConfigureStream: _once,
    c.DeleteStream: _once,
    c.Trim: _trimmed,
    c.Delete: lambda _, one: len(one.ids),
    c.Evict: lambda _, one: len(one.ids),
    c.CreateGroup: _once,
    c.SetGroup: _once,
    c.DestroyGroup: _once,
    c.SeeConsumer: _newcomer,
    c.DeleteConsumer: _once,
    c.Deliver: lambda keyspace, one: 1 + _newcomer(keyspace, one),
    c.Redeliver: _newcomer,
    c.Ack: lambda _, one: len(one.ids),
    c.Release: lambda _, one: len(one.counts),
    c.Rest: lambda _, one: len(one.entries),
    c.Claim: _claimed,
    c.CountDuplicate: _once,
    c.SetStream: _once,
    c.SetExpiry: _once,
    c.Flush: lambda keyspace, _: len(keyspace.streams),
}
