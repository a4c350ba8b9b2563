"""The Redis backend and the engine, side by side through random histories of deliveries.

After every request both must have answered the same, errors included, and everything that can be
asked about the streams must have the same answer. What may differ is in `DIFFERENCES`.

A history is made of its seed. `HEADGATE_REDIS_HISTORIES=200` runs so many of them.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import product
from random import Random
from typing import Any, TypeVar

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from deploy.local_cluster.server import Server
from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.backends.port import Backend
from headgate.app.backends.redis.address import read_url
from headgate.app.backends.redis.backend import RedisBackend
from headgate.app.backends.redis.client import ClientOptions
from headgate.app.backends.redis.performing.policies import relay_now
from headgate.engine.config import FieldName, GroupPolicy, Patch
from headgate.engine.entry import MAX_ID, MIN_ID, Draft, EntryId, Timing
from headgate.engine.errors import StreamError
from headgate.engine.replies import (
    Claimed,
    ClosedStream,
    ConsumerInfo,
    Created,
    Delivery,
    GroupInfo,
    GroupRead,
    GroupState,
    PendingItem,
    Redriven,
    RedriveOutcome,
)
from headgate.engine.requests import Request, deliveries, groups
from headgate.engine.requests.entries import Add, Budget, Delete, Range, References, Trim, TrimTo
from headgate.engine.requests.keyspace import ChangeDefaults
from headgate.engine.requests.streams import CloseStream
from tests.model.freezer import check_state, freeze_some, frozen_engine

T = TypeVar("T")

DIFFERENCES = {
    "lag, entries_read": "those of the server, which differ by version once entries were removed",
    "caught_up": "may come with the next read, which gets nothing, once entries were removed",
    "inactive_ms": "Redis 7.0 does not say it",
    "ids by the clock": "of dead letters, and of what a redrive appends",
    "entries that are gone": "leave the pending entries as soon as anything but an ack meets them",
    "the order of released entries": "is by the time from which they may be delivered",
    "the order of idle entries": "is by id among those idle for the same number of milliseconds",
    "times of claimed entries": "are not told by servers",
    "AckThrough": "compares times of delivery to the millisecond",
    "the policy of a read": "is that of each stream, not that of the first one",
    "delivery counts above 2^53": "are exact only if they are the greatest one",
    "a claim without what was released": "looks at no more than the limit, with what was released",
    "a forced nack": "of what is new makes it released and new, and of an id twice counts once",
    "FATAL": "is told as a reason by servers, and by a count above 2^53 here",
    "dead letters": "one that cannot be appended waits in the outbox, and is pending no more",
}
"""Differences of the Redis backend and the engine. The histories keep away from most of them."""

EXACT_MAX = 2**53
BY_CLOCK = "by the clock"
"""An id that a redrive gave: from then on the histories of the two differ."""

STREAMS = b"s", b"t"
GROUPS = b"g", b"h"
CONSUMERS = b"ana", b"ben", b"cem"
DEAD = b"dead"
FILTERS = ['{"exact":{"n":"x"}}', '{"not":{"prefix":{"n":"xx"}}}']
FAR_MS = 2**53
HOUR_MS = 3_600_000
STEPS = 60
HISTORIES = int(os.environ.get("HEADGATE_REDIS_HISTORIES", "6"))


class History:
    """Random requests, made of what the engine has at the moment."""

    def __init__(self, seed: int, engine: Backend) -> None:
        self._random = Random(seed)
        self._engine = engine
        self._next_ms = 1
        self._first: list[Request[Any]] = [
            groups.CreateGroup(
                *names, groups.GroupStart(MIN_ID), policy=self._maybe(self._policy())
            )
            for names in product(STREAMS, GROUPS)
        ]
        self._first += [Add(stream, self._drafts(4)) for stream in STREAMS]

    async def next(self) -> Request[Any]:
        """Return a request. The first ones make streams and groups, so that much is delivered."""
        if self._first:
            return self._first.pop()
        makers = [
            *(self._add, self._add, self._create, self._update, self._consumer, self._remove),
            *(self._read, self._read, self._read, self._read, self._history, self._both),
            *(self._ack, self._ack, self._through, self._delete_acked, self._give_back),
            *(self._nack, self._nack, self._nack, self._extend, self._claim, self._autoclaim),
            *(self._list, self._redrive),
        ]
        made: Request[Any] = await self._random.choice(makers)()
        return made

    def _names(self) -> tuple[bytes, bytes]:
        return self._stream(), self._group()

    def _stream(self) -> bytes:
        return self._random.choice(STREAMS[:1] * 4 + STREAMS)

    def _group(self) -> bytes:
        return self._random.choice(GROUPS[:1] * 4 + GROUPS)

    def _who(self) -> bytes:
        return self._random.choice(CONSUMERS)

    def _maybe(self, value: T) -> T | None:
        return self._random.choice([None, value])

    async def _pending(self, stream: bytes, group: bytes) -> list[PendingItem]:
        try:
            return await self._engine.perform(deliveries.ListPending(stream, group))
        except StreamError:
            return []

    async def _ids(self, stream: bytes, group: bytes) -> list[EntryId]:
        """Return some ids: pending ones, one twice, one of an entry, one that is nowhere."""
        known = [item.id for item in await self._pending(stream, group)]
        with suppress(StreamError):
            known += [entry.id for entry in await self._engine.perform(Range(stream, limit=2))]
        known.append(EntryId(999_999, 0))
        chosen = self._random.sample(known, min(len(known), self._random.randint(0, 4)))
        return chosen + chosen[:1] if self._random.random() < 0.2 else chosen

    async def _add(self) -> Request[Any]:
        return Add(self._stream(), self._drafts(self._random.randint(1, 5)))

    def _drafts(self, count: int) -> list[Draft]:
        drafts = []
        for _ in range(count):
            fields = (b"n", b"x" * self._random.choice([1, 1, 1, 40]))
            place = EntryId(self._next_ms, 0)
            drafts.append(Draft(place, fields * self._random.randint(1, 3), self._timing()))
            self._next_ms += 1
        return drafts

    def _timing(self) -> Timing | None:
        """Return times that are far away, or over."""
        if self._random.random() < 0.8:
            return None
        delay_ms = self._random.choice([None, None, 0])
        return Timing(delay_ms, None, self._random.choice([None, 200 * HOUR_MS]), None)

    def _policy(self) -> GroupPolicy:
        choice = self._random.choice
        dead = choice([None, 1, 2, 3])
        return GroupPolicy(
            claim_idle_ms=choice([None, None, HOUR_MS // 2, 24 * HOUR_MS]),
            max_deliveries=dead,
            dead_letter_stream=None if dead is None else choice([DEAD, DEAD, DEAD, None]),
            backoff_ms=choice([(), (), (HOUR_MS,), (0, HOUR_MS)]),
            max_pending=choice([None, None, 3]),
            on_disconnect=choice([False, True]),
            filters=choice([None, None, *FILTERS]),
            paused_until_ms=choice([None, None, 0, FAR_MS]),
            key_field=choice([None, FieldName(b"n")]),
            key_pending_max=choice([None, None, 2]),
            key_ahead_max=choice([None, None, 2]),
            consumer_ttl_ms=choice([None, 200 * HOUR_MS]),
            on_expiry=dead is not None and choice([False, True]),
        )

    async def _create(self) -> Request[Any]:
        start = groups.GroupStart(self._random.choice([MIN_ID, None, EntryId(2, 0)]))
        if self._random.random() < 0.3:
            start = start._replace(entries_read=self._random.choice([0, 1, 1000]))
        return groups.CreateGroup(
            *self._names(),
            start,
            create_stream=self._random.random() < 0.3,
            policy=self._maybe(self._policy()),
            exist_ok=self._random.random() < 0.8,
        )

    async def _update(self) -> Request[Any]:
        policy = self._policy()
        patch = Patch.of(
            GroupPolicy,
            max_deliveries=policy.max_deliveries,
            dead_letter_stream=policy.dead_letter_stream,
        )
        if self._random.random() < 0.5:
            patch = Patch.of(
                GroupPolicy,
                max_pending=policy.max_pending,
                backoff_ms=policy.backoff_ms,
                filters=policy.filters,
                paused_until_ms=policy.paused_until_ms,
                key_field=policy.key_field,
                key_pending_max=policy.key_pending_max,
            )
        stream, group = self._names()
        if self._random.random() < 0.2:
            patch = Patch.of(GroupPolicy, max_deliveries=2, dead_letter_stream=stream)
        moves = self._random.random() < 0.2
        last_id = self._random.choice([MIN_ID, None, EntryId(3, 0)]) if moves else UNSET
        return groups.UpdateGroup(stream, group, last_id=last_id, policy=patch)

    async def _consumer(self) -> Request[Any]:
        names = (*self._names(), self._who())
        if self._random.random() < 0.5:
            return groups.CreateConsumer(*names)
        if self._random.random() < 0.3:
            return groups.DescribeConsumer(*names)
        return groups.DeleteConsumer(*names, release=self._random.random() < 0.7)

    async def _remove(self) -> Request[Any]:
        stream, group = self._names()
        if self._random.random() < 0.1:
            return CloseStream(stream, closed_at_ms=1)
        if self._random.random() < 0.1:
            return groups.DestroyGroup(stream, group)
        if self._random.random() < 0.3:
            return Trim(stream, TrimTo(max_length=3, references=References.DELETE))
        ids = await self._ids(stream, group)
        return Delete(stream, ids, References.DELETE)

    def _reading(self, cursors: Sequence[deliveries.GroupCursor]) -> deliveries.ReadGroup:
        choice = self._random.choice
        request = deliveries.ReadGroup(
            self._group(),
            self._who(),
            cursors,
            limit=choice([None, 1, 2, 3]),
            claim_idle_ms=choice([None, None, 0, HOUR_MS // 2, 24 * HOUR_MS]),
            no_ack=self._random.random() < 0.1,
            max_pending=choice([None, None, None, 2, 4]),
            size_bytes_max=choice([None, None, 1, 20, 60]),
            claim_own=choice([True, True, False]),
            claim_released=choice([True, False]),
            by_policy=choice([True, True, False]),
        )
        if request.claim_idle_ms is not None:
            request = replace(request, claim_released=True)
        if self._random.random() < 0.2:
            reply_bytes_max = choice([None, 80])
            request = replace(request, budget=Budget(choice([2, 5]), 50, reply_bytes_max))
        return request

    async def _read(self) -> Request[Any]:
        stream = self._stream()
        request = self._reading([deliveries.GroupCursor(stream)])
        acked = await self._ids(stream, request.group) if self._random.random() < 0.3 else []
        return replace(request, acked=acked)

    async def _history(self) -> Request[Any]:
        after = self._random.choice([MIN_ID, MIN_ID, EntryId(3, 0), MAX_ID])
        return self._reading([deliveries.GroupCursor(self._stream(), after)])

    async def _both(self) -> Request[Any]:
        request = self._reading([deliveries.GroupCursor(b"s"), deliveries.GroupCursor(b"t")])
        return replace(request, by_policy=False)

    async def _ack(self) -> Request[Any]:
        stream, group = self._names()
        return deliveries.Ack(
            stream, group, await self._ids(stream, group), self._maybe(self._who())
        )

    async def _through(self) -> Request[Any]:
        stream, group = self._names()
        ids = await self._ids(stream, group) or [MIN_ID]
        return deliveries.AckThrough(stream, group, self._who(), ids[0])

    async def _delete_acked(self) -> Request[Any]:
        stream, group = self._names()
        ids = await self._ids(stream, group)
        references = self._random.choice([References.DELETE, References.ACKED])
        return deliveries.AckAndDelete(stream, group, ids, references)

    async def _give_back(self) -> Request[Any]:
        stream, group = self._names()
        pending = await self._pending(stream, group)
        items = self._random.sample(pending, min(len(pending), 3))
        consumer = next((item.consumer for item in items if item.consumer), self._who())
        off = self._random.choice([0, 0, 1, -1])
        counts = {item.id: max(item.delivery_count + off, 0) for item in items}
        return deliveries.GiveBack(stream, group, consumer, counts)

    async def _nack(self) -> Request[Any]:
        choice = self._random.choice
        stream, group = self._names()
        ids = list(dict.fromkeys(await self._ids(stream, group)))
        return deliveries.Nack(
            stream,
            group,
            ids,
            choice(
                [deliveries.NackMode.FAIL, deliveries.NackMode.FAIL, deliveries.NackMode.SILENT]
            ),
            delay_ms=choice([None, None, 0, HOUR_MS]),
            consumer=self._maybe(self._who()),
            retry_count=choice([None, None, None, 0, 7]),
            by_policy=self._random.random() < 0.8,
            counts=choice([None, None, dict.fromkeys(ids, 1)]),
            error=choice([None, b"timeout"]),
        )

    async def _extend(self) -> Request[Any]:
        stream, group = self._names()
        return deliveries.Extend(stream, group, await self._ids(stream, group), self._who())

    async def _claim(self) -> Request[Any]:
        choice = self._random.choice
        stream, group = self._names()
        return deliveries.Claim(
            stream,
            group,
            self._who(),
            await self._ids(stream, group),
            choice([0, 0, HOUR_MS // 2]),
            idle_ms=choice([None, None, 10]),
            retry_count=choice([None, None, 5]),
            force=self._random.random() < 0.2,
            just_id=self._random.random() < 0.2,
            last_id=choice([MIN_ID, MIN_ID, MIN_ID, EntryId(4, 0)]),
            size_bytes_max=choice([None, None, 1, 20, 60]),
        )

    async def _autoclaim(self) -> Request[Any]:
        return deliveries.Autoclaim(
            *self._names(),
            self._who(),
            self._random.choice([0, HOUR_MS // 2]),
            self._random.choice([MIN_ID, EntryId(3, 0)]),
            limit=self._random.choice([1, 2, 100]),
            just_id=self._random.random() < 0.2,
            by_policy=self._random.random() < 0.8,
            size_bytes_max=self._random.choice([None, None, 1, 20, 60]),
        )

    async def _list(self) -> Request[Any]:
        return deliveries.ListPending(
            *self._names(),
            start=self._random.choice([MIN_ID, EntryId(3, 0)]),
            limit=self._random.choice([2, 100]),
            consumer=self._maybe(self._who()),
            min_idle_ms=self._random.choice([0, HOUR_MS // 2]),
        )

    async def _redrive(self) -> Request[Any]:
        return deliveries.Redrive(*self._names(), limit=self._random.choice([1, 100]))


async def answer(backend: Backend, request: Request[Any]) -> Any:
    """Return a backend's reply, or its error, without the parts that may differ."""
    try:
        return plain(await backend.perform(request))
    except StreamError as error:
        return type(error), str(error), error.location


