"""Room: how much of the disk the journal may take, and what is refused when room is short.

When room is short, only records that take room for good are refused: entries, streams, groups.
Entries can still be read, delivered, acknowledged, trimmed and deleted, and a rewrite then makes
room. A file reserves disk space for those records and for the rewrite.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from headgate.engine import commands as c
from headgate.engine.journal.disk import Disk
from headgate.engine.limits import RESERVE_BYTES_MAX

_GROWING = (
    c.StreamCreated
    | c.EntriesAdded
    | c.ChunksAdded
    | c.GroupCreated
    | c.KeyRemembered
    | c.BatchCommitted
    | c.StreamRestored
    | c.StreamCopied
)


class DiskBounds(NamedTuple):
    """How much room there is for the journal."""

    size_bytes_max: int | None = None  # of snapshot and segments; None: no bound
    free_bytes_min: int = 0  # so many bytes of the disk stay free

    @property
    def reserve_bytes(self) -> int:
        """Return how much of what has to stay free is kept in a file."""
        return min(self.free_bytes_min // 2, RESERVE_BYTES_MAX)


class Room(NamedTuple):
    """How much room the disk has."""

    free_bytes: int
    shortage: str | None  # why there is not enough, None if there is


def takes_room(record: Iterable[c.Command]) -> bool:
    """Tell whether a record takes room for good."""
    return any(isinstance(command, _GROWING) for command in record)


def look(disk: Disk, bounds: DiskBounds) -> Room:
    """Read how much room the disk has, and make the reserve if there is enough.

    Raises:
        OSError: the disk fails.
    """
    free_bytes = disk.free_bytes()
    if free_bytes < bounds.free_bytes_min:
        text = f"{free_bytes} bytes are free, and {bounds.free_bytes_min} must stay free"
        return Room(free_bytes, f"the disk is full: {text}")
    disk.reserve(bounds.reserve_bytes)
    return Room(free_bytes, None)


def shortage_of(size_bytes: int, bounds: DiskBounds) -> str | None:
    """Return why the journal may not grow any more, None if it may."""
    limit_bytes = bounds.size_bytes_max
    if limit_bytes is None or size_bytes < limit_bytes:
        return None
    return f"the journal is full: it has {size_bytes} bytes, and may have {limit_bytes}"
