"""Takeovers: a consumer is notified which of its entries other consumers have taken over.

A takeover is noted when its command is applied, and put into the feeds once it is durable.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Self

from headgate.engine import commands as c
from headgate.engine.entry import EntryId
from headgate.engine.errors import Unavailable
from headgate.engine.limits import TAKEOVER_IDS_MAX
from headgate.engine.loop.signals import Holder
from headgate.engine.replies import Takeover
from headgate.engine.state.keyspace import Keyspace


class Feeds:
    def __init__(self) -> None:
        self._feeds: dict[Holder, list[TakeoverFeed]] = {}

    def __bool__(self) -> bool:
        return bool(self._feeds)

    def of(self, holder: Holder) -> Sequence[TakeoverFeed]:
        return self._feeds.get(holder, ())

    def open(self, holder: Holder, feed: TakeoverFeed) -> None:
        self._feeds.setdefault(holder, []).append(feed)

    def close(self, holder: Holder, feed: TakeoverFeed) -> None:
        feeds = self._feeds[holder]
        feeds.remove(feed)
        if not feeds:
            del self._feeds[holder]


class TakeoverFeed:
    """Takeovers from one consumer that nobody has read from this feed yet.

    The feed is an async iterator that ends when it is closed, and a context manager that closes it.
    Several takeovers by one consumer that wait in the feed are returned as one. The feed holds at
    most `TAKEOVER_IDS_MAX` ids; beyond that it drops the oldest.
    """

    def __init__(self, feeds: Feeds, holder: Holder) -> None:
        self._feeds = feeds
        self._holder = holder
        self._by_taker: dict[bytes, dict[EntryId, int]] = {}
        self._id_count = 0
        self._is_closed = False
        self._changed = asyncio.Event()
        self.on_put: Callable[[], None] | None = None  # is called when there is something in it

    async def __aenter__(self) -> Self:
        self.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        self.close()

    def open(self) -> None:
        self._feeds.open(self._holder, self)

    def close(self) -> None:
        """Receive no more. An iteration that is under way ends."""
        self._feeds.close(self._holder, self)
        self._is_closed = True
        self._changed.set()

    def __aiter__(self) -> Self:
        """Return the feed itself. A takeover that was returned is no longer in the feed."""
        return self

    async def __anext__(self) -> Takeover:
        while not self._is_closed:
            takeover = self.take()
            if takeover is not None:
                return takeover
            self._changed.clear()
            await self._changed.wait()
        raise StopAsyncIteration

    def take(self) -> Takeover | None:
        """Return the next takeover by one consumer, or None if the feed is empty."""
        if not self._by_taker:
            return None
        by = next(iter(self._by_taker))
        counts = self._by_taker.pop(by)
        self._id_count -= len(counts)
        return Takeover(counts, by)

    def put(self, takeover: Takeover) -> None:
        counts = self._by_taker.setdefault(takeover.by, {})
        self._id_count -= len(counts)
        counts.update(takeover.counts)
        self._id_count += len(counts)
        while self._id_count > TAKEOVER_IDS_MAX:
            self._forget_oldest()
        self._changed.set()
        if self.on_put is not None:
            self.on_put()

    def _forget_oldest(self) -> None:
        by, counts = next(iter(self._by_taker.items()))
        del counts[next(iter(counts))]
        self._id_count -= 1
        if not counts:
            del self._by_taker[by]


class _Noted(NamedTuple):
    feed: TakeoverFeed
    takeover: Takeover


class Takeovers(Feeds):
    def __init__(self) -> None:
        super().__init__()
        self._noted: deque[_Noted] = deque()  # applied, but perhaps not durable yet
        self._has_noted = asyncio.Event()

    def note(self, keyspace: Keyspace, command: c.Command) -> None:
        """Note, before it is applied, the entries a command takes over and their earlier owners."""
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
        self._noted.clear()

    async def feed_next(self, wait_durable: Callable[[], Awaitable[object]]) -> None:
        """Feed the takeovers noted next once durable; `wait_durable` raises Unavailable if lost."""
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