def plain(reply: Any) -> Any:
    """Return a reply without what may differ."""
    if isinstance(reply, list):
        return list(map(plain, reply))
    if isinstance(reply, Created):
        return reply.is_new, plain(reply.info)
    if isinstance(reply, Claimed):
        claimed = [each._replace(times=None) for each in reply.deliveries]
        return plain(claimed), reply.deleted_ids, reply.next_start
    if isinstance(reply, GroupRead):
        is_settled = not reply.deliveries or reply.state is GroupState.MAX_PENDING
        kept = reply._replace(deliveries=plain(reply.deliveries), lag=None)
        return tuple(kept if is_settled else kept._replace(state=GroupState.LIVE))
    return _plain_item(reply)


def _plain_item(item: Any) -> Any:
    match item:
        case Delivery(idle_ms=idle_ms, delivered_before=before):
            item = item._replace(
                idle_ms=rough(idle_ms), delivered_before=min(before, EXACT_MAX), times=None
            )
        case PendingItem(idle_ms=idle_ms, delivery_count=count, delay_ms=delay_ms):
            idle_ms = None if idle_ms is None else rough(idle_ms)
            item = item._replace(
                idle_ms=idle_ms, delivery_count=min(count, EXACT_MAX), delay_ms=rough(delay_ms)
            )
        case ClosedStream():
            item = item._replace(epoch=0)
        case GroupInfo():
            item = item._replace(
                lag=None, entries_read=None, waiting_since_ms=None, idle_since_ms=None
            )
        case ConsumerInfo():
            item = item.name, item.pending_count
        case Redriven(outcome=outcome, entry_id=entry_id):
            item = outcome, entry_id if outcome is RedriveOutcome.RELEASED else None
    return item


