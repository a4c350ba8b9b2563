"""Runs all pushes.

For each push, again and again:

1. Load it. If it is to send nothing, wait for a change.
2. Where several gateways use the same streams, take its lease, or wait until it may have expired.
3. Deliver, until the push changes, or its group or its receiver is gone. A push over a pattern
   does not end with any group.

Changes are announced in a stream; in addition all pushes are checked every half minute.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from functools import partial
from secrets import token_hex
from typing import Any

import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headgate.app.automation import pushes
from headgate.app.automation.health import PushLog, PushTally
from headgate.app.automation.pusher import Gone, Parts, Pusher
from headgate.app.automation.pushes import CHANGES, PushRecord, StoredPush
from headgate.app.automation.records import PAUSE_S, attributes_of, patiently
from headgate.app.automation.replays import Replaying
from headgate.app.automation.signing import PushSecrets, Sealing, Signer, opened_push
from headgate.app.backends.port import Perform
from headgate.app.runtime import periodic
from headgate.app.wire.pushes import PushPhase
from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.errors import GroupNotFound, StreamNotFound, StreamsChanged, Unavailable
from headgate.engine.requests.entries import Read, StreamCursor
from headgate.engine.requests.groups import DescribeGroup
from headgate.engine.requests.keyspace import TellTime
from headgate.engine.requests.streams import AttributeChange, ChangeAttributes, DescribeStream

# Leases: of several gateways, one at a time delivers the entries of a push.
#
# The lease is an attribute of the push's stream: who has it, and until when by the clock of the
# servers. Whoever finds it over takes it. Entries that are pending with a gateway that has died
# are released by the leases of the backend, as those of any connection.

LEASE_MS = 15_000
_RENEWALS = 3
_END_S = 1.0
_ATTRIBUTE = b"lease"


class _Lease(msgspec.Struct, array_like=True, frozen=True):
    holder: str
    until_ms: int


class PushLease:
    def __init__(self, perform: Perform, name: bytes) -> None:
        self._perform, self._name = perform, name
        self._holder = token_hex(8)
        self._raw: bytes | None = None
        self.wait_s = LEASE_MS / 1000

    async def take(self) -> bool:
        """Take the lease and return true; if another gateway has it, set `wait_s`."""
        there = await attributes_of(self._perform, self._name, [_ATTRIBUTE])
        raw, now_ms = there.get(_ATTRIBUTE), await self._perform(TellTime())
        if raw is not None:
            left_ms = msgspec.json.decode(raw, type=_Lease).until_ms - now_ms
            if left_ms > 0:
                self.wait_s = min(left_ms, LEASE_MS) / 1000
                return False
        return await self._write(raw, now_ms)

    async def keep_while(self, work: Coroutine[Any, Any, None]) -> None:
        """Renew the lease while the work runs; losing the lease ends the work."""
        working = asyncio.create_task(work)
        keeping = asyncio.create_task(self._keep())
        try:
            await asyncio.wait([working, keeping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            keeping.cancel()
            if not working.done():
                working.cancel()
            await asyncio.gather(working, keeping, return_exceptions=True)
        if not working.cancelled():
            working.result()

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        until_s = loop.time() + LEASE_MS / 1000
        while loop.time() < until_s:
            await asyncio.sleep(LEASE_MS / 1000 / _RENEWALS)
            begun_s = loop.time()
            try:
                if not await self._write(self._raw, await self._perform(TellTime())):
                    return
            except Unavailable:  # nobody else can take it now
                continue
            until_s = begun_s + LEASE_MS / 1000

    async def end(self) -> None:
        with suppress(Unavailable, StreamNotFound, StreamsChanged, TimeoutError):
            async with asyncio.timeout(_END_S):
                await self._perform(self._changed(self._raw, None))

    async def _write(self, before: bytes | None, now_ms: int) -> bool:
        raw = msgspec.json.encode(_Lease(self._holder, now_ms + LEASE_MS))
        try:
            await self._perform(self._changed(before, raw))
        except (StreamsChanged, StreamNotFound):
            return False
        self._raw = raw
        return True

    def _changed(self, before: bytes | None, after: bytes | None) -> ChangeAttributes:
        return ChangeAttributes(
            self._name, AttributeChange({_ATTRIBUTE: after}, {_ATTRIBUTE: before})
        )


log = logging.getLogger("headgate")

LOOK_MS = 30_000
"""So often all pushes are looked at, whatever was announced."""

_POLL_MS = 1_000
"""So often a gateway without any push looks whether there is one."""

_PAGE = 100


class PushRunner:
    def __init__(self, parts: Parts, sealing: Sealing, *, is_shared: bool) -> None:
        """`is_shared`: other gateways use the same streams, and push as well."""
        self._parts, self._sealing, self._is_shared = parts, sealing, is_shared
        self._following: dict[bytes, asyncio.Task[None]] = {}
        self._changes: dict[bytes, asyncio.Event] = {}
        self._phases: dict[bytes, PushPhase] = {}
        self._tally = PushTally()
        self._seen: EntryId | None = None

    async def run(self) -> None:
        try:
            await periodic.repeat("pushes", partial(patiently, self._follow_all))
        finally:
            for task in self._following.values():
                task.cancel()
            await asyncio.gather(*self._following.values(), return_exceptions=True)
            await self._parts.sender.close()  # the last of those that use it

    def families(self) -> Iterator[Metric]:
        phases = Counter(self._phases.values())
        text = "Pushes by state. Over servers, those that this gateway runs."
        pushes = GaugeMetricFamily("headgate_pushes", text, labels=["state"])
        for phase in PushPhase:
            pushes.add_metric([phase], phases[phase])
        yield pushes
        text = "Requests of pushes by outcome: `acknowledged` or `failed`."
        requests = CounterMetricFamily("headgate_push_requests", text, labels=["outcome"])
        requests.add_metric(["acknowledged"], self._tally.acknowledged)
        requests.add_metric(["failed"], self._tally.failed)
        yield requests
        text = "Entries that receivers of pushes have acknowledged."
        yield CounterMetricFamily("headgate_push_entries", text, self._tally.delivered)
        text = "Total duration of the requests of pushes."
        yield CounterMetricFamily("headgate_push_seconds", text, self._tally.took_ms / 1000)

    async def _follow_all(self) -> None:
        end = await self._end_of_changes()
        self._seen = end if self._seen is None else min(self._seen, end)
        names = await self._names()
        self._follow_only(names)
        until_s = asyncio.get_running_loop().time() + LOOK_MS / 1000
        while asyncio.get_running_loop().time() < until_s:
            for name in await self._next_changes():
                self._follow_one(name)
                self._changes[name].set()

    async def _end_of_changes(self) -> EntryId:
        try:
            return (await self._parts.perform(DescribeStream(CHANGES))).last_id
        except StreamNotFound:
            return MIN_ID

    async def _next_changes(self) -> set[bytes]:
        assert self._seen is not None
        cursor = StreamCursor(CHANGES, self._seen)
        wait_ms = _POLL_MS
        if not self._following:  # most gateways have no pushes, and nothing waits in them
            await asyncio.sleep(_POLL_MS / 1000)
            wait_ms = 0
        reading = Read([cursor], limit=_PAGE, wait_ms=wait_ms, missing_ok=True)
        reads = await self._parts.perform(reading)
        names = set[bytes]()
        for read in reads:
            self._seen = read.next_after
            names |= pushes.changed_names(read.entries)
        return names

    async def _names(self) -> set[bytes]:
        names, after = set[bytes](), None
        while True:
            page, after = await pushes.load_page(self._parts.perform, after, _PAGE)
            names.update(stored.push.name for stored in page)
            if after is None:
                return names

    def _follow_only(self, names: set[bytes]) -> None:
        for name in names:
            self._follow_one(name)
        for name in self._following.keys() - names:
            self._changes[name].set()

    def _follow_one(self, name: bytes) -> None:
        task = self._following.get(name)
        if task is None or task.done():
            self._changes.setdefault(name, asyncio.Event())
            following = periodic.complete("push", partial(self._follow, name))
            self._following[name] = task = asyncio.create_task(following)
            task.add_done_callback(partial(self._forget, name))

    def _forget(self, name: bytes, task: asyncio.Task[None]) -> None:
        if self._following.get(name) is task:
            del self._following[name], self._changes[name]
            self._phases.pop(name, None)

    async def _follow(self, name: bytes) -> None:
        while True:
            self._changes[name].clear()
            try:
                stored = await pushes.load(self._parts.perform, name)
                if stored is None:
                    return
                await self._serve(stored)
            except Unavailable:
                await asyncio.sleep(PAUSE_S)

    async def _serve(self, stored: StoredPush) -> None:
        push, change = stored.push, self._changes[stored.push.name]
        self._phases[push.name] = push.phase
        await pushes.limit_attempts(self._parts.perform, push)
        try:
            await self._check_group(push)
        except (GroupNotFound, StreamNotFound):
            await self._end(push)
            return
        if not push.is_running:
            await self._until(change)
            return
        opened = await opened_push(self._parts.perform, self._sealing, push)
        if opened is None:
            self._phases[push.name] = PushPhase.UNREADABLE
            await self._until(change)
            return
        held, signer = opened
        if not self._is_shared:
            await self._deliver(push, held, signer)
            return
        lease = PushLease(self._parts.perform, push.name)
        if not await lease.take():
            self._phases.pop(push.name, None)
            await self._until(change, lease.wait_s)
            return
        try:
            await lease.keep_while(self._deliver(push, held, signer))
        finally:
            await lease.end()

    async def _until(self, change: asyncio.Event, wait_s: float = LOOK_MS / 1000) -> None:
        try:
            async with asyncio.timeout(wait_s):
                await change.wait()
        except TimeoutError:
            pass

    async def _deliver(self, push: PushRecord, held: PushSecrets, signer: Signer) -> None:
        perform = self._parts.perform
        push_log = PushLog(perform, push, self._tally, partial(self._note_phase, push.name))
        pusher = Pusher(self._parts, push, held, signer, push_log)
        stop = asyncio.Event()
        replaying = Replaying(self._parts, push, pusher.send_again)
        watching = asyncio.create_task(self._watch(push, pusher, push_log, replaying, stop))
        again = asyncio.create_task(periodic.complete("replays of a push", replaying.run))
        writing = asyncio.create_task(periodic.complete("attempts of a push", push_log.run))
        try:
            await pusher.run(stop)
        except Gone:
            log.warning("push disabled: the receiver answered 410", extra=push.place.names)
            now_ms = self._parts.clock.wall_ms()
            await pushes.disable(perform, push.name, "the receiver answered 410 (Gone)", now_ms)
        except (GroupNotFound, StreamNotFound):
            await self._end(push)
        finally:
            for task in (watching, again, writing):
                task.cancel()
            await asyncio.gather(watching, again, writing, return_exceptions=True)
            await push_log.write_last()

    async def _check_group(self, push: PushRecord) -> None:
        """Raise NotFound if the group is gone. Over a pattern, streams may come any time."""
        if push.groups is None:
            await self._parts.perform(DescribeGroup(push.stream, push.group))

    async def _end(self, push: PushRecord) -> None:
        """Delete a push whose group is gone, unless it was replaced meanwhile."""
        stored = await pushes.load(self._parts.perform, push.name)
        if stored is None or stored.push.sealed != push.sealed:
            return
        try:
            await self._check_group(push)
        except (GroupNotFound, StreamNotFound):
            log.warning("push ended: its group no longer exists", extra=push.place.names)
            await pushes.delete(self._parts.perform, push.name)

    async def _watch(
        self,
        push: PushRecord,
        pusher: Pusher,
        push_log: PushLog,
        replaying: Replaying,
        stop: asyncio.Event,
    ) -> None:
        """Stop a pusher when its push has changed, or its group is gone."""
        change, retry_count = self._changes[push.name], push.retry_count
        while True:
            await self._until(change)
            change.clear()
            try:
                stored = await pushes.load(self._parts.perform, push.name)
                await self._check_group(push)
            except (GroupNotFound, StreamNotFound):
                break
            except Unavailable:
                await asyncio.sleep(PAUSE_S)
                change.set()
                continue
            if stored is None or stored.push.sealed != push.sealed:
                break
            if not stored.push.is_running:
                break
            replaying.look()
            if stored.push.retry_count != retry_count:
                retry_count = stored.push.retry_count
                push_log.begin_anew(stored.push)
                pusher.retry()
        stop.set()

    def _note_phase(self, name: bytes, phase: PushPhase) -> None:
        if name in self._phases:
            self._phases[name] = phase
