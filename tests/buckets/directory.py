"""A bucket in a directory, whose calls take no time and fail as a test says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from headgate.engine.bucket.directory import DirectoryBucket

T = TypeVar("T")


class LocalBucket(DirectoryBucket):
    """A directory. What would run in a thread runs at once."""

    fault: Callable[[Callable[[], Any]], Any] | None = None
    """Is called in place of each call, with that."""

    async def in_thread(self, act: Callable[[], T]) -> T:
        return act() if self.fault is None else cast("T", self.fault(act))

    async def read_in_thread(self, act: Callable[[], T]) -> T:
        return await self.in_thread(act)
