"""Pattern subscription: all streams whose names match are followed as one."""

import asyncio
from collections.abc import AsyncGenerator

from headgate.app.auth.access import Access
from headgate.app.auth.grants import Verb
from headgate.app.auth.principal import Need, Principal
from headgate.app.live.followed import Followed, PatternBatch, Ready
from headgate.app.live.subscription import (
    BATCH_BYTES_MAX,
    LOOKING_WAIT_MS,
    RETRY_S,
    Credit,
    Subscription,
)
from headgate.app.runtime.connections import OpenSubscription
from headgate.engine.errors import Disconnected
from headgate.engine.patterns.cursor import PatternCursor
from headgate.engine.replies import PatternRead
from headgate.engine.requests.patterns import ReadPattern


class PatternSubscription(Subscription):
    """Entries of all streams that match behind a cursor, and then entries as they come.

    Each read is narrowed to what the principal may read then. So it goes on as another principal
    whose rights differ: what that may not read does not come, and what it may read as well comes
    within a beat.
    """

    __slots__ = ("_after", "_filters", "_first", "_pattern")

    def __init__(
        self,
        access: Access,
        pattern: bytes,
        after: PatternCursor | None,
        *,
        beat_ms: int,
        credit: Credit | None = None,
        filters: str | None = None,
    ) -> None:
        """Get ready to read after a cursor; None: from now on. See `Subscription`."""
        super().__init__(access, credit=credit, beat_ms=beat_ms)
        self._pattern = pattern
        self._after = after
        self._filters = filters
        self._first: PatternRead | None = None

    async def open(self) -> Ready:
        """Read for the first time. See `Subscription.open`."""
        self._first = read = await self._read(wait_ms=0)
        return Ready(read.next_after if self._after is None else self._after)

    def describe(self) -> OpenSubscription:
        """Describe the subscription to an operator."""
        return OpenSubscription(self._pattern, self._state, credit=self._credit_left)

    @property
    def need(self) -> Need:
        """Return the need of reading streams."""
        return Need((Verb.READ,))

    def may_go_on(self, principal: Principal) -> bool:
        """Tell whether a principal may read any stream."""
        return Verb.READ in principal.verbs

    async def position(self) -> PatternCursor:
        """Return the cursor behind which the next entry comes."""
        assert self._after is not None
        return self._after

    async def _sources(self) -> list[AsyncGenerator[Followed, None]]:
        return [self._reading()]

    async def _leave(self) -> None:
        """Do nothing: a read leaves nothing behind."""

    async def _reading(self) -> AsyncGenerator[Followed, None]:
        read, self._first = self._first, None
        assert read is not None
        is_beat = False
        while True:
            self._after = read.next_after
            if read.reads or is_beat:
                yield PatternBatch(read, self._spend(read.entry_count))
            change = self._state_change("caught_up" if read.is_at_end else "live")
            if change is not None:
                yield change
            is_beat = read.is_at_end
            await asyncio.sleep(0)
            read = await self._read_on(wait_ms=self._beat_ms if is_beat else LOOKING_WAIT_MS)

    async def _read_on(self, *, wait_ms: int | None) -> PatternRead:
        """Read; while the engine is not there, the connection stays open.

        What was read as another principal is not shown: it is read again.
        """
        while True:
            principal = self._access.principal
            try:
                read = await self._read(wait_ms=wait_ms)
            except Disconnected:
                await asyncio.sleep(RETRY_S)
                continue
            if self._access.principal is principal:
                return read

    async def _read(self, *, wait_ms: int | None) -> PatternRead:
        return await self._access.perform(
            ReadPattern(
                self._pattern,
                self._after,
                limit=await self._entries_max(),
                size_bytes_max=BATCH_BYTES_MAX,
                wait_ms=wait_ms,
                filters=self._filters,
            )
        )