def rough(time_ms: int) -> int:
    """Return a time in units of ten minutes."""
    return round(time_ms / 600_000)


async def state(backend: Backend) -> list[Any]:
    """Return everything that can be asked, without what may differ."""
    answers: list[Any] = []
    for stream in STREAMS:
        answers.append(await answer(backend, groups.ListGroups(stream)))
        for group in GROUPS:
            answers.append(await answer(backend, deliveries.ListPending(stream, group)))
            answers.append(await answer(backend, deliveries.SumPending(stream, group)))
            answers.append(await answer(backend, groups.ListConsumers(stream, group)))
    for stream in (*STREAMS, DEAD):
        try:
            found = await backend.perform(Range(stream))
            ids = [entry.id if entry.id.ms < 1_000_000 else BY_CLOCK for entry in found]
            answers.append([entry.fields for entry in found])
            answers += [ids, BY_CLOCK] if stream != DEAD and BY_CLOCK in ids else [ids]
        except StreamError as error:
            answers.append(type(error))
    return answers


async def settle_times(backends: Sequence[Backend], place: int) -> int:
    """Let each entry that was just delivered look delivered an hour ago, each at its own time.

    Args:
        backends: both; the first says what was just delivered.
        place: how many times were given before.

    Returns:
        How many times were given.
    """
    for stream in STREAMS:
        for group in GROUPS:
            try:
                items = await backends[0].perform(deliveries.ListPending(stream, group))
            except StreamError:
                continue
            for item in items:
                if item.consumer is None or rough(item.idle_ms or 0):
                    continue
                place += 1
                at_ms = int(time.time() * 1000) - HOUR_MS
                claim = deliveries.Claim(
                    *(stream, group, item.consumer, [item.id], 0),
                    time_ms=at_ms // 100_000 * 100_000 + place,
                    retry_count=item.delivery_count,
                    just_id=True,
                )
                for backend in backends:
                    await backend.perform(claim)
    return place


