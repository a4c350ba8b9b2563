"""Subscription: following a stream or a group, without a connection."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from random import Random
from typing import Any

import pytest

from headgate.app.auth.access import Access
from headgate.app.auth.audit import Audit
from headgate.app.auth.principal import home
from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.live import followed
from headgate.app.live.group_subscription import GroupSubscription
from headgate.app.live.intents import SubscriptionChoices
from headgate.app.live.subscriber import Subscriber
from headgate.app.live.subscription import Credit, StreamSubscription, Subscription
from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.errors import Disconnected, Draining
from headgate.engine.replies import Outcome
from headgate.engine.requests.deliveries import Ack, Claim, ListPending, NackMode, ReadGroup
from headgate.engine.requests.entries import Delete, From, References, StreamCursor, Trim, TrimTo
from headgate.engine.requests.groups import DescribeGroup, ListConsumers
from tests.conditions import WITHIN_S, until
from tests.unit.driver import Driver, G, S, entry_id

CAUGHT_UP, EXHAUSTED = followed.State("caught_up"), followed.State("credit_exhausted")


@pytest.fixture
async def engine() -> AsyncIterator[Driver]:
    """An engine that runs, with entries 1 to 3 and a group that has seen none of them."""
    driver = Driver()
    await driver.start(1, 2, 3)
    running = asyncio.create_task(driver.run())
    yield driver
    assert driver.waiter_count == 0, "a subscription left a read behind"
    await driver.close()
    await running


class Reader:
    """Takes the items of a subscription, one after the other."""

    def __init__(self, coming: AsyncGenerator[followed.Followed, None]) -> None:
        self._coming = coming

    async def next(self) -> Any:
        """Return the next item: of batches the numbers, with the credit left."""
        async with asyncio.timeout(WITHIN_S):
            what = await anext(self._coming)
        match what:
            case followed.StreamBatch(read, left):
                return [entry.id.ms for entry in read.entries], left
            case followed.GroupBatch(deliveries, _, _, left):
                return [delivery.id.ms for delivery in deliveries], left
        return what

    async def entries(self) -> list[int]:
        """Return the numbers of the next batch that has any."""
        what = await self.next()
        while isinstance(what, followed.State) or not what[0]:
            what = await self.next()
        ids: list[int] = what[0]
        return ids

    async def ended(self) -> Any:
        """Return the error of the end, which must be the next item."""
        what = await self.next()
        assert isinstance(what, followed.Ended)
        with pytest.raises(StopAsyncIteration):
            await anext(self._coming)
        return type(what.error)


@asynccontextmanager
async def reading(subscription: Subscription, **until: Any) -> AsyncIterator[Reader]:
    await subscription.open()
    async with aclosing(subscription.follow(**until)) as coming:
        yield Reader(coming)


def _access(engine: Driver, backend: EmbeddedBackend | None = None) -> Access:
    return Access(backend or EmbeddedBackend(engine), home(), Audit(lambda: 0.0))


class CutOffBackend(EmbeddedBackend):
    """An engine that is not there for one read, and what happens before it is looked for again."""

    def __init__(self, engine: Driver) -> None:
        super().__init__(engine)
        self.claim_feed = None
        self.is_cut_off = False
        self.before_list: Callable[[], Awaitable[object]] | None = None

        async def perform(request: Any) -> Any:
            if isinstance(request, ReadGroup) and self.is_cut_off:
                self.is_cut_off = False
                raise Disconnected("cut off")
            if isinstance(request, ListPending) and self.before_list is not None:
                await self.before_list()
            return await engine.perform(request)

        self.perform = perform


def stream(
    engine: Driver,
    after: EntryId | From = MIN_ID,
    credit: int | None = None,
    beat_ms: int | None = None,
) -> StreamSubscription:
    given = None if credit is None else Credit(credit, limit=10)
    return StreamSubscription(
        _access(engine), StreamCursor(S, after), credit=given, beat_ms=beat_ms
    )


async def group(
    engine: Driver,
    consumer: bytes | None = b"a",
    credit: int | None = None,
    *,
    keeps: bool = False,
    beat_ms: int | None = None,
    backend: EmbeddedBackend | None = None,
    **chosen: Any,
) -> GroupSubscription:
    info = await engine.perform(DescribeGroup(S, G))
    subscriber = Subscriber.named_or_new(
        S,
        G,
        consumer,
        on_disconnect="keep" if keeps else None,
        policy=info.policy,
        random=Random(1),
    )
    given = None if credit is None else Credit(credit, limit=10)
    choices = SubscriptionChoices(**chosen)
    return GroupSubscription(
        _access(engine, backend), subscriber, info, choices, credit=given, beat_ms=beat_ms
    )


async def blocked(engine: Driver, reader: Reader) -> asyncio.Task[Any]:
    """Begin to wait for what comes next, until the read is blocked."""
    coming = asyncio.create_task(reader.next())
    await until(lambda: engine.waiter_count)
    return coming


# A stream


async def test_what_trimming_took_is_told_with_what_is_left(engine: Driver) -> None:
    subscription = stream(engine, entry_id(1), credit=1)
    async with reading(subscription) as reader:
        assert await reader.next() == ([2], 0)
        assert await reader.next() == EXHAUSTED
        await engine.perform(Trim(S, TrimTo(0)))
        subscription.add_credit(1)
        assert await reader.next() == ([], 1)  # a gap, and nothing behind it
        assert await reader.next() == CAUGHT_UP
        assert await subscription.position() == entry_id(3)


async def test_a_subscription_ends_when_it_has_to(engine: Driver) -> None:
    over = asyncio.Event()

    async def until() -> None:
        await over.wait()

    for subscription in (stream(engine, From.NOW), await group(engine)):
        over.clear()
        async with reading(subscription, until=until) as reader:
            while await reader.next() != CAUGHT_UP:
                pass
            over.set()
            assert await reader.ended() is Draining


@pytest.mark.parametrize(
    ("after", "position", "numbers"),
    [
        *((entry_id(2), entry_id(2), [3]), (From.NOW, entry_id(3), [4])),
        (From.LAST, entry_id(3).previous(), [3]),
    ],
)
async def test_where_reading_begins_is_an_id(
    engine: Driver, after: EntryId | From, position: EntryId, numbers: list[int]
) -> None:
    subscription = stream(engine, after)
    ready = await subscription.open()
    await engine.put(4)
    async with aclosing(subscription.follow()) as coming:
        assert await Reader(coming).entries() == numbers
    assert ready.position == position


# A group


async def test_what_is_given_back_in_the_end_is_so_though_cancelled(engine: Driver) -> None:
    async def follow() -> None:
        async with reading(await group(engine, None)) as reader:
            await reader.next()
            has_read.set()
            await asyncio.Event().wait()

    has_read = asyncio.Event()
    following = asyncio.create_task(follow())
    await has_read.wait()
    for _ in range(3):
        following.cancel()
        await asyncio.sleep(0)
    await asyncio.wait((following,))

    assert await engine.perform(ListConsumers(S, G)) == []


async def test_what_was_sent_is_not_sent_again(
    engine: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.app.live.group_subscription.RETRY_S", 0)
    backend = CutOffBackend(engine)
    async with reading(await group(engine, backend=backend)) as reader:
        assert await reader.next() == ([1, 2, 3], None)
        assert await reader.next() == CAUGHT_UP
        coming = await blocked(engine, reader)
        backend.is_cut_off = True  # for the read behind this one
        await engine.put(4)
        assert await coming == ([4], None)
        await engine.put(5)
        assert await reader.entries() == [5]
        assert not backend.is_cut_off


async def test_an_entry_that_came_back_is_not_lost(
    engine: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.app.live.group_subscription.RETRY_S", 0)
    backend = CutOffBackend(engine)

    async def come_back() -> None:
        await engine.perform(Claim(S, G, b"a", [entry_id(2)], 0))

    async with reading(await group(engine, backend=backend)) as reader:
        assert await reader.next() == ([1, 2, 3], None)
        assert await reader.next() == CAUGHT_UP
        coming = await blocked(engine, reader)
        await engine.perform(Claim(S, G, b"b", [entry_id(2), entry_id(3)], 0))
        backend.is_cut_off, backend.before_list = True, come_back
        await engine.put(4)
        assert await coming == ([4], None)
        assert await reader.next() == followed.ClaimedAway([entry_id(3)], b"b")
        await engine.put(5)
        assert await reader.entries() == [5]


async def test_what_is_gone_from_the_stream_is_named_and_acknowledged(engine: Driver) -> None:
    await engine.take(b"a")
    await engine.perform(Delete(S, [entry_id(1), entry_id(3)], References.KEEP))
    subscription = await group(engine, credit=5)
    await subscription.open()
    async with aclosing(subscription.follow()) as coming:
        batch = await anext(coming)
        assert isinstance(batch, followed.GroupBatch)
        assert [delivery.id.ms for delivery in batch.deliveries] == [2]
        assert (batch.gone, batch.credit_left) == ([entry_id(1), entry_id(3)], 4)
        assert await anext(coming) == CAUGHT_UP
        assert await engine.held_numbers() == [2]


async def test_what_was_settled_elsewhere_is_forgotten(engine: Driver) -> None:
    subscription = await group(engine, max_pending=2)
    ready = await subscription.open()
    async with aclosing(subscription.follow()) as coming:
        for number in range(1, 20):
            await engine.put(number + 10)
            batch = await anext(coming)
            while not isinstance(batch, followed.GroupBatch):
                batch = await anext(coming)
            await engine.perform(Ack(S, G, [delivery.id for delivery in batch.deliveries]))
    assert ready.held is not None
    assert len(ready.held) <= 5


async def test_what_is_settled_gives_its_credit_back_if_that_was_asked_for(engine: Driver) -> None:
    subscription = await group(engine, credit=1, auto_credit=True)
    async with reading(subscription) as reader:
        assert await reader.next() == ([1], 0)
        assert await reader.next() == EXHAUSTED
        assert await subscription.entries_of(None).extend([entry_id(1)]) == [Outcome.EXTENDED]
        assert await subscription.entries_of(None).nack([entry_id(1)], NackMode.FATAL, 60_000) == [
            Outcome.RELEASED
        ]
        assert await reader.entries() == [2]
        await subscription.entries_of(None).ack([entry_id(2), entry_id(2), entry_id(9)])
        assert await reader.entries() == [3]


async def test_what_another_consumer_claims_gives_its_credit_back_as_well(engine: Driver) -> None:
    async with reading(await group(engine, credit=1, auto_credit=True)) as reader:
        assert await reader.next() == ([1], 0)
        assert await reader.next() == EXHAUSTED
        await engine.perform(Claim(S, G, b"b", [entry_id(1)], 0))
        assert await reader.next() == followed.ClaimedAway([entry_id(1)], b"b")
        assert await reader.entries() == [2]
