"""Reads a group as one of its consumers, and sends the entries.

1. Wait until the window and the receiver allow a request.
2. Read: without waiting, for as many slots as are free, if there may be more; or else wait for one
   request's entries without a slot, and take one then. So waiting for entries holds no slot.
3. Send each request in a task of its own, and settle its outcome.

An entry counts as in flight until it is settled. So a reader with few requests at a time is never
given what it does not send.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from headgate.app.automation.health import PushLog, Window, backoff_ms
from headgate.app.automation.pushes import PushAnswer, PushRecord, digest_of
from headgate.app.automation.records import PAUSE_S
from headgate.app.automation.signing import PushSecrets, Signer
from headgate.app.automation.targets import NameUnknown, TargetRefused
from headgate.app.automation.webhooks import LARGE_UNIT_BYTES, Sender, TargetAnswer
from headgate.app.backends.port import Holding, Leases, Perform
from headgate.app.backends.releasing import give_back, temporary_name
from headgate.app.cloud_events.event import BATCH, STRUCTURED, event_of_delivery
from headgate.app.runtime.threads import WEBHOOKS
from headgate.app.wire.encoding import delivery_wire
from headgate.app.wire.fields import json_bytes
from headgate.app.wire.names import text_of
from headgate.app.wire.pushes import PushBody
from headgate.engine.clock import Clock
from headgate.engine.config import NO_POLICY
from headgate.engine.entry import EntryId
from headgate.engine.errors import LimitReached, StreamError, TooManyWaiters, Unavailable
from headgate.engine.replies import Delivery
from headgate.engine.requests.deliveries import Ack, Extend, GroupCursor, Nack, NackMode, ReadGroup
from headgate.engine.requests.groups import DescribeGroup
from headgate.engine.requests.streams import DescribeStream

# Bodies: what a request of a push has of its entries.

BODY_BYTES_MAX = 1_048_576
"""The body of one request, about; a larger entry comes alone."""

_BATCHED_MAX = 2
"""Deliveries of an entry together with others."""

_JSON = "application/json"
_encode = msgspec.json.Encoder().encode


class PushRequest(NamedTuple):
    deliveries: Sequence[Delivery]
    size_bytes: int  # of names and values, as they are sent

    @property
    def is_large(self) -> bool:
        """Return whether the body is large: built in a thread, and few at a time."""
        return self.size_bytes > LARGE_UNIT_BYTES

    @property
    def units(self) -> int:
        return -(-self.size_bytes // LARGE_UNIT_BYTES)

    @property
    def key(self) -> str:
        """Return a unique name for this set of entries."""
        first = str(self.deliveries[0].id)
        if len(self.deliveries) == 1:
            return first
        return f"{first}_{digest_of(*(str(entry_id).encode() for entry_id in self.ids))[:20]}"

    @property
    def ids(self) -> list[EntryId]:
        return [delivery.id for delivery in self.deliveries]


class Content(NamedTuple):
    body: bytes
    headers: dict[str, str]


def requests_of(deliveries: Sequence[Delivery], entries_max: int) -> Iterator[PushRequest]:
    """Yield the requests for some entries, in order; removed entries are left out.

    An entry that has failed twice comes alone, so that it no longer makes others fail.
    """
    batch, size_bytes = list[Delivery](), 0
    for delivery in deliveries:
        if delivery.fields is None:
            continue
        own_bytes = sum(map(json_bytes, delivery.fields))
        if delivery.delivered_before >= _BATCHED_MAX:
            yield PushRequest([delivery], own_bytes)
            continue
        if batch and (len(batch) >= entries_max or size_bytes + own_bytes > BODY_BYTES_MAX):
            yield PushRequest(batch, size_bytes)
            batch, size_bytes = [], 0
        batch.append(delivery)
        size_bytes += own_bytes
    if batch:
        yield PushRequest(batch, size_bytes)


class Bodies:
    def __init__(self, kind: PushBody, stream: bytes, group: bytes) -> None:
        self._stream, self._group = text_of(stream), text_of(group)
        self.content_of = {
            PushBody.ENTRY: self._entry,
            PushBody.BATCH: self._batch,
            PushBody.CLOUDEVENTS: self._event,
            PushBody.CLOUDEVENTS_BINARY: self._binary_event,
            PushBody.CLOUDEVENTS_BATCH: self._events,
        }[kind]

    def _entry(self, request: PushRequest) -> Content:
        [delivery] = request.deliveries
        wire = {"stream": self._stream, "group": self._group, **delivery_wire(delivery)}
        return Content(_encode(wire), {"Content-Type": _JSON})

    def _batch(self, request: PushRequest) -> Content:
        entries = [delivery_wire(delivery) for delivery in request.deliveries]
        wire = {"stream": self._stream, "group": self._group, "entries": entries}
        return Content(_encode(wire), {"Content-Type": _JSON})

    def _event(self, request: PushRequest) -> Content:
        [delivery] = request.deliveries
        event = event_of_delivery(self._stream, delivery)
        return Content(_encode(event.structured()), {"Content-Type": STRUCTURED})

    def _binary_event(self, request: PushRequest) -> Content:
        [delivery] = request.deliveries
        event = event_of_delivery(self._stream, delivery)
        headers = {**event.headers(), "Content-Type": event.content_type or _JSON}
        return Content(event.data or b"", headers)

    def _events(self, request: PushRequest) -> Content:
        read = partial(event_of_delivery, self._stream)
        events = [read(delivery).structured() for delivery in request.deliveries]
        return Content(_encode(events), {"Content-Type": BATCH})


_SETTLED_AT_ONCE = 1_000


class PushFailure(NamedTuple):
    error: str
    delay_ms: int  # before the next delivery
    mode: NackMode = NackMode.FAIL


class Settlement(NamedTuple):
    """The outcome of a request; without a failure it is acknowledged."""

    request: PushRequest
    failure: PushFailure | None


class Settling:
    """Settles entries of one consumer, in the order in which their requests ended."""

    def __init__(
        self,
        perform: Perform,
        place: tuple[bytes, bytes, bytes],
        on_settled: Callable[[PushRequest], None],
    ) -> None:
        self._perform, self._on_settled = perform, on_settled
        self._stream, self._group, self._consumer = place
        self._settlements: deque[Settlement] = deque()
        self._news = asyncio.Event()

    def add(self, settlement: Settlement) -> None:
        self._settlements.append(settlement)
        self._news.set()

    async def run(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._settlements:
                await self._settle()

    async def _settle(self) -> None:
        """Settle the first settlements that go together, with retries."""
        failure, settled = self._settlements[0].failure, list[PushRequest]()
        ids = list[EntryId]()
        for settlement in self._settlements:
            if settlement.failure != failure or len(ids) >= _SETTLED_AT_ONCE:
                break
            settled.append(settlement.request)
            ids += settlement.request.ids
        try:
            await self._write(ids, failure)
        except Unavailable:  # nothing can be changed now
            await asyncio.sleep(PAUSE_S)
            return
        for request in settled:
            self._settlements.popleft()
            self._on_settled(request)

    async def _write(self, ids: Sequence[EntryId], failure: PushFailure | None) -> None:
        place = self._stream, self._group, ids
        if failure is None:
            await self._perform(Ack(*place, self._consumer))
            return
        await self._perform(
            Nack(*place, failure.mode, failure.delay_ms, failure.error.encode(), self._consumer)
        )


_EXCERPT_MAX = 200
_RETRY_STATUSES = (429, 503)


class Posting:
    """Sends the requests of one push. Raises nothing, whatever the URL leads to."""

    def __init__(
        self, sender: Sender, clock: Clock, push: PushRecord, held: PushSecrets, signer: Signer
    ) -> None:
        self._sender, self._clock, self._held, self._signer = sender, clock, held, signer
        self._timeout_ms = push.definition.timeout_ms
        self._content_of = Bodies(push.definition.body, push.stream, push.group).content_of

    async def post(self, request: PushRequest, webhook_id: str) -> PushAnswer:
        began_ms = self._clock.monotonic_ms()
        answer, error = await self._send(request, webhook_id)
        excerpt = retry_after_s = None
        if answer is not None and error is not None:
            excerpt = answer.body[: 4 * _EXCERPT_MAX].decode(errors="replace")[:_EXCERPT_MAX]
            retry_after_s = answer.retry_after_s if answer.status in _RETRY_STATUSES else None
        return PushAnswer(
            self._clock.wall_ms(),
            self._clock.monotonic_ms() - began_ms,
            webhook_id,
            len(request.deliveries),
            None if answer is None else answer.status,
            error,
            excerpt or None,
            retry_after_s,
        )

    async def _send(
        self, request: PushRequest, webhook_id: str
    ) -> tuple[TargetAnswer | None, str | None]:
        try:
            make = partial(self._signed, request, webhook_id)
            content = await WEBHOOKS.call_if_awaited(make) if request.is_large else make()
            answer = await self._sender.send(
                self._held.url, content.body, content.headers, within_s=self._timeout_ms / 1000
            )
        except TargetRefused as refused:
            return None, f"not sent: {refused}"
        except NameUnknown:
            return None, "not sent: the name of the host has no address"
        except TimeoutError:
            return None, f"no answer within {self._timeout_ms} ms"
        except OSError as failed:
            return None, f"not sent: {failed}"
        except Exception as failed:  # noqa: BLE001 whatever a URL leads to, it is tried again
            return None, f"not sent: {type(failed).__name__}"
        return answer, None if 200 <= answer.status < 300 else f"answered {answer.status}"

    def _signed(self, request: PushRequest, webhook_id: str) -> Content:
        content = self._content_of(request)
        signature = self._signer.headers(webhook_id, self._clock.wall_ms(), content.body)
        return Content(content.body, {**self._held.headers, **content.headers, **signature})


_WAIT_MS = 30_000

_EXTEND_S = 5.0
"""Entries that have been on their way for so long are kept from takeovers, again and again."""

_READ_MAX = 1_000
"""Entries that are read at once: more would hold the event loop for long."""

_RELEASE_S = 2.0
"""Nobody waits longer for the end of a push when the streams are not there."""

_GONE = 410


class Parts(NamedTuple):
    perform: Perform
    leases: Leases
    sender: Sender
    clock: Clock


class Gone(Exception):
    """The receiver answered 410: it wants no more requests."""


class Pusher:
    def __init__(
        self, parts: Parts, push: PushRecord, held: PushSecrets, signer: Signer, log: PushLog
    ) -> None:
        self._parts, self._perform = parts, parts.perform
        self._definition, self._log = push.definition, log
        self._consumer = temporary_name(secrets.randbits(64))
        self._holding = Holding(push.stream, push.group, self._consumer, is_temporary=True)
        self._posting = Posting(parts.sender, parts.clock, push, held, signer)
        self._window = Window(push.definition.concurrency, push.failures)
        self._names = push.stream, push.group
        self._settling = Settling(self._perform, (*self._names, self._consumer), self._settled)
        self._in_flight: dict[int, PushRequest] = {}  # by the identity of the request
        self._counts: dict[EntryId, int] = {}  # deliveries of what is not sent yet
        self._posts = set[asyncio.Task[None]]()
        self._progress = asyncio.Event()
        self._gone = asyncio.get_running_loop().create_future()
        self._id_prefix = ""

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver until told to stop, then let requests in flight end. May raise Gone."""
        tasks = list[asyncio.Task[Any]]()
        try:
            await self._parts.leases.register(self._holding)
            works = self._read(), self._settling.run(), self._extend(), stop.wait()
            tasks = [asyncio.create_task(work) for work in works]
            ended, _ = await asyncio.wait([*tasks, self._gone], return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
            tasks[0].cancel()
            tasks.append(asyncio.create_task(self._drain()))
            await asyncio.wait([tasks[1], tasks[-1]], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*tasks, *self._posts):
                task.cancel()
            self._gone.cancel()
            await asyncio.gather(*tasks, *self._posts, self._gone, return_exceptions=True)
            await self._release()

    def retry(self) -> None:
        self._window.end_delay()
        self._progress.set()

    async def _drain(self) -> None:
        while self._in_flight:
            self._progress.clear()
            await self._progress.wait()

    async def _release(self) -> None:
        for request in self._in_flight.values():
            self._counts.update(_counts_of(request.deliveries))
        try:
            async with asyncio.timeout(_RELEASE_S):
                await give_back(self._perform, self._holding, self._counts)
                await self._parts.leases.unregister(self._holding)
        except (Unavailable, TimeoutError):
            self._parts.leases.release_later(self._holding, self._counts)
        except asyncio.CancelledError:
            self._parts.leases.release_later(self._holding, self._counts)
            raise

    async def _read(self) -> None:
        info = await self._perform(DescribeStream(self._names[0]))
        digest = digest_of(*self._names, str(info.epoch).encode())
        self._id_prefix = f"msg_{digest[:20]}_"
        has_more = False
        while True:
            await self._until_free()
            try:
                has_more = await (self._read_more() if has_more else self._read_first())
            except (Unavailable, LimitReached, TooManyWaiters):  # nothing can be read now
                await asyncio.sleep(PAUSE_S)

    async def _until_free(self) -> None:
        while True:
            now_ms = self._parts.clock.monotonic_ms()
            if self._window.free(len(self._in_flight), now_ms):
                return
            self._progress.clear()
            delay_ms = self._window.delay_ms(now_ms)
            try:
                async with asyncio.timeout(delay_ms / 1000 if delay_ms else None):
                    await self._progress.wait()
            except TimeoutError:
                pass

    async def _read_first(self) -> bool:
        """Wait for entries, and send them in one request; return whether there may be more."""
        deliveries = await self._deliver(self._definition.entries_max, _WAIT_MS)
        requests = list(requests_of(deliveries, self._definition.entries_max))
        for request in requests:
            await self._parts.sender.places.wait(self._place)
            await self._take_large(request)
            self._send(request)
        if not requests:  # at the end of a stream that is closed, a read does not wait
            await asyncio.sleep(PAUSE_S)
        return bool(requests)

    async def _take_large(self, request: PushRequest) -> None:
        """Wait for the remaining slots of a request that has its first. No reads meanwhile."""
        if request.is_large:
            try:
                await self._parts.sender.large_places.wait(self._place, request.units)
            except BaseException:
                self._parts.sender.places.give(self._place)
                raise

    def _give(self, request: PushRequest) -> None:
        self._parts.sender.places.give(self._place)
        if request.is_large:
            self._parts.sender.large_places.give(self._place, request.units)

    async def _read_more(self) -> bool:
        places, now_ms = self._parts.sender.places, self._parts.clock.monotonic_ms()
        await places.wait(self._place)
        free, taken = self._window.free(len(self._in_flight), now_ms), 1
        while taken < free and places.take(self._place):
            taken += 1
        try:
            limit = min(taken * self._definition.entries_max, _READ_MAX)
            deliveries = await self._deliver(limit, 0)
            for request in requests_of(deliveries, self._definition.entries_max):
                if not taken:
                    await places.wait(self._place)
                    taken = 1
                taken -= 1  # it is the place of the request now
                await self._take_large(request)
                self._send(request)
        finally:
            for _ in range(taken):
                places.give(self._place)
        return bool(deliveries)

    @property
    def _place(self) -> bytes:
        """Return the name under which this push holds slots."""
        return self._consumer

    async def _deliver(self, limit: int, wait_ms: int) -> Sequence[Delivery]:
        [read] = await self._perform(
            ReadGroup(
                self._names[1],
                self._consumer,
                [GroupCursor(self._names[0])],
                limit,
                size_bytes_max=BODY_BYTES_MAX,
                claim_own=False,
                claim_released=True,
                wait_ms=wait_ms,
            )
        )
        self._counts = _counts_of(read.deliveries)
        return read.deliveries

    def _send(self, request: PushRequest) -> None:
        self._in_flight[id(request)] = request
        for entry_id in request.ids:
            self._counts.pop(entry_id, None)
        post = asyncio.create_task(self._post(request))
        self._posts.add(post)
        post.add_done_callback(partial(self._end_post, request))

    async def _post(self, request: PushRequest) -> None:
        failure = await self._attempt(request)
        self._settling.add(Settlement(request, failure))

    def _end_post(self, request: PushRequest, post: asyncio.Task[None]) -> None:
        """Release the slots, even of a task that was cancelled before it began."""
        self._posts.discard(post)
        self._give(request)

    def _settled(self, request: PushRequest) -> None:
        del self._in_flight[id(request)]
        self._progress.set()

    async def _attempt(self, request: PushRequest) -> PushFailure | None:
        answer = await self._posting.post(request, f"{self._id_prefix}{request.key}")
        if answer.error is None:
            self._window.succeed()
            self._log.succeed(answer)
            return None
        self._log.fail(answer)
        return await self._fail(request, answer, answer.error)

    async def _fail(self, request: PushRequest, answer: PushAnswer, error: str) -> PushFailure:
        """Return how to settle a request that was not acknowledged."""
        if answer.status == _GONE:
            if not self._gone.done():
                self._gone.set_exception(Gone())
            return PushFailure(error, 0, NackMode.SILENT)
        try:
            policy = (await self._perform(DescribeGroup(*self._names))).policy
        except StreamError:  # whoever reads says so
            policy = NO_POLICY
        now_ms = self._parts.clock.monotonic_ms()
        self._window.fail(now_ms, policy.delay_ms if policy.backoff_ms else backoff_ms)
        self._progress.set()
        delivery_count = max(delivery.delivery_count for delivery in request.deliveries)
        delay_ms = (policy.delay_ms if policy.backoff_ms else backoff_ms)(delivery_count)
        if answer.retry_after_s is not None:
            self._window.delay_until(now_ms + answer.retry_after_s * 1000)
            delay_ms = max(delay_ms, answer.retry_after_s * 1000)
        return PushFailure(error, delay_ms)

    async def _extend(self) -> None:
        """Restart the idle clock of entries in flight, so that no other consumer claims them."""
        seen = set[int]()
        while True:
            await asyncio.sleep(_EXTEND_S)
            old = [self._in_flight[key] for key in seen & self._in_flight.keys()]
            seen = set(self._in_flight)
            ids = [entry_id for request in old for entry_id in request.ids]
            if ids:
                try:
                    await self._perform(Extend(*self._names, ids, self._consumer))
                except Unavailable:
                    continue


def _counts_of(deliveries: Sequence[Delivery]) -> dict[EntryId, int]:
    return {delivery.id: delivery.delivery_count for delivery in deliveries}
