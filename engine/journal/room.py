"""Room: the journal's bound on the disk, and refusals when room is short.

When room is short, records that take room for good are refused: entries, streams, groups. Entries
can still be read, delivered, acknowledged, trimmed and deleted, and a rewrite then makes room. When
room is *scarce*, nothing may become pending either: what is left is for acknowledgements, trims,
deletes and the rewrite. A file reserves disk space for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from headgate.engine import commands as c
from headgate.engine.entry import EntryId
from headgate.engine.journal.disk import Disk
from headgate.engine.limits import RESERVE_BYTES_MAX
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.memory import SLACK
from headgate.engine.state.pending import Pel

_GROWING = (
    c.StreamCreated
    | c.EntriesAdded
    | c.ChunksAdded
    | c.GroupCreated
    | c.KeyRemembered
    | c.BatchCommitted
    | c.StreamRestored
    | c.StreamCopied
    | c.ScheduleSet
)


SCARCE = 4
"""On a full disk, a quarter of the space to stay free is kept from them: half of the
reserve."""


class DiskBounds(NamedTuple):
    size_bytes_max: int | None = None  # of snapshot and segments; None: no bound
    free_bytes_min: int = 0  # so many bytes of the disk stay free

    @property
    def reserve_bytes(self) -> int:
        return min(self.free_bytes_min // 2, RESERVE_BYTES_MAX)


class Shortage(NamedTuple):
    why: str
    is_scarce: bool  # nothing may become pending either


class Room(NamedTuple):
    free_bytes: int
    shortage: Shortage | None  # None: there is enough


def takes_room(record: Iterable[c.Command]) -> bool:
    """Tell whether a record takes room for good."""
    return any(isinstance(command, _GROWING) for command in record)


def holds_more(keyspace: Keyspace, record: Iterable[c.Command]) -> bool:
    return any(
        adds(keyspace, command)
        for command in record
        if (adds := _ADDS.get(type(command))) is not None
    )


def _pel(keyspace: Keyspace, command: Any) -> Pel:
    return keyspace.group(command.stream, command.group).pel


def _are_new(keyspace: Keyspace, command: Any, ids: Iterable[EntryId]) -> bool:
    by_id = _pel(keyspace, command).by_id
    return any(entry_id not in by_id for entry_id in ids)


def _has_newcomer(keyspace: Keyspace, command: Any) -> bool:
    return command.consumer not in keyspace.group(command.stream, command.group).consumers


def _delivers(keyspace: Keyspace, command: c.EntriesDelivered) -> bool:
    return bool(command.delivered) or _has_newcomer(keyspace, command)


def _claims(keyspace: Keyspace, command: c.EntriesClaimed) -> bool:
    ids = (entry_id for entry_id, _ in command.counts)
    return _has_newcomer(keyspace, command) or _are_new(keyspace, command, ids)


def _releases(keyspace: Keyspace, command: c.EntriesReleased) -> bool:
    return _are_new(keyspace, command, (entry_id for entry_id, _ in command.counts))


def _delays(keyspace: Keyspace, command: c.EntriesDelayed) -> bool:
    return _are_new(keyspace, command, (entry_id for entry_id, _, _ in command.entries))


def _holds(keyspace: Keyspace, command: c.EntriesHeld) -> bool:
    return _are_new(keyspace, command, (entry_id for entry_id, _ in command.entries))


_ADDS: Mapping[type[c.Command], Callable[[Keyspace, Any], bool]] = {
    c.ConsumerSeen: _has_newcomer,
    c.EntriesClaimed: _claims,
    c.EntriesDelayed: _delays,
    c.EntriesDelivered: _delivers,
    c.EntriesRedelivered: _has_newcomer,
    c.EntriesHeld: _holds,
    c.EntriesIndexed: lambda _, command: bool(command.entries),
    c.EntriesReleased: _releases,
    c.RowsIndexed: lambda _, command: bool(command.changes),
    c.ErrorNoted: lambda _, command: bool(command.error),
}


def look(disk: Disk, bounds: DiskBounds) -> Room:
    """Read the free room of the disk, and make the reserve if there is enough."""
    free_bytes = disk.free_bytes()
    if free_bytes < bounds.free_bytes_min:
        text = f"{free_bytes} bytes are free, and {bounds.free_bytes_min} must stay free"
        is_scarce = free_bytes < bounds.free_bytes_min // SCARCE
        return Room(free_bytes, Shortage(f"the disk is full: {text}", is_scarce))
    disk.reserve(bounds.reserve_bytes)
    return Room(free_bytes, None)


def shortage_of(size_bytes: int, bounds: DiskBounds) -> Shortage | None:
    limit_bytes = bounds.size_bytes_max
    if limit_bytes is None or size_bytes < limit_bytes:
        return None
    text = f"the journal is full: it has {size_bytes} bytes, and may have {limit_bytes}"
    return Shortage(text, size_bytes >= limit_bytes + limit_bytes // SLACK)
