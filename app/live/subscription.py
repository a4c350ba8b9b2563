"""Following a stream, a pattern or a group, for events and sockets alike.

A subscription yields values of `followed` until a closed stream was read completely. Encoders know
nothing else: credit, what the reader holds, what others claimed from it, whether it has caught up,
and what is given back in the end are kept here and in `group_subscription`.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Generic, TypeVar

from headgate.app.auth.access import Access
from headgate.app.auth.grants import Verb
from headgate.app.auth.principal import Need, Principal
from headgate.app.gateway.fan_out import FanOut
from headgate.app.live.followed import (
    AtEnd,
    Ended,
    Followed,
    PatternBatch,
    Ready,
    State,
    StateName,
    StreamBatch,
)
from headgate.app.runtime.connections import OpenSubscription
from headgate.app.wire.problems import GatewayError
from headgate.engine.entry import EntryId
from headgate.engine.errors import Disconnected, Draining, StreamError
from headgate.engine.patterns import PatternCursor
from headgate.engine.replies import PatternRead, StreamRead
from headgate.engine.requests.entries import From, Read, ReadPattern, RowKeys, StreamCursor

T = TypeVar("T")


async def merged(*sources: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    """Yield items of several sources as they come, until the first source ends or fails.

    Each source waits until its item is taken. All that are ready get a turn before any gets a
    second one. All sources are closed at the end.
    """
    table = _Table[T]()
    tasks = [asyncio.create_task(table.bring(source)) for source in sources]
    try:
        while True:
            while table.parts:
                part, taken = table.parts.pop(0)
                yield part
                taken.set_result(None)
            if table.is_over:
                table.end()
                return
            await table.wait()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for source in sources:  # also one that has not begun
            await source.aclose()


class _Table(Generic[T]):
    __slots__ = ("_changed", "_error", "_loop", "is_over", "parts")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._changed = self._loop.create_future()
        self._error: Exception | None = None
        self.parts: list[tuple[T, asyncio.Future[None]]] = []
        self.is_over = False  # a source has ended

    async def bring(self, source: AsyncGenerator[T, None]) -> None:
        """Put down the items of a source; closes the source when cancelled."""
        try:
            async with aclosing(source) as parts:
                async for part in parts:
                    taken = self._loop.create_future()
                    self.parts.append((part, taken))
                    self._wake()
                    await taken
        except Exception as error:  # noqa: BLE001
            self._error = self._error or error
        finally:
            self.is_over = True
            self._wake()

    def end(self) -> None:
        """Raise the error of a source, if one failed, and forget it.

        An error references the frames it came through. If one of them kept the error, both would
        wait for the garbage collector.
        """
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
        finally:
            del error

    async def wait(self) -> None:
        await self._changed
        self._changed = self._loop.create_future()

    def _wake(self) -> None:
        if not self._changed.done():
            self._changed.set_result(None)


BATCH_ENTRIES_MAX = 250
"""Entries in one batch: enough to make the cost of a batch small, few enough to be sent at once."""

BATCH_BYTES_MAX = 2**20
"""Names and values in one batch, but for its first entry."""

_BEHIND_WAIT_MS = 1
"""Time of a read before the end of a stream: entries are there, as a rule."""

LOOKING_WAIT_MS = 100
"""The same with a filter: so long it may look at entries that do not match."""

RETRY_S = 1.0
"""Before a subscription reads again, after the servers that keep the streams were not there."""


class Credit:
    """The number of entries that a reader will take. Without credit no read is issued."""

    __slots__ = ("_added", "_limit", "available")

    def __init__(self, available: int, *, limit: int) -> None:
        self.available = available
        self._limit = limit
        self._added: asyncio.Future[None] | None = None  # what the one who waits waits for

    def add(self, entries: int) -> None:
        self.available = min(self.available + entries, self._limit)
        if self._added is not None and not self._added.done():
            self._added.set_result(None)

    def spend(self, entries: int) -> None:
        self.available -= entries

    async def wait_available(self) -> int:
        """Wait until there is credit, and return it. Only one caller may wait."""
        while self.available <= 0:
            self._added = asyncio.get_running_loop().create_future()
            await self._added
        return self.available


class Subscription(ABC):
    """One reader. `open` it, then follow it once, until it ends or is closed.

    Without `credit` any number of entries is sent. After `beat_ms` of silence an empty batch comes;
    None means never.
    """

    __slots__ = ("_access", "_beat_ms", "_credit", "_state", "is_broken")

    @property
    @abstractmethod
    def need(self) -> Need:
        """Return the right that following needs."""

    def may_go_on(self, principal: Principal) -> bool:
        return principal.may(self.need)

    def __init__(self, access: Access, *, credit: Credit | None, beat_ms: int | None) -> None:
        self._access = access
        self._credit = credit
        self._beat_ms = beat_ms
        self._state: StateName = "live"
        self.is_broken = False  # the connection ended without a word

    @abstractmethod
    def describe(self) -> OpenSubscription:
        """Describe the subscription to an operator."""

    @abstractmethod
    async def open(self) -> Ready:
        """Find where reading begins, or raise NotFound. Needs no cleanup unless it is followed."""

    @abstractmethod
    async def position(self) -> EntryId | PatternCursor:
        """Return the last position that was read. Raises NotFound."""

    async def follow(
        self, *, until: Callable[[], Awaitable[None]] | None = None
    ) -> AsyncGenerator[Followed, None]:
        """Yield the items as they come; the last is `AtEnd` or `Ended`. Then held entries go back.

        `until` returns when the subscription has to end with `Draining`, or raises another reason.
        """
        try:
            sources = await self._sources()
            if until is not None:
                sources.append(ending(until))
            async with aclosing(merged(*sources) if sources[1:] else sources[0]) as coming:
                async for item in coming:
                    yield item
        except (StreamError, GatewayError) as error:
            yield Ended(error.with_traceback(None))  # or its frames lead back to who has it
        finally:
            await self._leave()

    @abstractmethod
    async def _sources(self) -> list[AsyncGenerator[Followed, None]]:
        """Return the sources of items."""

    @abstractmethod
    async def _leave(self) -> None:
        """Clean up at the end."""

    def add_credit(self, entries: int) -> None:
        if self._credit is not None:
            self._credit.add(entries)

    async def _entries_max(self) -> int:
        """Wait for credit, and return how many entries the next batch may have."""
        if self._credit is None:
            return BATCH_ENTRIES_MAX
        return min(BATCH_ENTRIES_MAX, await self._credit.wait_available())

    @property
    def _credit_left(self) -> int | None:
        return None if self._credit is None else self._credit.available

    def _spend(self, entries: int) -> int | None:
        if self._credit is None:
            return None
        self._credit.spend(entries)
        return self._credit.available

    def _state_change(self, state: StateName) -> State | None:
        if self._credit is not None and self._credit.available <= 0:
            state = "credit_exhausted"
        if self._state == state:
            return None
        self._state = state
        return State(state)


class StreamSubscription(Subscription):
    """Entries of a stream after a cursor, then entries as they come."""

    __slots__ = (
        "_cursor",
        "_fan_out",
        "_filters",
        "_first",
        "_is_filtered",
        "_keys",
        "_need",
        "_send_at_once",
    )

    def __init__(
        self,
        access: Access,
        cursor: StreamCursor,
        *,
        credit: Credit | None = None,
        beat_ms: int | None = None,
        filters: str | None = None,
        keys: RowKeys | None = None,
    ) -> None:
        """With `filters` or `keys`, an empty batch tells how far nothing matched."""
        super().__init__(access, credit=credit, beat_ms=beat_ms)
        self._cursor = cursor
        self._need = Need((Verb.READ,), cursor.stream, keys=keys)
        self._filters, self._keys = filters, keys
        self._is_filtered = filters is not None or keys is not None
        self._first: StreamRead | None = None
        self._fan_out: FanOut | None = None
        self._send_at_once: Callable[[StreamBatch], bool] = _cannot

    def read_together(self, fan_out: FanOut, send_at_once: Callable[[StreamBatch], bool]) -> None:
        """Wait at the end of the stream together with others, if all read the same.

        What comes then is given to `send_at_once`, and is followed only if that returns false.
        """
        if not self._is_filtered:
            self._fan_out, self._send_at_once = fan_out, send_at_once

    async def open(self) -> Ready:
        self._first = read = await self._read(wait_ms=0)
        after = read.after
        if self._cursor.after is From.LAST:
            after = read.entries[0].id.previous() if read.entries else read.next_after
        return Ready(after, read.gap)

    def describe(self) -> OpenSubscription:
        return OpenSubscription(self._cursor.stream, self._state, credit=self._credit_left)

    @property
    def need(self) -> Need:
        return self._need

    @property
    def is_over(self) -> bool:
        first = self._first
        return first is not None and first.closed_at_ms is not None and not first.entries

    async def position(self) -> EntryId:
        assert isinstance(self._cursor.after, EntryId)
        return self._cursor.after

    async def _sources(self) -> list[AsyncGenerator[Followed, None]]:
        return [self._reading()]

    async def _leave(self) -> None:
        self._fan_out, self._send_at_once = None, _cannot  # they know the connection

    async def _reading(self) -> AsyncGenerator[Followed, None]:
        read, self._first = self._first, None
        assert read is not None
        behind_wait_ms = LOOKING_WAIT_MS if self._is_filtered else _BEHIND_WAIT_MS
        while True:
            has_moved = self._is_filtered and read.next_after != read.after
            self._cursor = StreamCursor(self._cursor.stream, read.next_after)
            count = len(read.entries)
            if count or read.gap is not None or has_moved:
                yield StreamBatch(read, self._spend(self._sent_count(read)))
            if read.closed_at_ms is not None:
                yield AtEnd(read.next_after, read.closed_at_ms)
                return
            # What is at the end of the stream may be deleted: then nothing comes though its last id
            # is above.
            at_end = (not count and not self._is_filtered) or read.next_after >= read.last_id
            change = self._state_change("caught_up" if at_end else "live")
            if change is not None:
                yield change
            elif not count and read.gap is None and not has_moved:
                yield StreamBatch(read, self._spend(0))
            # Others come between, and one that is cancelled ends here. Those who follow side by
            # side are at the same place meanwhile, so each place is read once for all of them: a
            # read that may wait need not be newer than the last change that was noticed.
            await asyncio.sleep(0)
            wait_ms = self._beat_ms if at_end else behind_wait_ms
            if at_end and self._fan_out is not None and not self._access.usage.is_limited:
                try:
                    await self._wait_with(self._fan_out)
                except TimeoutError:
                    wait_ms = 0  # a beat is over
            read = await self._read_on(wait_ms=wait_ms)

    async def _wait_with(self, fan_out: FanOut) -> None:
        await self._entries_max()
        request = self._request(BATCH_ENTRIES_MAX, None)
        self._access.admit(request)
        async with asyncio.timeout(None if self._beat_ms is None else self._beat_ms / 1000):
            await fan_out.wait(self, request)

    def take(self, read: StreamRead) -> bool:
        """Send what came for all who follow side by side, as `Recipient` says."""
        credit_left = None
        if self._credit is not None:
            credit_left = self._credit.available - self._sent_count(read)
            if credit_left <= 0:
                return False
        principal = self._access.principal
        if principal.ending is not None or not self.may_go_on(principal):
            return False
        if self._access.usage.is_limited or not self._send_at_once(StreamBatch(read, credit_left)):
            return False
        self._spend(self._sent_count(read))
        self._cursor = StreamCursor(read.stream, read.next_after)
        return True

    def _sent_count(self, read: StreamRead) -> int:
        """Return how many items the reader gets, each of which takes credit."""
        return len(read.entries)

    def _request(self, limit: int, wait_ms: int | None) -> Read:
        return Read(
            (self._cursor,),
            limit=limit,
            size_bytes_max=BATCH_BYTES_MAX,
            wait_ms=wait_ms,
            filters=self._filters,
            keys=self._keys,
        )

    async def _read(self, *, wait_ms: int | None) -> StreamRead:
        request = self._request(await self._entries_max(), wait_ms)
        [read] = await self._access.perform(request)
        return read.placed()

    async def _read_on(self, *, wait_ms: int | None) -> StreamRead:
        """Read; while the servers are unavailable, the connection stays open."""
        while True:
            try:
                return await self._read(wait_ms=wait_ms)
            except Disconnected:
                await asyncio.sleep(RETRY_S)


def _cannot(_: StreamBatch) -> bool:
    return False


async def ending(until: Callable[[], Awaitable[None]]) -> AsyncGenerator[Any, None]:
    """Yield nothing, and raise Draining or another reason once `until` returns or raises it."""
    await until()
    raise Draining
    yield  # it is a source like the others


class PatternSubscription(Subscription):
    """Entries of all matching streams after a cursor, then entries as they come.

    Each read is limited to what the principal may read at that time. So it can go on as another
    principal with other rights: what that one may not read does not come, and what it may read in
    addition comes within a beat.
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
        """`after` None means from now on."""
        super().__init__(access, credit=credit, beat_ms=beat_ms)
        self._pattern = pattern
        self._after = after
        self._filters = filters
        self._first: PatternRead | None = None

    async def open(self) -> Ready:
        self._first = read = await self._read(wait_ms=0)
        return Ready(read.next_after if self._after is None else self._after)

    def describe(self) -> OpenSubscription:
        return OpenSubscription(self._pattern, self._state, credit=self._credit_left)

    @property
    def need(self) -> Need:
        return Need((Verb.READ,))

    def may_go_on(self, principal: Principal) -> bool:
        return Verb.READ in principal.verbs

    async def position(self) -> PatternCursor:
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
        """Read; what was read as another principal is dropped and read again."""
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
