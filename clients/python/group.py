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
"""Processes an entry. If it raises, the entry has failed."""


class Consuming:
    """The jobs of one consumer as they arrive: an iterator, and a context manager that ends it.

    At the end, pending acknowledgements are sent and confirmed, and unsettled entries go back to
    the group.
    """

    def __init__(self, group: Worked, wanted: dict[str, Any], *, credit: int) -> None:
        """See `Group.consume`."""
        self._group = group
        self._wanted = wanted
        self._credit = credit
        self._subscription: Subscription | None = None
        self._stopped = asyncio.Event()
        self._beginning = asyncio.Lock()  # several tasks may wait for the first job
        self.on_claimed: OnClaimed | None = None

    @property
    def consumer(self) -> str | None:
        """Return the name of the consumer. None: the gateway has not generated it yet."""
        return None if self._subscription is None else self._subscription.consumer

    @property
    def lag(self) -> int | None:
        """Return the number of entries that the group had not read when the last ones arrived."""
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
        """Take no more entries. Waiting readers get `StopAsyncIteration`."""
        self._stopped.set()
        if self._subscription is not None:
            self._subscription.end()  # entries that were not taken go back to the group

    async def aclose(self) -> None:
        """End the subscription after everything that was settled has been answered."""
        if self._subscription is not None:
            live = self._group.live
            live.say()
            await live.settle(self._subscription)
            await live.leave(self._subscription)


