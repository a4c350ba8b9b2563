"""Storage: where records go, and how one learns that they are safe.

A record's position is the number of records up to and including it. The engine appends and applies
at once, and holds its answer until the position the answer depends on is durable.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol


class Storage(Protocol):
    """What the engine asks of the place that keeps its records."""

    @property
    def position(self) -> int:
        """Return the position of the last record appended; 0 before the first."""
        ...

    @property
    def durable_position(self) -> int:
        """Return the position up to which nothing can be lost any more."""
        ...

    def append(self, record: bytes) -> int:
        """Take a record, whole, behind all others; returns its position.

        Raises:
            Unavailable: this storage takes no records any more.
        """
        ...

    async def wait_durable(self, position: int) -> None:
        """Return as soon as everything up to `position` is durable.

        Raises:
            Unavailable: it never will be.
        """
        ...


class MemoryStorage:
    """Keeps the newest records in memory, and calls that durable: nothing survives the process."""

    def __init__(self, records_max: int | None = None) -> None:
        """Start empty, keeping up to `records_max` records (None: all of them)."""
        self.records: deque[bytes] = deque(maxlen=records_max)
        self.position = 0

    @property
    def durable_position(self) -> int:
        """Return the position of the last record: there is no safer place to wait for."""
        return self.position

    def append(self, record: bytes) -> int:
        """Take a record; returns its position."""
        self.records.append(record)
        self.position += 1
        return self.position

    async def wait_durable(self, position: int) -> None:
        """Return at once."""
