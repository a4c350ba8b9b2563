"""Group: consumers share the entries of a stream, and one of them processes each entry."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from typing import Any, Self, cast

from headgate.client.automation import Push
from headgate.client.calls import Calls, segment
from headgate.client.entries import Claimed, Delivery, delivery_of
from headgate.client.job import Job, error_text
from headgate.client.live import Live
from headgate.client.problems import HeadgateError
from headgate.client.shapes.answers import (
    ConsumerInfo,
    GroupInfo,
    GroupKey,
    KeyOrder,
    PendingEntry,
    PendingSummary,
    Redriven,
)
from headgate.client.shapes.settings import OnDisconnect, Policy
from headgate.client.steps import StepTable
from headgate.client.stream import OnClaimed, until_ready
from headgate.client.subscription import Mode, Outcome, Subscription

log = logging.getLogger("headgate.client")

Handler = Callable[[Job], Awaitable[object]]
"""Works one entry off. If it raises, the entry has failed."""


class Consuming:
    """The jobs of one consumer as they arrive: an iterator, and a context that ends it.

    At the end what was settled is sent and confirmed, and what was not goes back to the group.
    """

    def __init__(self, group: Worked, wanted: dict[str, Any], *, credit: int) -> None:
        """See `Group.consume`."""
        self._group = group
        self._wanted = wanted
        self._credit = credit
        self._subscription: Subscription | None = None
        self._stopped = asyncio.Event()
        self._beginning = asyncio.Lock()  # several may ask for the first job
        self.on_claimed: OnClaimed | None = None

    @property
    def consumer(self) -> str | None:
        """Return the name of the consumer; None: the gateway has not given it one yet."""
        return None if self._subscription is None else self._subscription.consumer

    @property
    def lag(self) -> int | None:
        """Return how many entries the group had not read when the last ones came."""
        return None if self._subscription is None else self._subscription.lag

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Job:
        if self._stopped.is_set():
            raise StopAsyncIteration
        subscription = self._subscription or await self._begin()
        if not self._stopped.is_set() and not subscription.items:
            await until_ready(subscription)
        if self._stopped.is_set():
            raise StopAsyncIteration
        return Job(self._group.calls, self._group.live, subscription, subscription.next_item())

    async def _begin(self) -> Subscription:
        async with self._beginning:
            if self._subscription is None:
                claim_idle_ms = self._wanted.get("claim_idle_ms")
                if claim_idle_ms is None:
                    claim_idle_ms = await self._group.claim_idle_ms()
                self._subscription = self._group.live.subscribe(
                    self._wanted, credit=self._credit, claim_idle_ms=claim_idle_ms
                )
                self._subscription.on_claimed = self.on_claimed
        return self._subscription

    def stop(self) -> None:
        """Take no more entries: waiting readers get `StopAsyncIteration`."""
        self._stopped.set()
        if self._subscription is not None:
            self._subscription.end()  # what nobody has taken goes back to the group

    async def aclose(self) -> None:
        """End it once everything that was settled is answered."""
        if self._subscription is not None:
            live = self._group.live
            live.say()
            await live.settle(self._subscription)
            await live.leave(self._subscription)


class Worked:
    """What is worked off by consumers: a group, or a group over a pattern."""

    def __init__(self, calls: Calls, live: Live, wanted: dict[str, Any]) -> None:
        """Keep the subscribe frame `wanted`, without what a consumer chooses."""
        self.live = live
        self.calls = calls
        self._wanted = wanted

    async def claim_idle_ms(self) -> int | None:
        """Return the idle time after which others claim an entry, if one is known."""
        return None

    def consuming(
        self, *, credit: int, on_claimed: OnClaimed | None = None, **options: Any
    ) -> Consuming:
        """Return the jobs of a consumer with these options; None: as the gateway has it."""
        chosen = {name: value for name, value in options.items() if value is not None}
        consuming = Consuming(self, self._wanted | chosen, credit=credit)
        consuming.on_claimed = on_claimed
        return consuming

    async def work(
        self,
        handler: Handler,
        *,
        concurrency: int = 1,
        consumer: str | None = None,
        credit: int | None = None,
        claim_idle_ms: int | None = None,
        on_error: Callable[[Job, Exception], object] | None = None,
        stop: asyncio.Event | None = None,
    ) -> None:
        """Process entries until SIGTERM or SIGINT arrives, or `stop` is set.

        It also ends when the stream is closed and the group has settled all of it.

        An entry is acknowledged when the handler returns. If the handler raises, the entry has
        failed: it is delivered again as the group's policy says (`backoff_ms`, `max_deliveries`),
        with the error, which is also logged. At the end no more entries are taken, running handlers
        are awaited, and what they have settled is confirmed.

        Args:
            handler: a coroutine function that takes a job.
            concurrency: handlers that run at the same time.
            consumer: name of the consumer; None: the gateway makes one, and removes it at the end.
            credit: entries that may be here; None: twice as many as handlers, at least 64.
            claim_idle_ms: see `consume`.
            on_error: called with a job and its error, instead of logging it.
            stop: ends the work when it is set; signals are left alone then.
        """
        consuming = self.consuming(
            consumer=consumer,
            credit=credit or max(64, 2 * concurrency),
            claim_idle_ms=claim_idle_ms,
        )
        failure: Exception | None = None
        with contextlib.ExitStack() as signals:
            if stop is None:
                stop = asyncio.Event()
                _stop_at_signals(stop, signals)
            stopping = asyncio.ensure_future(_stop(consuming, stop))
            try:
                async with consuming, asyncio.TaskGroup() as workers:
                    for _ in range(concurrency):
                        workers.create_task(_work(consuming, handler, on_error))
            except* HeadgateError as failures:
                failure = failures.exceptions[0]  # each worker has met the same
            finally:
                stopping.cancel()
        if failure is not None:
            raise failure


class Group(Worked):
    """A group of consumers of a stream. Creating this object sends nothing.

    Example:
        billing = hg.group("orders", "billing")
        await billing.create(start="0", policy={"max_deliveries": 5})
        await billing.work(charge, concurrency=16)
    """

    def __init__(self, calls: Calls, live: Live, stream: str, name: str) -> None:
        """See `AsyncClient.group`."""
        super().__init__(calls, live, {"stream": stream, "group": name})
        self.stream = stream
        self.name = name
        self._calls = calls
        self._path = f"/v1/streams/{segment(stream)}/groups/{segment(name)}"

    @property
    def push(self) -> Push:
        """Return its push, which sends its entries to a URL; the push need not exist."""
        return Push(self._calls, f"{self._path}/push")

    async def create(
        self, *, start: str = "$", create_stream: bool = True, policy: Policy | None = None
    ) -> GroupInfo:
        """Create the group; do nothing if it exists with this policy (XGROUP CREATE).

        Args:
            start: it reads entries after this id; `0`: all, `$`: only new ones.
            create_stream: also create the stream if it does not exist.
            policy: its rules.

        Raises:
            GroupExists: it exists with another policy.
        """
        body: dict[str, Any] = {"start": start, "create_stream": create_stream}
        if policy is not None:
            body["policy"] = policy
        return cast(GroupInfo, await self._calls.call("PUT", self._path, body=body))

    async def update(self, *, start: str | None = None, policy: Policy | None = None) -> GroupInfo:
        """Change its position or its policy; what is None stays (XGROUP SETID)."""
        body = {"start": start, "policy": policy}
        sent = {name: value for name, value in body.items() if value is not None}
        return cast(GroupInfo, await self._calls.call("PATCH", self._path, body=sent))

    async def info(self) -> GroupInfo:
        """Return its position, lag, pending count and policy (XINFO GROUPS)."""
        return cast(GroupInfo, await self._calls.call("GET", self._path))

    async def claim_idle_ms(self) -> int | None:
        """Return the idle time after which others claim an entry, if its policy has one."""
        return (await self.info())["policy"].get("claim_idle_ms")

    async def delete(self) -> None:
        """Delete the group with what is pending in it (XGROUP DESTROY)."""
        await self._calls.call("DELETE", self._path)

    async def signal(self, key: str, value: object = None) -> None:
        """Let handlers go on that wait for a key, or will wait for it; see `Job.wait_for`.

        Args:
            key: what they wait for. The last signal of a key counts, for 90 days.
            value: what they get; it is kept as JSON.
        """
        await StepTable(self._calls, self.live, self.stream, self.name).signal(key, value)

    # Reading over the live connection

    def consume(
        self,
        *,
        consumer: str | None = None,
        credit: int = 64,
        claim_idle_ms: int | None = None,
        on_disconnect: OnDisconnect | None = None,
        on_claimed: OnClaimed | None = None,
    ) -> Consuming:
        """Consume entries: an iterator of jobs that waits for the next one (XREADGROUP BLOCK).

        It ends when the stream is closed and the group has settled all of it.

        Args:
            consumer: who reads; None: the gateway makes a name, and removes it in the end.
            credit: entries that may be on the way to this program, or in work.
            claim_idle_ms: take entries of others that are idle for so long; None: as the group's
                policy has it.
            on_disconnect: what becomes of unsettled entries when the connection ends.
            on_claimed: is called with the id of an entry that somebody else has taken over.
        """
        return self.consuming(
            consumer=consumer,
            credit=credit,
            claim_idle_ms=claim_idle_ms,
            on_disconnect=on_disconnect,
            on_claimed=on_claimed,
        )

    # Reading and settling by requests

    async def read(
        self,
        consumer: str,
        *,
        limit: int = 10,
        wait_ms: int = 0,
        claim_idle_ms: int | None = None,
        after: str | None = None,
        ack: Sequence[str] = (),
    ) -> list[Delivery]:
        """Return entries by one request (XREADGROUP); `consume` is faster and settles by itself.

        It does not wait when the stream is closed and the group has settled all of it: that is the
        end of `consume`.

        Args:
            consumer: who reads.
            limit: entries at most.
            wait_ms: how long to wait if there is nothing.
            claim_idle_ms: first take entries of anybody that are idle for so long.
            after: read this consumer's own pending entries after this id; `0`: all of them.
            ack: acknowledge these first.
        """
        body: dict[str, Any] = {"limit": limit, "wait_ms": wait_ms, "ack": list(ack)}
        if claim_idle_ms is not None:
            body["claim_idle_ms"] = claim_idle_ms
        if after is not None:
            body["from"] = after
        path = f"{self._path}/read"
        query = {"consumer": consumer}
        answer = await self._calls.call("POST", path, body=body, query=query, wait_ms=wait_ms)
        return list(map(delivery_of, answer["entries"]))

    async def ack(self, ids: Iterable[str], *, consumer: str | None = None) -> dict[str, Outcome]:
        """Acknowledge entries, and return what became of each (XACK).

        Args:
            ids: of entries.
            consumer: who does it: what belongs to another consumer by now stays there (`claimed`).
        """
        return await self._settle("ack", {"ids": list(ids)}, consumer)

    async def nack(
        self,
        ids: Iterable[str],
        *,
        consumer: str | None = None,
        mode: Mode = "fail",
        delay_ms: int | None = None,
        error: BaseException | str | None = None,
    ) -> dict[str, Outcome]:
        """Give entries back, and return what became of each (XNACK); see `Job.nack`."""
        options = {"delay_ms": delay_ms, "error": error_text(error)}
        body: dict[str, Any] = {"ids": list(ids), "mode": mode}
        body |= {name: value for name, value in options.items() if value is not None}
        return await self._settle("nack", body, consumer)

    async def extend(self, ids: Iterable[str], *, consumer: str) -> dict[str, Outcome]:
        """Restart the idle clock of entries, so that nobody claims them (XCLAIM JUSTID)."""
        return await self._settle("extend", {"ids": list(ids)}, consumer)

    async def claim(
        self, ids: Iterable[str], *, consumer: str, min_idle_ms: int = 0
    ) -> list[Delivery]:
        """Take over pending entries that have been idle that long (XCLAIM).

        Entries that do not fit into one answer stay as they are, and can be claimed again.
        """
        body = {"ids": list(ids), "min_idle_ms": min_idle_ms}
        path, query = f"{self._path}/claim", {"consumer": consumer}
        answer = await self._calls.call("POST", path, body=body, query=query)
        return list(map(delivery_of, answer["entries"] or ()))

    async def autoclaim(
        self, *, consumer: str, min_idle_ms: int, start: str = "0-0", limit: int = 100
    ) -> Claimed:
        """Take over whatever is pending and idle for so long, by portions (XAUTOCLAIM).

        Args:
            consumer: gets the entries.
            min_idle_ms: how long they must have been idle.
            start: the lowest id that is looked at.
            limit: entries that are taken at most.
        """
        body = {"min_idle_ms": min_idle_ms, "start": start, "limit": limit}
        path, query = f"{self._path}/autoclaim", {"consumer": consumer}
        answer = await self._calls.call("POST", path, body=body, query=query)
        entries = list(map(delivery_of, answer["entries"] or ()))
        return Claimed(entries, answer["next"], answer["deleted_ids"])

    async def pending(
        self,
        *,
        start: str = "-",
        end: str = "+",
        limit: int = 100,
        consumer: str | None = None,
        min_idle_ms: int | None = None,
    ) -> list[PendingEntry]:
        """Return entries that were delivered and are not acknowledged (XPENDING).

        Args:
            start: the lowest id; `(` before an id leaves it out, as behind the last one of before.
            end: the highest id.
            limit: so many at most.
            consumer: only what this one has.
            min_idle_ms: only what was idle for so long.
        """
        query = {
            "start": start,
            "end": end,
            "limit": limit,
            "consumer": consumer,
            "min_idle_ms": min_idle_ms,
        }
        answer = await self._calls.call("GET", f"{self._path}/pending", query=query)
        return cast(list[PendingEntry], answer["pending"])

    async def pending_summary(self) -> PendingSummary:
        """Return the number of pending entries, and of those of each consumer (XPENDING)."""
        answer = await self._calls.call("GET", f"{self._path}/pending/summary")
        return cast(PendingSummary, answer)

    async def consumers(self, *, limit: int = 100) -> AsyncGenerator[ConsumerInfo]:
        """Yield the consumers, by pages of `limit` (XINFO CONSUMERS)."""
        path = f"{self._path}/consumers"
        async for consumer in self._calls.items(path, "consumers", limit=limit):
            yield cast(ConsumerInfo, consumer)

    async def keys(self, *, order: KeyOrder = "waiting", limit: int = 100) -> list[GroupKey]:
        """Return the keys of a fair group: what waits of each, for how long, and its share.

        Args:
            order: `waiting`: those with the most entries first; `age`: the oldest first.
            limit: so many at most.
        """
        query = {"order": order, "limit": limit}
        answer = await self._calls.call("GET", f"{self._path}/keys", query=query)
        return cast(list[GroupKey], answer["keys"])

    async def delete_consumer(self, consumer: str, *, drop: bool = False) -> int:
        """Delete a consumer, and return how many entries it held (XGROUP DELCONSUMER).

        Args:
            consumer: its name.
            drop: forget its entries; otherwise others get them.
        """
        path = f"{self._path}/consumers/{segment(consumer)}"
        query = {"pending": "drop" if drop else "release"}
        return cast(int, (await self._calls.call("DELETE", path, query=query))["pending"])

    async def redrive(
        self, ids: Iterable[str] | None = None, *, limit: int | None = None
    ) -> list[Redriven]:
        """Let dead letters of this group be delivered again, the oldest first.

        Args:
            ids: of entries in the dead letter stream; None: the oldest.
            limit: so many at most; None: a hundred.
        """
        body: dict[str, Any] = {} if ids is None else {"ids": list(ids)}
        if limit is not None:
            body["limit"] = limit
        path = f"{self._path}/dead-letters/redrive"
        return cast(list[Redriven], (await self._calls.call("POST", path, body=body))["results"])

    async def _settle(
        self, how: str, body: dict[str, Any], consumer: str | None
    ) -> dict[str, Outcome]:
        answer = await self._calls.call(
            "POST",
            f"{self._path}/{how}",
            body=body,
            query={"consumer": consumer},
            is_repeatable=how != "nack",
        )
        return {result["id"]: result["outcome"] for result in answer["results"]}


async def _work(
    consuming: Consuming, handler: Handler, on_error: Callable[[Job, Exception], object] | None
) -> None:
    async for job in consuming:
        try:
            async with job:
                await handler(job)
        except Exception as error:
            if on_error is not None:
                on_error(job, error)
            else:
                log.exception("entry %s failed (delivery %d)", job.id, job.deliveries)


async def _stop(consuming: Consuming, stop: asyncio.Event) -> None:
    await stop.wait()
    consuming.stop()


def _stop_at_signals(stop: asyncio.Event, signals: contextlib.ExitStack) -> None:
    """Set `stop` on SIGTERM and SIGINT; does nothing outside the main thread."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, stop.set)
            signals.callback(loop.remove_signal_handler, number)
