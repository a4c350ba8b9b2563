"""Wake workers when the streams of a subscription have something new (7).

It keeps nothing: a subscription says itself whether somebody works on it, and since when. So
several gateways over the same servers can each run one: the first that changes its state wakes.

For each subscription, again and again:

1. Load it, and look where its streams end.
2. If a lease is over, it is idle again.
3. If it is idle and something is pending, begin a generation, and send the webhook, or append to
   the stream of wakes. What has failed is tried again later.
4. Wait for an entry in one of its streams, for a change of it, or for the end of a lease.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import msgspec
from msgspec.structs import replace
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headgate.app.automation.records import patiently
from headgate.app.automation.targets import NameUnknown, TargetRefused
from headgate.app.automation.webhooks import Sender
from headgate.app.backends.port import Perform
from headgate.app.durable_streams.content import JSON_FIELD
from headgate.app.durable_streams.protocol import CONTROL, offset_of, path_of
from headgate.app.durable_streams.subscriptions.leases import TokenClaim, new_wake_id, signing_key
from headgate.app.durable_streams.subscriptions.store import (
    PREFIX,
    Stored,
    StreamLink,
    StreamTails,
    SubscriptionFault,
    SubscriptionState,
    WakePhase,
    change,
    glob_prefix,
    is_pull,
    load,
    status_of,
)
from headgate.app.runtime import periodic
from headgate.engine.clock import Clock
from headgate.engine.entry import Draft
from headgate.engine.errors import StreamError, StreamNotFound, StreamsChanged
from headgate.engine.requests.entries import Add, Read, ReadPattern, StreamCursor
from headgate.engine.requests.streams import DescribeStream, ListStreams

WAIT_MS = 30_000
"""Longest wait for news. Then a subscription is looked at all the same."""

POLL_MS = 1_000
"""So often it looks for new subscriptions, and for new streams where no pattern can be followed."""

_CURSORS_MAX = 250
"""Streams that are waited for one by one."""

_NEWS_S = 0.05
"""Time between news of a pattern and a look at its streams: much may come at once, and each look
is at all of them."""

_REST_SHARE = 4
"""After a look at all streams of a pattern, so many times as long passes until the next one, of
whichever subscription."""

_REST_S_MAX = 1.0
"""A look may take long because others do: then the next ones do not wait for that."""

_AGAIN_MS_MAX = 600_000
"""Longest time before a worker that has not claimed a wake is told of it again."""

SEND_S_MAX = 30.0
_BACKOFF_MS, _BACKOFF_MS_MAX, _JITTER_PERCENTAGE = 1_000, 60_000, 20
_PAGE = 1_000


class SubscriptionRunner:
    def __init__(
        self, perform: Perform, sender: Sender, clock: Clock, *, has_patterns: bool
    ) -> None:
        """Take the parts; without `has_patterns`, streams are searched instead of followed."""
        self._perform, self._sender, self._clock = perform, sender, clock
        self._has_patterns = has_patterns
        # By the stream and its epoch: a task ends where a stream is no subscription, and stays so.
        self._following: dict[tuple[bytes, int], asyncio.Task[None]] = {}
        self._wakes: Counter[str] = Counter()  # by outcome
        self._looking, self._rested_s = asyncio.Lock(), 0.0  # when the next look may begin

    async def run(self) -> None:
        try:
            await periodic.repeat("subscriptions", partial(patiently, self._follow_all))
        finally:
            for task in self._following.values():
                task.cancel()

    def families(self) -> Iterator[Metric]:
        text = "Subscriptions of Durable Streams."
        following_count = sum(not task.done() for task in self._following.values())
        yield GaugeMetricFamily("headgate_subscriptions", text, following_count)
        text = "Wakes of workers, by outcome: `delivered`, or `failed` and retried later."
        wakes = CounterMetricFamily("headgate_subscription_wakes", text, labels=["outcome"])
        for outcome in _OUTCOMES:
            wakes.add_metric([outcome], self._wakes[outcome])
        yield wakes

    async def _follow_all(self) -> None:
        there, after = set[tuple[bytes, int]](), b""
        while True:
            page = await self._perform(ListStreams(PREFIX, after, _PAGE))
            there.update((info.name, info.epoch) for info in page)
            if len(page) < _PAGE:
                break
            after = page[-1].name
        for stream in there - self._following.keys():
            following = periodic.complete("subscription", partial(self._follow, stream[0]))
            self._following[stream] = asyncio.create_task(following)
        for stream in self._following.keys() - there:
            self._following.pop(stream).cancel()
        await asyncio.sleep(POLL_MS / 1000)

    async def _follow(self, name: bytes) -> None:
        with suppress(StreamNotFound, SubscriptionFault):  # or what is kept makes no sense
            while True:
                with suppress(StreamsChanged):  # another gateway, or a worker, was quicker
                    await patiently(partial(self._look, name))

    async def _look(self, name: bytes) -> None:
        own = StreamCursor(name, (await self._perform(DescribeStream(name))).last_id)
        stored = await self._load(name)
        state, now_ms = stored.state, self._clock.wall_ms()
        if state.has_lease(now_ms):
            await self._until([own], None, (state.lease_until_ms or 0) - now_ms)
            return
        if state.lease_until_ms is not None:
            await change(self._perform, stored, state.idle(), "expired")
            return
        if state.next_attempt_ms is not None and state.next_attempt_ms > now_ms:
            await self._until([own], None, state.next_attempt_ms - now_ms)
            return
        if state.phase is WakePhase.WAKING:  # nobody has claimed it: perhaps nobody was told
            await self._wake(stored, await self._status(stored))
            return
        pattern = state.definition.pattern
        mark = None if pattern is None else await self._mark(_names_of(pattern))
        status = await self._status(stored)
        if status.pending:
            await self._wake(stored, status)
            return
        cursors = [
            StreamCursor(each, status.tails[each])
            for each, link in status.links.items()
            if link.is_explicit or not self._has_patterns
        ]
        await self._until([own, *cursors[:_CURSORS_MAX]], mark, WAIT_MS)

    async def _status(self, stored: Stored) -> StreamTails:
        """Return the streams of a subscription; pattern searches get a share of the time."""
        if stored.state.definition.pattern is None:
            return await status_of(self._perform, stored)
        clock = asyncio.get_running_loop().time
        async with self._looking:
            await asyncio.sleep(max(self._rested_s - clock(), 0))
            began_s = clock()
            status = await status_of(self._perform, stored)
            rest_s = min(_REST_SHARE * (clock() - began_s), _REST_S_MAX)
            self._rested_s = clock() + rest_s
            return status

    async def _mark(self, pattern: bytes) -> ReadPattern:
        asked = ReadPattern(pattern, limit=1)
        if self._has_patterns:
            asked = replace(asked, after=(await self._perform(asked)).next_after)
        return asked

    async def _load(self, name: bytes) -> Stored:
        try:
            return await load(self._perform, name.removeprefix(PREFIX).decode())
        except SubscriptionFault:
            raise StreamNotFound(name) from None

    async def _until(
        self, cursors: list[StreamCursor], mark: ReadPattern | None, wait_ms: int
    ) -> None:
        if mark is not None and not self._has_patterns:
            mark, wait_ms = None, min(wait_ms, POLL_MS)  # there may be a stream that is new
        wait_ms = max(min(wait_ms, WAIT_MS), 1)
        reading = Read(cursors, limit=1, wait_ms=wait_ms, missing_ok=True)
        waits: list[asyncio.Future[object]] = [asyncio.ensure_future(self._perform(reading))]
        if mark is not None:
            coming = self._perform(replace(mark, wait_ms=wait_ms))
            waits.append(asyncio.ensure_future(coming))
        try:
            ended, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if waits[-1] in ended and mark is not None:
                await asyncio.sleep(_NEWS_S)
        finally:
            for wait in waits:
                wait.cancel()
            outcomes = await asyncio.gather(*waits, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, StreamError):
                raise outcome

    async def _wake(self, stored: Stored, status: StreamTails) -> None:
        state, now_ms = stored.state, self._clock.wall_ms()
        if not status.pending:  # its streams are gone
            idle = state.idle(next_attempt_ms=None)
            await change(self._perform, stored, idle, "void", status.news(stored))
            return
        waking = _woken(state, now_ms)
        await change(self._perform, stored, waking, "woken", status.news(stored))
        if is_pull(state):
            outcome = await self._announce(_wake_entry(stored.id, waking, status, now_ms))
        else:
            outcome = await self._deliver(stored.id, waking, status, now_ms)
        self._wakes["delivered" if outcome.failure is None else "failed"] += 1
        await self._settle(stored.name, waking, status, outcome)

    async def _announce(self, wake: Add) -> _Outcome:
        try:
            await self._perform(wake)
        except StreamError as error:
            return _Outcome(f"no wake: {error}")
        return _Outcome(None)

    async def _deliver(
        self, subscription: str, state: SubscriptionState, status: StreamTails, now_ms: int
    ) -> _Outcome:
        try:
            key = await signing_key(self._perform)
        except SubscriptionFault as fault:
            return _Outcome(f"not signed: {fault}")
        at_s, root = now_ms // 1000, state.root
        body = msgspec.json.encode(
            {
                "subscription_id": subscription,
                "wake_id": state.wake_id,
                "generation": state.generation,
                "streams": streams_wire(status),
                "callback_url": f"{root}{CONTROL}/subscriptions/{subscription}/callback",
                "callback_token": key.token(TokenClaim(subscription, state.generation), at_s),
            }
        )
        headers = {
            "Content-Type": "application/json",
            "Webhook-Signature": key.signature(body, at_s),
        }
        within_s = min(SEND_S_MAX, state.definition.lease_ms / 1000)
        try:
            url = state.definition.webhook_url or ""
            answer = await self._sender.post(url, body, headers, within_s=within_s)
        except (TargetRefused, NameUnknown):  # which of them tells of names that are not public
            return _Outcome("not delivered")
        except Exception as error:  # noqa: BLE001 whatever a URL leads to, it is tried again
            return _Outcome(f"not delivered: {error}")
        if not 200 <= answer.status < 300:
            return _Outcome(f"answered {answer.status}")
        return _Outcome(None, is_done=_is_done(answer.body))

    async def _settle(
        self, name: bytes, waking: SubscriptionState, status: StreamTails, outcome: _Outcome
    ) -> None:
        """Record the outcome of a webhook, if its wake is still the current one."""
        while True:
            stored = await self._load(name)
            state = stored.state
            if state.wake_id != waking.wake_id or state.phase is not WakePhase.WAKING:
                return
            with suppress(StreamsChanged):
                if outcome.failure is not None:
                    await change(self._perform, stored, self._failed(state), outcome.failure)
                elif outcome.is_done:
                    done = state.idle(failures=0)
                    await change(self._perform, stored, done, "done", _worked_off(stored, status))
                elif state.failures:
                    working = replace(state, failures=0)
                    await change(self._perform, stored, working, "delivered")
                return

    def _failed(self, state: SubscriptionState) -> SubscriptionState:
        pause_ms = min(_BACKOFF_MS * 2 ** min(state.failures, 10), _BACKOFF_MS_MAX)
        jitter_ms = pause_ms * _JITTER_PERCENTAGE // 100
        pause_ms += secrets.randbelow(2 * jitter_ms + 1) - jitter_ms
        return state.idle(
            failures=state.failures + 1, next_attempt_ms=self._clock.wall_ms() + pause_ms
        )


_OUTCOMES = "delivered", "failed"


class _Outcome(NamedTuple):
    failure: str | None
    is_done: bool = False


def _is_done(body: bytes) -> bool:
    try:
        answer = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False
    return isinstance(answer, dict) and answer.get("done") is True


def _names_of(pattern: str) -> bytes:
    """Return a Redis glob for the names of a pattern's streams; it matches others, too."""
    special = re.sub(rb"([\\*?\[\]])", rb"\\\1", glob_prefix(pattern))
    return special + b"*"


