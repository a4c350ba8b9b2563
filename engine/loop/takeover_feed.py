"""Takeover feed: what one consumer is notified of that others have taken over from it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from headgate.engine.entry import EntryId
from headgate.engine.limits import TAKEOVER_IDS_MAX
from headgate.engine.loop.signals import Holder
from headgate.engine.replies import Takeover


class Feeds:
    """The open feeds, by the consumer that each one notifies."""

    def __init__(self) -> None:
        """Start without feeds."""
        self._feeds: dict[Holder, list[TakeoverFeed]] = {}

    def __bool__(self) -> bool:
        """Tell whether any feed is open."""
        return bool(self._feeds)

    def of(self, holder: Holder) -> Sequence[TakeoverFeed]:
        """Return the feeds of a consumer."""
        return self._feeds.get(holder, ())

    def open(self, holder: Holder, feed: TakeoverFeed) -> None:
        """Let `feed` receive what others take over from a consumer."""
        self._feeds.setdefault(holder, []).append(feed)

    def close(self, holder: Holder, feed: TakeoverFeed) -> None:
        """Stop sending takeovers to `feed`."""
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
        """Get ready. `__aenter__` opens the feed."""
        self._feeds = feeds
        self._holder = holder
        self._by_taker: dict[bytes, dict[EntryId, int]] = {}
        self._id_count = 0
        self._is_closed = False
        self._changed = asyncio.Event()
        self.on_put: Callable[[], None] | None = None  # is called when there is something in it

    async def __aenter__(self) -> Self:
        """Open the feed."""
        self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the feed. An iteration that is under way ends."""
        self.close()

    def open(self) -> None:
        """Begin to receive takeovers."""
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
        """Return the next takeover by one consumer; wait until there is one."""
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
        """Add a takeover to the feed."""
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
