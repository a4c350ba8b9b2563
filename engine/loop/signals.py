"""Signals: which blocked reads a command concerns.

Tables map the kind of a command to what it means. Most commands concern no blocked read, and one
look-up shows that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from headgate.engine import commands as c
from headgate.engine.entry import EntryId
from headgate.engine.state.keyspace import Keyspace

Holder = tuple[bytes, bytes, bytes]
"""A consumer: the names of its stream, its group and itself."""


class Notified(Protocol):
    """Whoever is told what commands mean for reads that wait, or will come."""

    def appended(self, stream: bytes) -> None: ...
    def arrived(self, stream: bytes, group: bytes) -> None: ...
    def released(self, stream: bytes, group: bytes) -> None: ...
    def looks_older(self, stream: bytes, group: bytes) -> None: ...
    def freed(self, stream: bytes, group: bytes, consumer: bytes) -> None: ...
    def changed(self, stream: bytes, group: bytes | None = None) -> None: ...
    def all_changed(self) -> None: ...
    def groups_of(self, stream: bytes) -> list[bytes]: ...
    def has_full(self, stream: bytes, group: bytes) -> bool: ...


def notify(keyspace: Keyspace, waiters: Notified, command: c.Command) -> None:
    """Notify the waiters that a command may concern. Call this after the command is applied."""
    kind = type(command)
    means = _MEANINGS.get(kind)
    if means is not None:
        means(waiters, command)
    if kind in _SETTLING:
        _settled(keyspace, waiters, command)


def _settled(keyspace: Keyspace, waiters: Notified, command: Any) -> None:
    stream = keyspace.find(command.stream)
    if stream is None or stream.closed_at_ms is None:
        return
    for name in waiters.groups_of(stream.name):
        group = stream.groups.get(name)
        if group is not None and stream.is_over_for(group):
            waiters.changed(stream.name, name)


def notify_of_turns(keyspace: Keyspace, waiters: Notified, command: c.Command) -> None:
    stream = keyspace.find(getattr(command, "stream", b""))
    if stream is None:
        return
    for group in stream.groups_by_key:
        if group.pel.turns is not None and group.pel.turns.has_ready:
            waiters.released(stream.name, group.name)
        if group.ahead is not None and group.ahead.has_news:
            waiters.arrived(stream.name, group.name)


def forget_news(keyspace: Keyspace, command: c.Command) -> None:
    """Note that all were told which keys have a turn again."""
    stream = keyspace.find(getattr(command, "stream", b""))
    for group in () if stream is None else stream.fair_groups:
        if group.ahead is not None:
            group.ahead.has_news = False


def holders_before(keyspace: Keyspace, waiters: Notified, command: c.Command) -> Iterable[Holder]:
    """Return the consumers that a command takes entries from. Call this before it is applied.

    Only groups in which a read waits for its consumer to hold less are looked at.
    """
    taken_by = _TAKEN_BY.get(type(command))
    return () if taken_by is None else taken_by(keyspace, waiters, command)


def _appended(waiters: Notified, command: c.EntriesAdded | c.ChunksAdded) -> None:
    waiters.appended(command.stream)


def _renamed(waiters: Notified, command: c.StreamRenamed) -> None:
    waiters.changed(command.stream)
    waiters.changed(command.name)


def _released(waiters: Notified, command: c.EntriesReleased | c.EntriesDelayed) -> None:
    waiters.released(command.stream, command.group)


def _consumer_deleted(waiters: Notified, command: c.ConsumerDeleted) -> None:
    if command.release:
        waiters.released(command.stream, command.group)
    waiters.freed(command.stream, command.group, command.consumer)


def _claimed(waiters: Notified, command: c.EntriesClaimed) -> None:
    if command.delivered_at_ms < command.at_ms:  # its idle time was set to more than it was
        waiters.looks_older(command.stream, command.group)


_MEANINGS: dict[type, Callable[[Notified, Any], None]] = {
    c.EntriesAdded: _appended,
    c.ChunksAdded: _appended,
    c.AllDeleted: lambda waiters, _: waiters.all_changed(),
    c.StreamDeleted: lambda waiters, command: waiters.changed(command.stream),
    c.StreamRenamed: _renamed,
    c.StreamRestored: lambda waiters, command: waiters.changed(command.stream),
    c.StreamCopied: lambda waiters, command: waiters.changed(command.to),
    c.GroupDestroyed: lambda waiters, command: waiters.changed(command.stream, command.group),
    c.PolicySet: lambda waiters, command: waiters.changed(command.stream, command.group),
    c.ClockSet: lambda waiters, _: waiters.all_changed(),
    c.TailLost: lambda waiters, _: waiters.all_changed(),
    c.EntriesIndexed: lambda waiters, command: waiters.arrived(command.stream, command.group),
    c.EntriesReleased: _released,
    c.EntriesDelayed: _released,
    c.ConsumerDeleted: _consumer_deleted,
    c.EntriesClaimed: _claimed,
    c.StreamClosed: lambda waiters, command: waiters.changed(command.stream),
}

_SETTLING = {
    *(c.EntriesAcked, c.EntriesDelivered, c.EntriesClaimed, c.PendingPurged, c.ConsumerDeleted),
    c.EntriesExpired,
    *(c.GroupMoved, c.StreamTrimmed, c.EntriesDeleted, c.EntriesEvicted, c.EntriesLost),
}
"""Commands behind which there may be nothing left for a group."""


def _taken(
    ids_of: Callable[[Any], Iterable[EntryId]],
) -> Callable[[Keyspace, Notified, Any], Iterable[Holder]]:
    def taken_by(keyspace: Keyspace, waiters: Notified, command: Any) -> Iterable[Holder]:
        stream, group = command.stream, command.group
        if not waiters.has_full(stream, group):
            return ()
        return _holders(keyspace, stream, group, ids_of(command))

    return taken_by


def _purged(keyspace: Keyspace, waiters: Notified, command: c.PendingPurged) -> Iterable[Holder]:
    stream = command.stream
    groups = [group for group in keyspace.stream(stream).groups if waiters.has_full(stream, group)]
    return [lost for group in groups for lost in _holders(keyspace, stream, group, command.ids)]


def _holders(
    keyspace: Keyspace, stream: bytes, group: bytes, ids: Iterable[EntryId]
) -> Iterable[Holder]:
    find = keyspace.group(stream, group).pel.by_id.get
    owners = (None if (pending := find(entry_id)) is None else pending.owner for entry_id in ids)
    return {(stream, group, owner.name): None for owner in owners if owner is not None}


_TAKEN_BY: dict[type, Callable[[Keyspace, Notified, Any], Iterable[Holder]]] = {
    c.EntriesAcked: _taken(lambda command: command.ids),
    c.EntriesExpired: _taken(lambda command: command.ids),
    # What is new to the group may be pending if its position was set back.
    c.EntriesDelivered: _taken(lambda command: [*command.claimed, *command.delivered]),
    c.EntriesReleased: _taken(lambda command: [entry_id for entry_id, _ in command.counts]),
    c.EntriesDelayed: _taken(lambda command: [entry_id for entry_id, _, _ in command.entries]),
    c.EntriesClaimed: _taken(
        lambda command: [*(entry_id for entry_id, _ in command.counts), *command.purged]
    ),
    c.PendingPurged: _purged,
}
