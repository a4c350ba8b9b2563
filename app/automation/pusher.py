"""Reads a group, or one over a pattern, as one of its consumers, and sends the entries.

1. Wait until the window and the receiver allow a request.
2. Read: without waiting, for as many slots as are free, if there may be more; or else wait for one
   request's entries without a slot, and take one then. So waiting for entries holds no slot.
3. Send each request in a task of its own, and settle its outcome in the stream of its entries.
   What was read for more requests than the window allows waits, or is given back if the receiver is
   to be left alone.

An entry counts as in flight until it is settled.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from msgspec.structs import replace

from headgate.app.automation.bodies import BODY_BYTES_MAX, Bodies, Content, PushRequest, requests_of
from headgate.app.automation.health import PushLog, Window, backoff_ms
from headgate.app.automation.pushes import PushAnswer, PushRecord, digest_of
from headgate.app.automation.records import PAUSE_S
from headgate.app.automation.signing import PushSecrets, Signer
from headgate.app.automation.targets import NameUnknown, TargetRefused
from headgate.app.automation.webhooks import Sender, TargetAnswer
from headgate.app.backends.port import Holding, Leases, Perform
from headgate.app.backends.releasing import give_back, ignoring_what_is_gone, temporary_name
from headgate.app.runtime.threads import WEBHOOKS
from headgate.app.wire.names import text_of
from headgate.engine.clock import Clock
from headgate.engine.config import NO_POLICY
from headgate.engine.entry import EntryId
from headgate.engine.errors import (
    LimitReached,
    NotFound,
    StreamError,
    TooManyWaiters,
    Unavailable,
    WrongType,
)
from headgate.engine.replies import GroupRead
from headgate.engine.requests.deliveries import (
    Ack,
    Extend,
    GiveBack,
    GroupCursor,
    Nack,
    NackMode,
    ReadGroup,
    ReadGroups,
)
from headgate.engine.requests.groups import DescribeGroup
from headgate.engine.requests.streams import DescribeStream

CountsOfStreams = Mapping[bytes, Mapping[EntryId, int]]
"""Delivery counts of entries, by stream."""


def held_in(requests: Iterable[PushRequest]) -> CountsOfStreams:
    held = dict[bytes, dict[EntryId, int]]()
    for request in requests:
        counts = {delivery.id: delivery.delivery_count for delivery in request.deliveries}
        held.setdefault(request.stream, {}).update(counts)
    return held


_SETTLED_AT_ONCE = 1_000


class PushFailure(NamedTuple):
    error: str
    delay_ms: int  # before the next delivery
    mode: NackMode = NackMode.FAIL


class FailedAttempt(NamedTuple):
    """An attempt that was not acknowledged."""

    failure: PushFailure
    is_last: bool  # by the policy of the group


class Settlement(NamedTuple):
    """The outcome of a request; without a failure it is acknowledged."""

    request: PushRequest
    failure: PushFailure | None


class Settling:
    """Settles entries of one consumer: of each stream, in the order in which requests ended."""

    def __init__(
        self,
        perform: Perform,
        group: bytes,
        consumer: bytes,
        on_settled: Callable[[PushRequest], None],
    ) -> None:
        self._perform, self._on_settled = perform, on_settled
        self._group, self._consumer = group, consumer
        self._settlements: dict[bytes, deque[Settlement]] = {}  # by stream
        self._news = asyncio.Event()

    def add(self, settlement: Settlement) -> None:
        self._settlements.setdefault(settlement.request.stream, deque()).append(settlement)
        self._news.set()

    async def run(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._settlements:  # in no more streams than there are requests at a time
                await asyncio.gather(*map(self._settle, list(self._settlements)))

    async def _settle(self, stream: bytes) -> None:
        """Settle the first settlements of a stream that go together, with retries."""
        settlements = self._settlements[stream]
        failure, settled = settlements[0].failure, list[PushRequest]()
        ids = list[EntryId]()
        for settlement in settlements:
            if settlement.failure != failure or len(ids) >= _SETTLED_AT_ONCE:
                break
            settled.append(settlement.request)
            ids += settlement.request.ids
        try:
            with suppress(NotFound, WrongType):  # with the group all that was pending is gone
                await self._write(stream, ids, failure)
        except Unavailable:  # nothing can be changed now
            await asyncio.sleep(PAUSE_S)
            return
        for request in settled:
            settlements.popleft()
            self._on_settled(request)
        if not settlements:
            del self._settlements[stream]

    async def _write(
        self, stream: bytes, ids: Sequence[EntryId], failure: PushFailure | None
    ) -> None:
        place = stream, self._group, ids
        if failure is None:
            await self._perform(Ack(*place, self._consumer))
            return
        await self._perform(
            Nack(*place, failure.mode, failure.delay_ms, failure.error.encode(), self._consumer)
        )


_EXCERPT_MAX = 200
_RETRY_STATUSES = (429, 503)
_HIDDEN, _SHOWN_MAX = "…", 40

NO_MARKS: Mapping[str, str] = {}


class Posting:
    """Sends the requests of one push. Raises nothing, whatever the URL leads to."""

    def __init__(
        self, sender: Sender, clock: Clock, push: PushRecord, held: PushSecrets, signer: Signer
    ) -> None:
        self._sender, self._clock, self._held, self._signer = sender, clock, held, signer
        self._timeout_ms = push.definition.timeout_ms
        self._hidden = {*held.headers, "webhook-signature"}
        parts = urlsplit(held.url)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._content_of = Bodies(push.definition.body, push.group).content_of

    async def post(
        self, request: PushRequest, webhook_id: str, marks: Mapping[str, str] = NO_MARKS
    ) -> PushAnswer:
        """Send a request; `marks` are headers that say what kind of request it is."""
        began_ms = self._clock.monotonic_ms()
        shown = dict[str, str]()  # headers, as anybody may see them
        answer, error = await self._send(request, webhook_id, marks, shown)
        excerpt = retry_after_s = None
        if answer is not None:
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
            text_of(request.stream),
            list(map(str, request.ids)),
            self._origin,
            shown,
        )

    async def _send(
        self, request: PushRequest, webhook_id: str, marks: Mapping[str, str], shown: dict[str, str]
    ) -> tuple[TargetAnswer | None, str | None]:
        try:
            make = partial(self._signed, request, webhook_id, marks)
            content = await WEBHOOKS.call_if_awaited(make) if request.is_large else make()
            shown.update(self._shown(content.headers))
            answer = await self._sender.send(
                self._held.url, content.body, content.headers, within_s=self._timeout_ms / 1000
            )
        except TargetRefused as refused:
            return None, f"not sent: {refused}"
        except NameUnknown:
            return None, "not sent: the host name has no address"
        except TimeoutError:
            return None, f"no answer within {self._timeout_ms} ms"
        except OSError as failed:
            return None, f"not sent: {failed}"
        except Exception as failed:  # noqa: BLE001 whatever a URL leads to, it is tried again
            return None, f"not sent: {type(failed).__name__}"
        return answer, None if 200 <= answer.status < 300 else f"answered {answer.status}"

    def _signed(self, request: PushRequest, webhook_id: str, marks: Mapping[str, str]) -> Content:
        content = self._content_of(request)
        signature = self._signer.headers(webhook_id, self._clock.wall_ms(), content.body)
        headers = {**self._held.headers, **content.headers, **signature, **marks}
        return Content(content.body, headers)

    def _shown(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return headers without what is secret, and not endlessly."""
        return {
            name: _HIDDEN if name in self._hidden else value[:_EXCERPT_MAX]
            for name, value in islice(headers.items(), _SHOWN_MAX)
        }


