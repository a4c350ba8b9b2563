"""Pattern group subscription: following one group in all streams that match, as one consumer."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from dataclasses import replace as changed
from typing import cast

from msgspec.structs import replace

from headgate.app.auth.access import Access
from headgate.app.auth.grants import Verb
from headgate.app.auth.principal import Need, Principal
from headgate.app.live.followed import Followed, GroupsBatch, Held, Ready, StateName
from headgate.app.live.group_subscription import whole
from headgate.app.live.held_entries import HeldEntries
from headgate.app.live.intents import SubscriptionChoices
from headgate.app.live.subscriber import Subscriber
from headgate.app.live.subscription import BATCH_BYTES_MAX, RETRY_S, Credit, Subscription
from headgate.app.runtime.connections import OpenSubscription
from headgate.app.wire.problems import GatewayError
from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.errors import Disconnected, NotFound
from headgate.engine.replies import GroupRead, GroupsRead
from headgate.engine.requests.deliveries import Ack, GroupCursor, Nack, ReadGroups
from headgate.engine.requests.groups import DescribeGroup

_FIRST = GroupCursor(b"")


class PatternGroupSubscription(Subscription):
    """What the consumer holds in any of the streams, then what they have, in turns."""

    __slots__ = (
        "_by_stream",
        "_held_expected",
        "_on_disconnect",
        "_request",
        "_settled_credit",
        "_subscriber",
        "_unchecked",
    )

    def __init__(
        self,
        access: Access,
        subscriber: Subscriber,
        choices: SubscriptionChoices,
        *,
        credit: Credit | None = None,
        beat_ms: int | None = None,
    ) -> None:
        """`subscriber` has the pattern in place of a stream."""
        super().__init__(access, credit=credit, beat_ms=beat_ms)
        self._subscriber = subscriber
        self._request = ReadGroups(
            subscriber.stream,
            subscriber.group,
            subscriber.consumer,
            size_bytes_max=BATCH_BYTES_MAX,
            claim_idle_ms=choices.claim_idle_ms,
            claim_own=False,
            no_ack=choices.ack == "none",
            max_pending=choices.max_pending,
            weights=choices.weights or {},
            create=choices.create,
            is_temporary=subscriber.is_temporary,
        )
        self._on_disconnect = choices.on_disconnect
        self._settled_credit = credit if choices.auto_credit else None
        self._by_stream: dict[bytes, HeldEntries] = {}
        self._unchecked = 0  # deliveries since it was looked how many are held
        self._held_expected = choices.max_pending or (0 if credit is None else credit.available)

    async def open(self) -> Ready:
        held = None if self._request.no_ack else Held()  # what is held stands by its stream
        return Ready(MIN_ID, None, self._request.consumer, None, held)

    def describe(self) -> OpenSubscription:
        request = self._request
        return OpenSubscription(
            request.pattern,
            self._state,
            request.group,
            request.consumer,
            self._credit_left,
            None if request.no_ack else self._held_count,
        )

    @property
    def need(self) -> Need:
        return Need((Verb.CONSUME,), None, self._request.group, self._request.consumer)

    def may_go_on(self, principal: Principal) -> bool:
        return Verb.CONSUME in principal.verbs

    async def position(self) -> EntryId:
        return MIN_ID

    def entries_of(self, stream: bytes | None) -> HeldEntries:
        """Return what is held of a stream; GatewayError unless entries of it were sent."""
        entries = None if stream is None else self._by_stream.get(stream)
        if entries is None:
            text = "name the stream that the entries came with"
            raise GatewayError("invalid_request", text, pointer="/body/stream")
        return entries

    def settled(self, step: Ack | Nack) -> None:
        entries = self._by_stream.get(step.stream)
        if entries is not None:
            entries.settled(step)

    @property
    def _held_count(self) -> int:
        return sum(len(entries.held) for entries in self._by_stream.values())

    async def _sources(self) -> list[AsyncGenerator[Followed, None]]:
        return [self._reading()]

    async def _leave(self) -> None:
        await whole(self._give_back())

    async def _give_back(self) -> None:
        for entries in self._by_stream.values():
            await entries.leave(has_failed=self.is_broken)

    async def _reading(self) -> AsyncGenerator[Followed, None]:
        """Yield what the consumer holds, stream by stream, then what it is given.

        After the servers were unavailable it begins anew, as deliveries may not have arrived.
        """
        own_after = None if self._subscriber.is_temporary else _FIRST
        wait_ms: int | None = 0
        while True:
            try:
                read = await self._read(own_after, wait_ms)
                unsent = await self._hold(read, is_own=own_after is not None)
            except Disconnected:
                await asyncio.sleep(RETRY_S)
                own_after = _FIRST
                continue
            for item in self._items(unsent, is_own=own_after is not None):
                yield item
            if own_after is None:
                wait_ms = self._beat_ms
            else:
                own_after = _end_of(read)
            self._unchecked += unsent.delivery_count
            if self._unchecked > 2 * self._held_expected:
                await self._forget_settled()
            await asyncio.sleep(0)

    async def _read(self, own_after: GroupCursor | None, wait_ms: int | None) -> GroupsRead:
        limit = await self._entries_max()
        return await self._access.perform(
            replace(self._request, limit=limit, own_after=own_after, wait_ms=wait_ms)
        )

    async def _hold(self, read: GroupsRead, *, is_own: bool) -> GroupsRead:
        """Note what was delivered, at once, and return what was not sent before.

        Then register the consumer where it is new, and acknowledge what is gone from its stream: it
        would only use up what the consumer may hold.
        """
        new: list[HeldEntries] = []
        unsent: list[GroupRead] = []
        for each in read.reads:
            entries = self._by_stream.get(each.stream)
            if entries is None:
                subscriber = changed(self._subscriber, stream=each.stream, releases=True)
                entries = HeldEntries(self._access, subscriber, self._settled_credit)
                self._by_stream[each.stream] = entries
                new.append(entries)
            known = frozenset(entries.held.counts) if is_own else ()
            alive = [one for one in each.deliveries if one.fields is not None]
            if not self._request.no_ack:
                entries.held.add(alive)
            alive = [one for one in alive if one.id not in known]
            if alive:
                unsent.append(each._replace(deliveries=alive))
        for entries in new:
            await self._enter(entries)
        for each in read.reads:
            gone = [delivery.id for delivery in each.deliveries if delivery.fields is None]
            if gone:
                await self._access.perform(
                    Ack(each.stream, self._request.group, gone, self._request.consumer)
                )
        return read._replace(reads=unsent)

    async def _enter(self, entries: HeldEntries) -> None:
        releases = self._subscriber.releases
        if self._on_disconnect is None and not self._subscriber.is_temporary:
            with suppress(NotFound):  # it is gone by now
                info = await self._access.backend.perform(DescribeGroup(*entries.names))
                releases = not info.policy.on_disconnect
        entries.subscriber = changed(entries.subscriber, releases=releases)
        await entries.subscriber.enter(self._access.backend)

    def _items(self, read: GroupsRead, *, is_own: bool) -> Iterator[Followed]:
        if read.reads:
            yield GroupsBatch(read, self._spend(read.delivery_count))
        if is_own:
            return
        change = self._state_change(cast("StateName", read.state.value))
        if change is not None:
            yield change
        elif not read.reads:
            yield GroupsBatch(read, self._spend(0))

    async def _forget_settled(self) -> None:
        """Forget what was settled elsewhere, if more is held than was to be expected."""
        self._unchecked = 0
        if self._held_count <= 2 * self._held_expected:
            return
        for entries in self._by_stream.values():
            if entries.held.counts:
                with suppress(NotFound):
                    await entries.forget_settled()
        self._held_expected = max(self._held_expected, self._held_count)


def _end_of(read: GroupsRead) -> GroupCursor | None:
    if not read.reads:
        return None
    last = read.reads[-1]
    return GroupCursor(last.stream, last.deliveries[-1].id if last.deliveries else None)