def story(seed: int, done: Sequence[Request[Any]]) -> str:
    """Return the requests of a history, the last ones in full."""
    return "\n".join(["", f"seed {seed}, after {len(done)} requests:", *map(repr, done[-4:])])


@asynccontextmanager
async def connected(backend: RedisBackend) -> AsyncIterator[RedisBackend]:
    """Connect a backend, and let it do nothing by itself, such as housekeeping."""
    running = asyncio.create_task(backend.client.run())
    yield backend
    running.cancel()
    await asyncio.wait({running})


@pytest.mark.parametrize(
    ("server", "seeds"),
    [
        ("redis_7", range(5 * HISTORIES)),
        ("valkey_9", range(HISTORIES)),
        pytest.param("redis_7", range(5 * HISTORIES, 250), marks=pytest.mark.long),
    ],
    ids=["redis_7", "valkey_9", "many"],
)
async def test_both_answer_alike(server: str, seeds: range, request: pytest.FixtureRequest) -> None:
    at: Server = request.getfixturevalue(server)
    for seed in seeds:
        prefix = f"{request.node.name}{seed}:".encode()
        options = ClientOptions(read_url(at.url), prefix=prefix)
        async with connected(RedisBackend(options)) as servers:
            await run_history(seed, servers)


async def run_history(seed: int, servers: RedisBackend) -> None:
    """Run a history on an engine and over servers.

    Housekeeping runs in neither: it would make dead letters at times of its own.
    """
    kept = frozen_engine()
    await kept.perform(ChangeDefaults(node_entries_max=3))
    engine = EmbeddedBackend(kept)
    history, place = History(seed, engine), 0
    done: list[Request[Any]] = []
    for step in range(STEPS):
        freeze_some(kept, step)
        made = await history.next()
        done.append(made)
        expected, actual = await answer(engine, made), await answer(servers, made)
        assert actual == expected, story(seed, done)
        for stream in STREAMS:  # housekeeping does, for requests that deliver something as well
            await relay_now(servers.client, stream)
        place = await settle_times([engine, servers], place)
        expected_state = await state(engine)
        assert await state(servers) == expected_state, story(seed, done)
        if BY_CLOCK in expected_state:
            break
    check_state(kept)
