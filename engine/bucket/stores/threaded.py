"""Threads of a bucket: those that put, and those that read for somebody."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from headgate.engine.bucket.bucket import RequestCounts
from headgate.engine.threads import Threads

T = TypeVar("T")

_THREADS = 4
_READERS = 4


class ThreadedBucket:
    """A bucket's threads, and its counts."""

    def __init__(self) -> None:
        """Get ready; the threads start with the first call."""
        self.counts = RequestCounts()
        self._threads = Threads(_THREADS, "bucket")
        self._readers = Threads(_READERS, "bucket reads")

    async def in_thread(self, act: Callable[[], T]) -> T:
        """Call a function in a thread."""
        return await self._threads.call(act)

    async def read_in_thread(self, act: Callable[[], T]) -> T:
        """Call a function in a thread of those that read."""
        return await self._readers.call(act)

    def close(self) -> None:
        """End the threads, after what they do."""
        self._threads.shutdown()
        self._readers.shutdown()
