"""Replays: a push sends the entries of a range again, beside what its group delivers.

1. A replay is an attribute of the push's stream: what it sends, and how far it is.
2. Whoever delivers the push reads the range in portions. It sends each entry until the receiver
   acknowledges it, or its tries are over.
3. Behind each portion the progress is written, and another gateway would continue there. It sends
   the portion in which a gateway dies again.

The group does not move: nothing of it is acknowledged or given back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from headgate.app.automation import pushes
from headgate.app.automation.bodies import BODY_BYTES_MAX, PushRequest, requests_of
from headgate.app.automation.pusher import FailedAttempt, Parts
from headgate.app.automation.pushes import PushRecord
from headgate.app.automation.records import PAUSE_S, attributes_of, patiently
from headgate.app.backends.port import Perform
from headgate.app.wire.pushes import PushReplay, ReplayState
from headgate.engine.entry import Entry, EntryId
from headgate.engine.errors import Invalid, NotFound, StreamNotFound, StreamsChanged
from headgate.engine.replies import Delivery
from headgate.engine.requests.entries import CountByTime, FindTimes, Range, RangeMatching
from headgate.engine.requests.groups import DescribeGroup
from headgate.engine.requests.streams import AttributeChange, ChangeAttributes

_ATTRIBUTE = b"replay"
_TRIES_MAX = 5
"""Attempts of an entry, also where the policy of the group allows more."""

_PORTION = 100
_PORTION_MAX = 1_000
_COUNTS_MAX = 100
"""Reads of a count with a filter, each of some 2,000 entries."""

_COUNTED_AT_ONCE = 1_000

_COUNTED_MAX = 200_000
"""Servers do not count more."""


class ReplayRange(NamedTuple):
    start: EntryId
    end: EntryId  # inclusive
    filters: str | None  # as JSON; None: all entries


class ReplayRecord(msgspec.Struct, frozen=True):
    id: str
    range: ReplayRange
    at: EntryId  # what is before it has been sent
    created_at_ms: int
    entries: int  # when they were counted
    at_least: bool  # there are more than were counted
    state: ReplayState = ReplayState.RUNNING
    sent: int = 0  # entries that were acknowledged
    failed: int = 0  # entries that were not
    ended_at_ms: int | None = None

    @property
    def is_running(self) -> bool:
        return self.state is ReplayState.RUNNING

    @property
    def wire(self) -> PushReplay:
        return {
            "id": self.id,
            "state": self.state,
            "start": str(self.range.start),
            "end": str(self.range.end),
            "entries": self.entries,
            "at_least": self.at_least,
            "sent": self.sent,
            "failed": self.failed,
            "created_at_ms": self.created_at_ms,
            "ended_at_ms": self.ended_at_ms,
        }


class StoredReplay(NamedTuple):
    replay: ReplayRecord
    raw: bytes


async def load(perform: Perform, name: bytes) -> StoredReplay | None:
    """Return the latest replay of the push that a stream keeps."""
    raw = (await attributes_of(perform, name, [_ATTRIBUTE])).get(_ATTRIBUTE)
    return None if raw is None else StoredReplay(msgspec.json.decode(raw, type=ReplayRecord), raw)


async def write(
    perform: Perform, name: bytes, replay: ReplayRecord, before: StoredReplay | None
) -> StoredReplay:
    """Write a replay. Raises StreamsChanged if it changed since `before`, or StreamNotFound."""
    raw = msgspec.json.encode(replay)
    expected = {_ATTRIBUTE: None if before is None else before.raw}
    await perform(ChangeAttributes(name, AttributeChange({_ATTRIBUTE: raw}, expected)))
    return StoredReplay(replay, raw)


async def count(perform: Perform, stream: bytes, wanted: ReplayRange) -> tuple[int, bool]:
    """Return the number of entries of a range, and whether there may be more."""
    start, end, filters = wanted
    if start > end:
        return 0, False
    if filters is None:
        try:
            return sum((await perform(CountByTime(stream, start, end, 1))).counts), False
        except Invalid:  # servers count them one by one, and not so many
            return _COUNTED_MAX, True
    total = 0
    for _ in range(_COUNTS_MAX):
        page = await perform(RangeMatching(stream, filters, start, end, _COUNTED_AT_ONCE))
        total += len(page.entries)
        if page.last_id >= end:
            return total, False
        start = page.last_id.next()
    return total, True


SendAgain = Callable[[PushRequest, str], Awaitable[FailedAttempt | None]]
"""Sends a request of a replay, and returns None if it was acknowledged."""


class Replaying:
    """Sends what the replay of a push wants, while the push is delivered."""

    def __init__(self, parts: Parts, push: PushRecord, send_again: SendAgain) -> None:
        self._parts, self._perform, self._push = parts, parts.perform, push
        self._send_again = send_again
        self._entries_max = push.definition.entries_max
        self._news = asyncio.Event()

    def look(self) -> None:
        """Look whether a replay began, or was cancelled."""
        self._news.set()

    async def run(self) -> None:
        while True:
            await patiently(self._round)

    async def _round(self) -> None:
        """Send a portion of the replay that runs, or wait until one does."""
        self._news.clear()
        stored = await load(self._perform, self._push.name)
        if stored is None or not stored.replay.is_running:
            await self._news.wait()
            return
        sending = asyncio.create_task(self._portion(stored))
        try:
            while not sending.done() and await self._is_running(stored.replay.id):
                news = asyncio.create_task(self._news.wait())
                await asyncio.wait([sending, news], return_when=asyncio.FIRST_COMPLETED)
                news.cancel()
                self._news.clear()
        finally:
            is_whole = sending.done()
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        if is_whole:
            try:
                sending.result()
            except StreamsChanged:  # it was cancelled
                pass
            except NotFound:  # the push ends
                await asyncio.sleep(PAUSE_S)

    async def _is_running(self, replay_id: str) -> bool:
        stored = await load(self._perform, self._push.name)
        return stored is not None and stored.replay.is_running and stored.replay.id == replay_id

    async def _portion(self, stored: StoredReplay) -> None:
        replay, clock = stored.replay, self._parts.clock
        policy = (await self._perform(DescribeGroup(self._push.stream, self._push.group))).policy
        began_ms = clock.monotonic_ms()
        entries, through = await self._read(replay)
        concurrency = 1 if policy.key_field else max(self._push.definition.concurrency // 2, 1)
        failed = await self._send_all(replay.id, entries, asyncio.Semaphore(concurrency))
        if policy.rate_per_s is not None:
            took_ms = clock.monotonic_ms() - began_ms
            await asyncio.sleep(len(entries) / policy.rate_per_s - took_ms / 1000)
        new = replace(
            replay,
            at=through.next(),
            sent=replay.sent + len(entries) - failed,
            failed=replay.failed + failed,
        )
        if through >= replay.range.end:
            new = replace(new, state=ReplayState.DONE, ended_at_ms=clock.wall_ms())
        await write(self._perform, self._push.name, new, stored)

    async def _read(self, replay: ReplayRecord) -> tuple[list[Entry], EntryId]:
        """Return the next entries, and up to which id was read."""
        stream, (_, end, filters) = self._push.stream, replay.range
        at_once = self._entries_max * self._push.definition.concurrency
        limit = min(max(at_once, _PORTION), _PORTION_MAX)
        if replay.at > end:
            return [], end
        if filters is None:
            entries = await self._perform(Range(stream, replay.at, end, limit, BODY_BYTES_MAX))
            through = entries[-1].id if entries else end
        else:
            entries, through = await self._perform(
                RangeMatching(stream, filters, replay.at, end, limit, BODY_BYTES_MAX)
            )
        return await self._due(entries), through

    async def _due(self, entries: list[Entry]) -> list[Entry]:
        """Leave out entries before their delivery time, and after their deadline."""
        if not entries:
            return []
        finding = FindTimes(self._push.stream, [entry.id for entry in entries])
        times, now_ms = await self._perform(finding), self._parts.clock.wall_ms()
        out = {
            entry_id
            for entry_id, each in times.items()
            if each.is_early(now_ms) or each.is_over(now_ms)
        }
        return [entry for entry in entries if entry.id not in out]

    async def _send_all(
        self, replay_id: str, entries: list[Entry], places: asyncio.Semaphore
    ) -> int:
        """Send entries, several at a time; return how many were never acknowledged."""

        async def send(request: PushRequest) -> int:
            async with places:
                return await self._send(request, replay_id)

        deliveries = [Delivery(entry.id, entry.fields, 0, 0, None) for entry in entries]
        requests = requests_of(self._push.stream, deliveries, self._entries_max)
        async with asyncio.TaskGroup() as tasks:
            sending = [tasks.create_task(send(request)) for request in requests]
        return sum(task.result() for task in sending)

    async def _send(self, request: PushRequest, replay_id: str) -> int:
        attempt = await self._send_again(request, replay_id)
        if attempt is None:
            return 0
        tries = request.deliveries[0].delivery_count
        if attempt.is_last or tries >= _TRIES_MAX:
            return len(request.deliveries)
        await asyncio.sleep(attempt.failure.delay_ms / 1000)
        error = attempt.failure.error.encode()
        again = [
            each._replace(delivered_before=tries, last_error=error) for each in request.deliveries
        ]
        failed = 0
        for each in requests_of(request.stream, again, self._entries_max):
            failed += await self._send(each, replay_id)
        return failed


async def cancel(perform: Perform, name: bytes, now_ms: int) -> ReplayRecord | None:
    """Cancel the replay that runs, and return it; None: there is none."""
    while True:
        stored = await load(perform, name)
        if stored is None or not stored.replay.is_running:
            return None
        new = replace(stored.replay, state=ReplayState.CANCELLED, ended_at_ms=now_ms)
        try:
            await write(perform, name, new, stored)
        except StreamsChanged:  # it has progressed
            continue
        except StreamNotFound:
            return None
        await pushes.announce(perform, name)
        return new