_WAIT_MS = 30_000
_REPLAY = "headgate-replay"

_EXTEND_S = 5.0
"""Entries that are held for so long are kept from takeovers, again and again."""

_READ_MAX = 1_000
"""Entries that are read at once: more would hold the event loop for long."""

_STREAMS_MAX = 1_000
"""Streams in which the consumer is known: it leaves some if there are more."""

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
        self._push, self._entries_max = push, push.definition.entries_max
        self._log = log
        self._consumer = temporary_name(secrets.randbits(64))
        self._posting = Posting(parts.sender, parts.clock, push, held, signer)
        self._window = Window(push.definition.concurrency, push.failures)
        self._settling = Settling(self._perform, push.group, self._consumer, self._settled)
        self._id_prefixes: dict[bytes, str] = {}  # of webhook ids, by the stream; the latest last
        self._unsent = deque[PushRequest]()
        self._in_flight: dict[int, PushRequest] = {}  # by the identity of the request
        self._posts = set[asyncio.Task[None]]()
        self._progress, self._entered = asyncio.Event(), asyncio.Event()
        self._replayed = 0  # requests of replays in flight
        self._gone = asyncio.get_running_loop().create_future()

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver until told to stop, then let requests in flight end. May raise Gone."""
        tasks = list[asyncio.Task[Any]]()
        try:
            if self._push.groups is None:
                await self._enter(self._push.stream)
                self._entered.set()
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
            held = held_in([*self._in_flight.values(), *self._unsent])
            await self._leave(self._id_prefixes.keys() | held.keys(), held)

    def retry(self) -> None:
        self._window.end_delay()
        self._progress.set()

    async def _drain(self) -> None:
        while self._in_flight:
            self._progress.clear()
            await self._progress.wait()

    # Streams: the consumer is known in those that it has entries of

    async def _enter(self, stream: bytes) -> None:
        """Register the consumer, and note how the webhook ids of the stream's entries begin."""
        is_new = stream not in self._id_prefixes
        self._id_prefixes[stream] = self._id_prefixes.pop(stream, "")
        if is_new:
            await self._parts.leases.register(self._holding(stream))
        info = await self._perform(DescribeStream(stream))
        digest = digest_of(stream, self._push.group, str(info.epoch).encode())
        self._id_prefixes[stream] = f"msg_{digest[:20]}_"

    async def _leave(self, streams: Iterable[bytes], held: CountsOfStreams) -> None:
        """Give back what is held of some streams, and remove the consumer there."""
        await asyncio.gather(*(self._leave_one(stream, held.get(stream, {})) for stream in streams))

    async def _leave_one(self, stream: bytes, counts: Mapping[EntryId, int]) -> None:
        holding = self._holding(stream)
        try:
            async with asyncio.timeout(_RELEASE_S):
                await give_back(self._perform, holding, counts)
                await self._parts.leases.unregister(holding)
        except (Unavailable, TimeoutError):
            self._parts.leases.release_later(holding, counts)
        except asyncio.CancelledError:
            self._parts.leases.release_later(holding, counts)
            raise

    def _holding(self, stream: bytes) -> Holding:
        return Holding(stream, self._push.group, self._consumer, is_temporary=True)

    async def _leave_some(self) -> None:
        """Leave half of the streams of which nothing is held, beginning with the oldest."""
        held = held_in([*self._in_flight.values(), *self._unsent])
        unused = [stream for stream in self._id_prefixes if stream not in held]
        left = unused[: -(-len(unused) // 2)]
        await self._leave(left, {})
        for stream in left:
            del self._id_prefixes[stream]

    # Reading

    async def _read(self) -> None:
        has_more = False
        while True:
            try:
                await self._give_back_unsent()
                await self._until_free()
                has_more = await (self._read_more() if has_more else self._read_first())
            except (Unavailable, LimitReached, TooManyWaiters):  # nothing can be read now
                await asyncio.sleep(PAUSE_S)
            if len(self._id_prefixes) > _STREAMS_MAX:
                await self._leave_some()

    async def _give_back_unsent(self) -> None:
        """Give back what the receiver does not want now, or what could not be noted."""
        for stream, counts in held_in(self._unsent).items():
            with ignoring_what_is_gone():
                await self._perform(GiveBack(stream, self._push.group, self._consumer, counts))
        self._unsent.clear()

    async def _until_free(self) -> None:
        while not await self._may_send():
            delay_ms = self._window.delay_ms(self._parts.clock.monotonic_ms())
            try:
                async with asyncio.timeout(delay_ms / 1000):
                    await self._progress.wait()
            except TimeoutError:
                pass

    async def _may_send(self) -> bool:
        """Wait until the window has room; return False if the receiver is to be left alone."""
        while True:
            self._progress.clear()
            now_ms = self._parts.clock.monotonic_ms()
            if self._window.free(self._busy, now_ms):
                return True
            if self._window.delay_ms(now_ms):
                return False
            await self._progress.wait()

    async def _read_first(self) -> bool:
        """Wait for entries, and send those of one request; return whether there may be more."""
        has_more = await self._read_and_send(self._entries_max, _WAIT_MS)
        if not has_more:  # at the end of a stream that is closed, a read does not wait
            await asyncio.sleep(PAUSE_S)
        return has_more

    async def _read_more(self) -> bool:
        places, now_ms = self._parts.sender.places, self._parts.clock.monotonic_ms()
        await places.wait(self._place)
        free, taken = self._window.free(self._busy, now_ms), 1
        while taken < free and places.take(self._place):
            taken += 1
        return await self._read_and_send(min(taken * self._entries_max, _READ_MAX), 0, taken)

    async def _read_and_send(self, limit: int, wait_ms: int, taken: int = 0) -> bool:
        """Read entries, and send them as far as the window allows; return whether there are any.

        Entries of many streams are many requests. `taken` slots are there for the first ones.
        """
        places = self._parts.sender.places
        try:
            await self._deliver(limit, wait_ms)
            has_some = bool(self._unsent)
            while self._unsent:
                if not taken:
                    if not await self._may_send():
                        break
                    await places.wait(self._place)
                    taken = 1
                taken -= 1  # it is the place of the request now
                await self._take_large(self._unsent[0])
                self._send(self._unsent.popleft())
        finally:
            for _ in range(taken):
                places.give(self._place)
        return has_some

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

    @property
    def _busy(self) -> int:
        return len(self._in_flight) + self._replayed

    @property
    def _place(self) -> bytes:
        """Return the name under which this push holds slots."""
        return self._consumer

    async def _deliver(self, limit: int, wait_ms: int) -> None:
        """Read entries. They are noted at once, so that they are given back whatever happens."""
        for read in await self._reads(limit, wait_ms):
            self._unsent += requests_of(read.stream, read.deliveries, self._entries_max)
        for stream in () if self._push.groups is None else held_in(self._unsent):
            try:  # each time, as the stream may be another one of this name
                await self._enter(stream)
            except (NotFound, WrongType):  # with the stream all that was pending is gone
                self._unsent = deque(each for each in self._unsent if each.stream != stream)

    async def _reads(self, limit: int, wait_ms: int) -> list[GroupRead]:
        push, groups = self._push, self._push.groups
        if groups is None:
            return await self._perform(
                ReadGroup(
                    push.group,
                    self._consumer,
                    [GroupCursor(push.stream)],
                    limit,
                    size_bytes_max=BODY_BYTES_MAX,
                    claim_own=False,
                    claim_released=True,
                    wait_ms=wait_ms,
                )
            )
        request = ReadGroups(
            push.stream,
            push.group,
            self._consumer,
            limit,
            size_bytes_max=BODY_BYTES_MAX,
            claim_own=False,
            weights=groups.weights,
            create=groups.create,
            wait_ms=wait_ms,
            only=groups.only,
            is_temporary=True,
        )
        return (await self._perform(request)).reads

    def _send(self, request: PushRequest) -> None:
        self._in_flight[id(request)] = request
        post = asyncio.create_task(self._post(request))
        self._posts.add(post)
        post.add_done_callback(partial(self._end_post, request))

    async def _post(self, request: PushRequest) -> None:
        outcome = await self._attempt(request, NO_MARKS)
        self._settling.add(Settlement(request, None if outcome is None else outcome.failure))

    def _end_post(self, request: PushRequest, post: asyncio.Task[None]) -> None:
        """Release the slots, even of a task that was cancelled before it began."""
        self._posts.discard(post)
        self._give(request)

    def _settled(self, request: PushRequest) -> None:
        del self._in_flight[id(request)]
        self._progress.set()

    async def send_again(self, request: PushRequest, replay_id: str) -> FailedAttempt | None:
        """Send entries that were not read by the group. It knows nothing of the outcome."""
        places = self._parts.sender.places
        await self._entered.wait()
        while True:
            await self._until_free()
            await places.wait(self._place)
            if self._window.free(self._busy, self._parts.clock.monotonic_ms()):
                break
            places.give(self._place)
        self._replayed += 1
        try:
            await self._take_large(request)
            try:
                outcome = await self._attempt(request, {_REPLAY: replay_id})
            finally:
                self._give(request)
        finally:
            self._replayed -= 1
            self._progress.set()
        if self._gone.done():  # the push ends: these entries are sent when it is resumed
            await asyncio.get_running_loop().create_future()
        return outcome

    async def _attempt(
        self, request: PushRequest, marks: Mapping[str, str]
    ) -> FailedAttempt | None:
        webhook_id = self._id_prefixes[request.stream] + request.key
        answer = await self._posting.post(request, webhook_id, marks)
        if answer.error is None:
            self._window.succeed()
            self._log.succeed(answer)
            return None
        next_at_ms: int | None = None
        try:
            failed = await self._fail(request, answer, answer.error)
            if not failed.is_last:
                next_at_ms = answer.at_ms + failed.failure.delay_ms
        finally:
            self._log.fail(replace(answer, next_at_ms=next_at_ms))
        return failed

    async def _fail(self, request: PushRequest, answer: PushAnswer, error: str) -> FailedAttempt:
        """Return how to settle a request that was not acknowledged."""
        if answer.status == _GONE:
            if not self._gone.done():
                self._gone.set_exception(Gone())
            return FailedAttempt(PushFailure(error, 0, NackMode.SILENT), is_last=True)
        try:
            group = await self._perform(DescribeGroup(request.stream, self._push.group))
            policy = group.policy
        except StreamError:  # whoever reads says so
            policy = NO_POLICY
        now_ms = self._parts.clock.monotonic_ms()
        self._window.fail(now_ms, policy.delay_ms if policy.backoff_ms else backoff_ms)
        self._progress.set()
        counts = [delivery.delivery_count for delivery in request.deliveries]
        delivery_count, is_last = max(counts), policy.is_spent(min(counts))
        delay_ms = (policy.delay_ms if policy.backoff_ms else backoff_ms)(delivery_count)
        if answer.retry_after_s is not None:
            self._window.delay_until(now_ms + answer.retry_after_s * 1000)
            delay_ms = max(delay_ms, answer.retry_after_s * 1000)
        return FailedAttempt(PushFailure(error, delay_ms), is_last=is_last)

    async def _extend(self) -> None:
        """Restart the idle clock of what is held for long, so that no other consumer claims it."""
        seen = set[int]()
        while True:
            await asyncio.sleep(_EXTEND_S)
            held = self._in_flight | {id(request): request for request in self._unsent}
            old = [held[key] for key in seen & held.keys()]
            seen = set(held)
            for stream, counts in held_in(old).items():
                with suppress(NotFound, WrongType, Unavailable):
                    extend = Extend(stream, self._push.group, [*counts], self._consumer)
                    await self._perform(extend)