class Worked:
    """What consumers process: a group, or a group over a pattern."""

    def __init__(self, calls: Calls, live: Live, wanted: dict[str, Any]) -> None:
        """Store the subscribe frame `wanted`, without the options of a consumer."""
        self.live = live
        self.calls = calls
        self._wanted = wanted

    async def claim_idle_ms(self) -> int | None:
        """Return the idle time after which other consumers claim an entry, if known."""
        return None

    def consuming(
        self, *, credit: int, on_claimed: OnClaimed | None = None, **options: Any
    ) -> Consuming:
        """Return the jobs of a consumer with these options. None: the default of the gateway."""
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

        It also ends when the stream is closed and the group has settled all of its entries.

        An entry is acknowledged when the handler returns. If the handler raises, the entry has
        failed: the error is logged, and the entry is delivered again with the error, as the group's
        policy says (`backoff_ms`, `max_deliveries`). At the end, no more entries are taken, running
        handlers finish, and their outcomes are confirmed.

        Args:
            handler: A coroutine function that takes a job.
            concurrency: Number of handlers that run concurrently.
            consumer: Name of the consumer. None: the gateway generates one, and removes it at the
                end.
            credit: Maximum number of entries in this program. Default: twice `concurrency`, at
                least 64.
            claim_idle_ms: See `consume`.
            on_error: Called with a job and its error, instead of logging the error.
            stop: Ends the work when it is set. If given, signals are not handled.
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
                failure = failures.exceptions[0]  # all workers have the same error
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
        """Return its push, which sends its entries to a URL. The push need not exist."""
        return Push(self._calls, f"{self._path}/push")

    async def create(
        self, *, start: str = "$", create_stream: bool = True, policy: Policy | None = None
    ) -> GroupInfo:
        """Create the group. Does nothing if it exists with this policy (XGROUP CREATE).

        Args:
            start: Id after which the group reads. `0`: all entries, `$`: only new entries.
            create_stream: Also create the stream if it does not exist.
            policy: The policy of the group.

        Raises:
            GroupExists: The group exists with another policy.
        """
        body: dict[str, Any] = {"start": start, "create_stream": create_stream}
        if policy is not None:
            body["policy"] = policy
        return cast(GroupInfo, await self._calls.call("PUT", self._path, body=body))

    async def update(self, *, start: str | None = None, policy: Policy | None = None) -> GroupInfo:
        """Change the position or the policy. None keeps the value (XGROUP SETID)."""
        body = {"start": start, "policy": policy}
        sent = {name: value for name, value in body.items() if value is not None}
        return cast(GroupInfo, await self._calls.call("PATCH", self._path, body=sent))

    async def info(self) -> GroupInfo:
        """Return the position, lag, number of pending entries and policy (XINFO GROUPS)."""
        return cast(GroupInfo, await self._calls.call("GET", self._path))

    async def claim_idle_ms(self) -> int | None:
        """Return the idle time after which others claim an entry, if the policy has one."""
        return (await self.info())["policy"].get("claim_idle_ms")

    async def delete(self) -> None:
        """Delete the group and its pending entries (XGROUP DESTROY)."""
        await self._calls.call("DELETE", self._path)

    async def signal(self, key: str, value: object = None) -> None:
        """Resume handlers that wait for a key, now or later. See `Job.wait_for`.

        Args:
            key: The key that they wait for. The last signal of a key counts, for 90 days.
            value: The value that they receive. It is stored as JSON.
        """
        await StepTable(self._calls, self.live, self.stream, self.name).signal(key, value)

    # Read over the live connection

    def consume(
        self,
        *,
        consumer: str | None = None,
        credit: int = 64,
        claim_idle_ms: int | None = None,
        on_disconnect: OnDisconnect | None = None,
        on_claimed: OnClaimed | None = None,
    ) -> Consuming:
        """Consume entries: iterate over jobs and wait for new ones (XREADGROUP BLOCK).

        It ends when the stream is closed and the group has settled all of its entries.

        Args:
            consumer: Name of the consumer. None: the gateway generates one, and removes it at the
                end.
            credit: Maximum number of entries in flight to this program or in work.
            claim_idle_ms: Claim entries of other consumers that have been idle for this long.
                Default: the group's policy.
            on_disconnect: What to do with unsettled entries when the connection ends.
            on_claimed: Called with the id of an entry that was claimed, and the consumer that
                claimed it.
        """
        return self.consuming(
            consumer=consumer,
            credit=credit,
            claim_idle_ms=claim_idle_ms,
            on_disconnect=on_disconnect,
            on_claimed=on_claimed,
        )

    # Read and settle with requests

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
        """Read entries with one request (XREADGROUP). `consume` is faster and settles them for you.

        It does not wait if the stream is closed and the group has settled all of its entries;
        `consume` ends then.

        Args:
            consumer: Name of the consumer.
            limit: Maximum number of entries.
            wait_ms: How long to wait if there are no entries.
            claim_idle_ms: First claim entries of any consumer that have been idle for this long.
            after: Return this consumer's own pending entries after this id. `0`: all of them.
            ack: Ids of entries to acknowledge first.
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
        """Acknowledge entries, and return the outcome of each (XACK).

        Args:
            ids: Ids of the entries.
            consumer: Name of the consumer. If set, entries that another consumer has claimed stay
                with it (`claimed`).
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
        """Give entries back, and return the outcome of each (XNACK). See `Job.nack`."""
        options = {"delay_ms": delay_ms, "error": error_text(error)}
        body: dict[str, Any] = {"ids": list(ids), "mode": mode}
        body |= {name: value for name, value in options.items() if value is not None}
        return await self._settle("nack", body, consumer)

    async def extend(self, ids: Iterable[str], *, consumer: str) -> dict[str, Outcome]:
        """Restart the idle time of entries so that no consumer claims them (XCLAIM JUSTID)."""
        return await self._settle("extend", {"ids": list(ids)}, consumer)

    async def claim(
        self, ids: Iterable[str], *, consumer: str, min_idle_ms: int = 0
    ) -> list[Delivery]:
        """Claim pending entries that have been idle for this long (XCLAIM).

        Entries that do not fit into one answer are not claimed. Claim them with another call.
        """
        body = {"ids": list(ids), "min_idle_ms": min_idle_ms}
        path, query = f"{self._path}/claim", {"consumer": consumer}
        answer = await self._calls.call("POST", path, body=body, query=query)
        return list(map(delivery_of, answer["entries"] or ()))

    async def autoclaim(
        self, *, consumer: str, min_idle_ms: int, start: str = "0-0", limit: int = 100
    ) -> Claimed:
        """Claim any pending entries that have been idle for this long, in batches (XAUTOCLAIM).

        Args:
            consumer: Consumer that receives the entries.
            min_idle_ms: Minimum idle time.
            start: Id at which to start.
            limit: Maximum number of entries to claim.
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
        """Return the entries that were delivered but not acknowledged (XPENDING).

        Args:
            start: First id, inclusive. To continue after the last id of a page, put `(` before it.
            end: Last id, inclusive.
            limit: Maximum number of entries.
            consumer: Only entries of this consumer.
            min_idle_ms: Only entries that have been idle for at least this long.
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
        """Return the number of pending entries, in total and per consumer (XPENDING)."""
        answer = await self._calls.call("GET", f"{self._path}/pending/summary")
        return cast(PendingSummary, answer)

    async def consumers(self, *, limit: int = 100) -> AsyncGenerator[ConsumerInfo]:
        """Yield the consumers, in pages of `limit` (XINFO CONSUMERS)."""
        path = f"{self._path}/consumers"
        async for consumer in self._calls.items(path, "consumers", limit=limit):
            yield cast(ConsumerInfo, consumer)

    async def keys(self, *, order: KeyOrder = "waiting", limit: int = 100) -> list[GroupKey]:
        """Return the keys of a fair group, each with its waiting entries, their age, and its share.

        Args:
            order: `waiting`: keys with the most waiting entries first. `age`: oldest entries first.
            limit: Maximum number of keys.
        """
        query = {"order": order, "limit": limit}
        answer = await self._calls.call("GET", f"{self._path}/keys", query=query)
        return cast(list[GroupKey], answer["keys"])

    async def delete_consumer(self, consumer: str, *, drop: bool = False) -> int:
        """Delete a consumer, and return the number of entries that it held (XGROUP DELCONSUMER).

        Args:
            consumer: Name of the consumer.
            drop: Remove its entries from the group. Default: release them to other consumers.
        """
        path = f"{self._path}/consumers/{segment(consumer)}"
        query = {"pending": "drop" if drop else "release"}
        return cast(int, (await self._calls.call("DELETE", path, query=query))["pending"])

    async def redrive(
        self, ids: Iterable[str] | None = None, *, limit: int | None = None
    ) -> list[Redriven]:
        """Deliver dead letters of this group again, oldest first.

        Args:
            ids: Ids of entries in the dead letter stream. None: the oldest.
            limit: Maximum number of entries. None: 100.
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
    """Set `stop` on SIGTERM and SIGINT. Does nothing outside the main thread."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, stop.set)
            signals.callback(loop.remove_signal_handler, number)
