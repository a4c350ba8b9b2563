"""Takeovers: a consumer is notified which of its entries other consumers have taken over.

A takeover is noted when its command is applied, and put into the feeds once it is durable.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from headgate.engine import commands as c
from headgate.engine.entry import EntryId
from headgate.engine.errors import Unavailable
from headgate.engine.loop.takeover_feed import Feeds, TakeoverFeed
from headgate.engine.replies import Takeover
from headgate.engine.state.keyspace import Keyspace


class _Noted(NamedTuple):
    feed: TakeoverFeed
    takeover: Takeover


class Takeovers(Feeds):
    """The open feeds, and the takeovers that they will receive."""

    def __init__(self) -> None:
        """Start without feeds."""
        super().__init__()
        self._noted: deque[_Noted] = deque()  # applied, but perhaps not durable yet
        self._has_noted = asyncio.Event()

    def note(self, keyspace: Keyspace, command: c.Command) -> None:
        """Note the entries that a command takes over, with their earlier owners.

        Call this before it is applied.
        """
        match command:
            case c.EntriesDelivered(claimed=taken):
                pass
            case c.EntriesClaimed(counts=counts):
                taken = [entry_id for entry_id, _ in counts]
            case _:
                return
        names = command.stream, command.group
        pel = keyspace.group(*names).pel.by_id
        lost: dict[bytes, dict[EntryId, int]] = {}
        for entry_id in taken:
            pending = pel.get(entry_id)
            owner = None if pending is None else pending.owner
            if pending is not None and owner is not None and owner.name != command.consumer:
                lost.setdefault(owner.name, {})[entry_id] = pending.delivery_count
        for consumer, was in lost.items():
            takeover = Takeover(was, command.consumer)
            feeds = self.of((*names, consumer))
            self._noted.extend(_Noted(feed, takeover) for feed in feeds)
        if self._noted:
            self._has_noted.set()

    def forget(self) -> None:
        """Drop the takeovers that are noted, because the state they belong to was dropped."""
        self._noted.clear()

    async def feed_next(self, wait_durable: Callable[[], Awaitable[object]]) -> None:
        """Put the takeovers noted next into their feeds, once there are any and they are durable.

        Args:
            wait_durable: returns when everything that was applied is durable; raises `Unavailable`
                if it is lost.
        """
        await self._has_noted.wait()
        noted, self._noted = self._noted, deque()
        try:
            await wait_durable()
            while noted:
                feed, takeover = noted.popleft()
                feed.put(takeover)
        except Unavailable:
            noted.clear()  # the takeovers were dropped
        finally:
            self._noted.extendleft(reversed(noted))
            if not self._noted:
                self._has_noted.clear()
