"""Group subscription: following a group as one of its consumers."""

import asyncio
from bisect import bisect_right
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from typing import Any, cast

from msgspec.structs import replace

from headgate.app.auth.access import Access
from headgate.app.auth.grants import Verb
from headgate.app.auth.principal import Need
from headgate.app.live.followed import (
    AtEnd,
    ClaimedAway,
    Followed,
    GroupBatch,
    Ready,
    State,
    StateName,
)
from headgate.app.live.held_entries import PENDING_PAGE, HeldEntries
from headgate.app.live.intents import SubscriptionChoices
from headgate.app.live.subscriber import Subscriber
from headgate.app.live.subscription import BATCH_BYTES_MAX, RETRY_S, Credit, Subscription
from headgate.app.runtime.connections import OpenSubscription
from headgate.app.wire.problems import GatewayError
from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.errors import Disconnected
from headgate.engine.replies import GroupInfo, GroupRead, GroupState, Takeover
from headgate.engine.requests.deliveries import (
    Ack,
    AckThrough,
    GroupCursor,
    ListPending,
    Nack,
    ReadGroup,
)
from headgate.engine.requests.groups import DescribeConsumer, DescribeGroup

_CAUGHT_UP = State("caught_up")


class GroupSubscription(Subscription):
    """A consumer's own pending entries, then idle or new ones, then entries as they come."""

    __slots__ = (
        "_claims",
        "_consumer",
        "_entries",
        "_held",
        "_held_expected",
        "_names",
        "_position",
        "_request",
        "_subscriber",
    )

    def __init__(
        self,
        access: Access,
        subscriber: Subscriber,
        info: GroupInfo,
        choices: SubscriptionChoices,
        *,
        credit: Credit | None = None,
        beat_ms: int | None = None,
    ) -> None:
        super().__init__(access, credit=credit, beat_ms=beat_ms)
        self._subscriber = subscriber
        self._names = subscriber.stream, subscriber.group
        self._consumer = subscriber.consumer
        self._position = info.last_id
        self._request = ReadGroup(
            subscriber.group,
            subscriber.consumer,
            [],
            claim_idle_ms=choices.claim_idle_ms,
            claim_released=True,
            claim_own=False,
            no_ack=choices.ack == "none",
            max_pending=choices.max_pending,
            size_bytes_max=BATCH_BYTES_MAX,
        )
        self._entries = HeldEntries(access, subscriber, credit if choices.auto_credit else None)
        self._held = self._entries.held
        self._held_expected = choices.max_pending or (0 if credit is None else credit.available)
        self._claims: AbstractAsyncContextManager[object] | None = None

    async def open(self) -> Ready:
        """Count the consumer's pending entries. See `Subscription.open`."""
        mine = await self._access.perform(DescribeConsumer(*self._names, self._consumer))
        return Ready(
            self._position,
            None,
            self._consumer,
            0 if mine is None else mine.pending_count,
            None if self._request.no_ack else self._held,
        )

    def describe(self) -> OpenSubscription:
        return OpenSubscription(
            self._subscriber.stream,
            self._state,
            self._subscriber.group,
            self._consumer,
            self._credit_left,
            None if self._request.no_ack else len(self._held),
        )

    @property
    def need(self) -> Need:
        return Need((Verb.CONSUME,), *self._names, self._consumer)

    async def position(self) -> EntryId:
        return (await self._access.perform(DescribeGroup(*self._names))).last_id

    async def holds_last(self) -> bool:
        info = await self._access.perform(DescribeGroup(*self._names)) if len(self._held) else None
        return info is not None and info.closed_at_ms is not None

    async def ack_through(self, seen: EntryId) -> None:
        """Acknowledge the consumer's entries up to an id. See the request `AckThrough`."""
        await self._access.perform(AckThrough(*self._names, self._consumer, seen))

    def entries_of(self, stream: bytes | None) -> HeldEntries:
        """Return what is held of the stream; GatewayError for another one."""
        if stream not in (None, self._subscriber.stream):
            text = "not allowed: the subscription has only one stream"
            raise GatewayError("invalid_request", text, pointer="/body/stream")
        return self._entries

    def settled(self, step: Ack | Nack) -> None:
        self._entries.settled(step)

    async def _sources(self) -> list[AsyncGenerator[Followed, None]]:
        await self._subscriber.enter(self._access.backend)
        sources = [self._reading()]
        claim_feed = self._access.claim_feed
        if claim_feed is not None and not self._request.no_ack:
            claims = claim_feed.claims(*self._names, self._consumer)
            sources.append(self._losing(await claims.__aenter__()))
            self._claims = claims
        return sources

    async def _leave(self) -> None:
        await whole(self._give_back())

    async def _give_back(self) -> None:
        if self._claims is not None:
            await self._claims.__aexit__(None, None, None)
        await self._entries.leave(has_failed=self.is_broken)

    async def _losing(self, takeovers: AsyncIterator[Takeover]) -> AsyncGenerator[Followed, None]:
        async for takeover in takeovers:
            lost = self._entries.take_away(takeover)
            if lost:
                yield ClaimedAway(lost, takeover.by)

    async def _reading(self) -> AsyncGenerator[Followed, None]:
        async with aclosing(self._reads()) as reads:
            async for read in reads:
                if isinstance(read, ClaimedAway):
                    yield read
                    continue
                gone = [delivery.id for delivery in read.deliveries if delivery.fields is None]
                for item in self._items(read, gone):
                    yield item
                if read.state is GroupState.CLOSED and (end := await self._end()) is not None:
                    yield end
                    return
                with suppress(Disconnected):
                    if gone:  # it would only use up what the consumer may hold
                        await self._access.perform(Ack(*self._names, gone, consumer=self._consumer))
                    if len(self._held) > 2 * self._held_expected:
                        await self._entries.forget_settled()
                        self._held_expected = max(self._held_expected, len(self._held))

    def _items(self, read: GroupRead, gone: list[EntryId]) -> Iterator[Followed]:
        alive = [delivery for delivery in read.deliveries if delivery.fields is not None]
        if not self._request.no_ack:
            self._held.add(alive)
        if read.deliveries:
            yield GroupBatch(alive, gone, read.lag, self._spend(len(alive)))
        if read.state is GroupState.CLOSED:
            return
        change = self._state_change(cast("StateName", read.state.value))
        if change is not None:
            yield change
        if not read.deliveries and change != _CAUGHT_UP:
            yield GroupBatch([], [], read.lag, self._spend(0))

    async def _end(self) -> AtEnd | None:
        with suppress(Disconnected):
            info = await self._access.perform(DescribeGroup(*self._names))
            if info.is_over and info.closed_at_ms is not None:
                return AtEnd(info.last_id, info.closed_at_ms)
        return None

    async def _reads(self) -> AsyncGenerator[GroupRead | ClaimedAway, None]:
        """Yield reads, also after the servers were unavailable for a while.

        They may have delivered something then that did not arrive. So what the consumer holds is
        read again, and what was sent before is left out. No feed has reported what others have
        claimed meanwhile. So entries that are no longer held are looked up.
        """
        while True:
            try:
                async with aclosing(self._reads_from_start()) as reads:
                    async for read in reads:
                        yield read
            except Disconnected:
                await asyncio.sleep(RETRY_S)

    async def _reads_from_start(self) -> AsyncGenerator[GroupRead | ClaimedAway, None]:
        known = frozenset(self._held.counts)  # was sent before
        counts = dict(self._held.counts)
        after: EntryId | None = MIN_ID
        while after is not None:
            read = await self._read(after, self._beat_ms)
            for each in read.deliveries:
                counts.pop(each.id, None)
            unsent = [each for each in read.deliveries if each.id not in known]
            self._held.count(each for each in read.deliveries if each.id in known)
            if unsent or not read.served:
                yield read._replace(deliveries=unsent)
            await asyncio.sleep(0)
            after = read.deliveries[-1].id if read.deliveries else None if read.served else after
        for takeover in await self._takeovers_of(counts):
            lost = self._entries.take_away(takeover)
            if lost:  # or the feed has told by now
                yield ClaimedAway(lost, takeover.by)
        wait_ms: int | None = 0
        while True:
            yield await self._read(None, wait_ms)
            await asyncio.sleep(0)
            wait_ms = self._beat_ms

    async def _read(self, after: EntryId | None, wait_ms: int | None) -> GroupRead:
        cursor = GroupCursor(self._subscriber.stream, after)
        limit = await self._entries_max()
        request = replace(self._request, cursors=[cursor], limit=limit, wait_ms=wait_ms)
        [read] = await self._access.perform(request)
        return read

    async def _takeovers_of(self, counts: Mapping[EntryId, int]) -> list[Takeover]:
        """Return claims by others of entries that the consumer has lost.

        `counts` has their delivery counts before that. An entry that nobody holds was settled, or
        waits for the next reader.
        """
        ids = sorted(counts)
        by_taker: dict[bytes, dict[EntryId, int]] = {}
        begin = 0
        while begin < len(ids):  # a page leads behind one of them at least
            page = await self._access.perform(
                ListPending(*self._names, ids[begin], ids[-1], PENDING_PAGE)
            )
            for item in page:
                if item.id in counts and item.consumer not in (None, self._consumer):
                    assert item.consumer is not None
                    by_taker.setdefault(item.consumer, {})[item.id] = counts[item.id]
            begin = bisect_right(ids, page[-1].id) if len(page) == PENDING_PAGE else len(ids)
        return [Takeover(taken, by) for by, taken in by_taker.items()]


async def whole(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end even if the caller is cancelled, which then waits."""
    task = asyncio.ensure_future(work)
    is_cancelled = False
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            is_cancelled = True
    if is_cancelled:
        raise asyncio.CancelledError
    try:
        task.result()
    finally:
        del task  # what it raised knows this frame
