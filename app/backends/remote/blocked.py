"""Blocked: the reads of this worker that wait, whether here or in the engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from headgate.engine.errors import Draining, StreamError, TooManyWaiters

_Queue = tuple[bytes, bytes | None]
"""A stream, and a group of it if the read is a group's."""


class BlockedReads:
    """Counts the reads that wait, and says whether another one may."""

    def __init__(self, limit: int) -> None:
        """Start with none.

        Args:
            limit: how many reads may wait at the same time.
        """
        self._limit = limit
        self._queues: dict[int, Sequence[_Queue]] = {}
        self._last = 0
        self.is_draining = False

    def __len__(self) -> int:
        """Return how many reads wait."""
        return len(self._queues)

    @property
    def refusal(self) -> StreamError | None:
        """Return why another read may not wait, or None."""
        if self.is_draining:
            return Draining()
        return TooManyWaiters(self._limit) if len(self._queues) >= self._limit else None

    @property
    def waited_for(self) -> tuple[int, int]:
        """Return the numbers of streams with blocked reads and with blocked group reads."""
        queues = {queue for each in self._queues.values() for queue in each}
        grouped = {stream for stream, group in queues if group is not None}
        return len({stream for stream, _ in queues}), len(grouped)

    @contextmanager
    def waiting(self, queues: Sequence[_Queue]) -> Iterator[None]:
        """Count a read while the context lasts.

        Args:
            queues: what it waits for.
        """
        self._last += 1
        token = self._last
        self._queues[token] = queues
        try:
            yield
        finally:
            del self._queues[token]
