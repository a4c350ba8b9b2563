"""Claims: the engine tells what is taken over from the consumers that are followed here.

The engine is asked once for each consumer, however many feeds of it are open. After a new
connection all of them are asked for again. What was taken over while there was none comes in no
feed: a subscription that has lost the engine looks what became of the entries that it held.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from headgate.app.backends.remote.connection import EngineConnection, Link
from headgate.app.backends.remote.messages import Follow, Unfollow
from headgate.engine.loop.takeover_feed import Feeds, TakeoverFeed
from headgate.engine.replies import Takeover

_Holder = tuple[bytes, bytes, bytes]


class RemoteClaims:
    """The feeds that are open in this worker."""

    def __init__(self) -> None:
        """Start without feeds."""
        self._feeds = Feeds()
        self._holders: dict[int, _Holder] = {}  # by the number under which they are followed
        self._numbers: dict[_Holder, int] = {}
        self._last = 0
        self.link: Link | None = None

    def claims(
        self, stream: bytes, group: bytes, consumer: bytes
    ) -> AbstractAsyncContextManager[AsyncIterator[Takeover]]:
        """Open a feed of what other consumers take over. See `ClaimFeed`."""
        return self._open((stream, group, consumer))

    @asynccontextmanager
    async def _open(self, holder: _Holder) -> AsyncIterator[AsyncIterator[Takeover]]:
        async with TakeoverFeed(self._feeds, holder) as feed:
            self._follow(holder)
            try:
                yield feed
            finally:
                if len(self._feeds.of(holder)) == 1:
                    self._unfollow(holder)

    def put(self, number: int, takeover: Takeover) -> None:
        """Put a takeover into the feeds of its consumer."""
        holder = self._holders.get(number)
        if holder is not None:
            for feed in self._feeds.of(holder):
                feed.put(takeover)

    def follow_all(self, connection: EngineConnection) -> None:
        """Ask for all feeds over a new connection."""
        for number, holder in self._holders.items():
            connection.send(Follow(number, *holder))

    def _follow(self, holder: _Holder) -> None:
        if holder in self._numbers:
            return
        self._last += 1
        self._numbers[holder] = self._last
        self._holders[self._last] = holder
        connection = None if self.link is None else self.link.current
        if connection is not None:
            connection.send(Follow(self._last, *holder))

    def _unfollow(self, holder: _Holder) -> None:
        number = self._numbers.pop(holder)
        del self._holders[number]
        connection = None if self.link is None else self.link.current
        if connection is not None:
            connection.send(Unfollow(number))