def _woken(state: SubscriptionState, now_ms: int) -> SubscriptionState:
    """Return the state of a wake that is announced now.

    A worker is told again after the time of a lease, and then each time after twice as long.
    """
    if not is_pull(state):
        until_ms: int | None = now_ms + state.definition.lease_ms
        again_ms = woken_at_ms = None
    else:
        until_ms, woken_at_ms = None, state.woken_at_ms or now_ms
        pause_ms = min(max(state.definition.lease_ms, now_ms - woken_at_ms), _AGAIN_MS_MAX)
        again_ms = now_ms + pause_ms
    is_new = state.phase is WakePhase.IDLE
    return replace(
        state,
        phase=WakePhase.WAKING,
        generation=state.generation + is_new,
        wake_id=new_wake_id() if is_new else state.wake_id,
        lease_until_ms=until_ms,
        next_attempt_ms=again_ms,
        woken_at_ms=woken_at_ms,
    )


def _worked_off(stored: Stored, status: StreamTails) -> dict[bytes, StreamLink]:
    return {
        name: link._replace(acked=status.tails[name])
        for name, link in stored.links.items()
        if name in status.links and status.tails[name] > link.acked
    }


def _wake_entry(
    subscription: str, state: SubscriptionState, status: StreamTails, now_ms: int
) -> Add:
    name = (state.definition.wake_stream or "").encode()
    message = {
        "type": "wake",
        "subscription_id": subscription,
        "stream": path_of(status.pending[0]),
        "generation": state.generation,
        "ts": now_ms,
    }
    return Add(name, [Draft(None, (JSON_FIELD, msgspec.json.encode(message)))], create_stream=False)


def streams_wire(status: StreamTails) -> list[dict[str, object]]:
    pending = set(status.pending)
    return [
        {
            "path": path_of(name),
            "link_type": "explicit" if link.is_explicit else "glob",
            "acked_offset": offset_of(link.acked),
            "tail_offset": offset_of(status.tails[name]),
            "has_pending": name in pending,
        }
        for name, link in sorted(status.links.items())
    ]
