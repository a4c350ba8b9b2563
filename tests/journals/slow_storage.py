"""A storage whose records become durable when a test says so."""

from __future__ import annotations

import asyncio

from headgate.engine.errors import Unavailable
from headgate.engine.journal.storage import GoBack, Holder, MemoryStorage


class SlowStorage(MemoryStorage):
    """Takes records at once; they are durable when `settle` says so, or never after `fail`."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting_count = 0  # calls that wait for something to be durable
        self._settled = 0
        self._moved = asyncio.Event()
        self._closed = asyncio.Event()

    @property
    def durable_position(self) -> int:
        return self._settled

    def settle(self) -> None:
        """Make durable what was taken."""
        self._settled = self.position
        self._moved.set()

    def fail(self) -> None:
        """Lose the records that are not durable."""
        self.failure = "the disk is gone"
        self._moved.set()

    async def wait_durable(self, position: int) -> None:
        self.waiting_count += 1
        try:
            while position > self._settled:
                if self.failure is not None:
                    raise Unavailable(self.failure)
                self._moved.clear()
                await self._moved.wait()
        finally:
            self.waiting_count -= 1

    async def run(self, go_back: GoBack, holder: Holder | None = None) -> None:
        await self._closed.wait()

    async def close(self) -> None:
        self._closed.set()
