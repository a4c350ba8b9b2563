"""The same random histories through the engine, and through a backend over Redis.

Replies and errors are compared. These differences are meant, and `comparable` leaves them out:

- ids that follow a clock, epochs, times, how many chunks a stream has, and the lag of a group;
- an approximate trim, and one that spares what groups need, takes a hundred entries for a node.
  So the streams here are shorter;
- a trim that spares entries takes the others as a delete does: the greatest deleted id moves;
- when the last id goes back (XSETID), so does what trims have taken, and it may not go below the
  greatest deleted id that the same request sets;
- servers remember nothing of a deleted stream, and this engine forgets it as well;
- names are scanned in no order, unless a filter says which are shown;
- a consumer whose read gets nothing is not made, so it is made before;
- what is wrong whatever the state is comes first: a draft without fields before a missing stream.
"""

import os
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from deploy.local_cluster.server import Server
from headgate.app.backends.embedded import EmbeddedOptions, open_embedded
from headgate.app.backends.port import Backend
from headgate.app.backends.redis.address import read_url
from headgate.app.backends.redis.backend import RedisBackend
from headgate.app.backends.redis.client import ClientOptions
from headgate.engine.config import Patch, StreamConfig
from headgate.engine.entry import MAX_ID, MIN_ID, Draft, EntryId, IdRequest, PartialId
from headgate.engine.errors import StreamError
from headgate.engine.replies import (
    ClosedStream,
    Commit,
    ConsumerInfo,
    ConsumerInspection,
    GroupInfo,
    GroupRead,
    Histogram,
    KeyspaceInfo,
    PendingInspection,
    PendingItem,
    Portion,
    StreamInfo,
)
from headgate.engine.requests import Request, entries, keyspace, streams
from headgate.engine.requests.bulk import BulkCursor, CommitBatch, LastCommit, PlanRead, SplitRange
from headgate.engine.requests.deliveries import Ack, GroupCursor, ReadGroup
from headgate.engine.requests.entries import CountByTime
from headgate.engine.requests.groups import CreateConsumer, CreateGroup, DestroyGroup, GroupStart
from headgate.engine.requests.idempotency import Idempotent
from headgate.engine.requests.keyspace import NameFilter
from headgate.engine.requests.streams import AttributeChange, ChangeAttributes, GetAttributes
from tests.running import running

HISTORIES = int(os.environ.get("HEADGATE_REDIS_HISTORIES", "6"))
STEPS = 150

NAMES = [b"s", b"{t}", b"a}b{%7B", b""]
"""Names of streams; some have to be escaped."""

AHEAD_MS = 10**14
"""Ids above this time are ahead of the clock, so `*` goes on with their sequence."""

OLD_MS_MAX = 100
"""Ids below this time are older than any entry may be whose age is bounded."""


class History:
    """Random requests on few streams, so that they meet."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._ms = AHEAD_MS
        self._ttl_ms = 50

    def next(self) -> Request[Any]:
        """Return a request."""
        makers: list[Callable[[], Request[Any]]] = [
            *[self._add] * 12,
            *[self._range, self._read, self._trim, self._delete] * 3,
            *[self._stream] * 3,
            *[self._list, self._attributes] * 2,
            *[self._group] * 5,
            *[self._keys, self._bulk, self._counters, self._expiry] * 2,
        ]
        return self._random.choice(makers)()

    def _name(self) -> bytes:
        return self._random.choice([NAMES[0], NAMES[0], *NAMES])

    def _flag(self, percent: int) -> bool:
        return self._random.randrange(100) < percent

    def _id(self) -> EntryId:
        pick = self._random
        near = EntryId(self._ms - pick.randint(-1, 6), pick.randint(0, 3))
        old = EntryId(pick.randint(0, OLD_MS_MAX), pick.randint(0, 1))
        return pick.choice([*[near] * 12, old, MIN_ID, MAX_ID, EntryId(AHEAD_MS, 0)])

    def _after(self, *places: entries.From) -> EntryId | entries.From:
        return self._id() if self._flag(60) else self._random.choice(places)

    def _wanted(self) -> IdRequest:
        pick = self._random
        self._ms += pick.randint(0, 1)
        ascending = EntryId(self._ms, pick.randint(0, 2**20))
        usual: list[IdRequest] = [ascending, PartialId(self._ms), PartialId(self._ms), None, None]
        near = self._id()
        odd: list[IdRequest] = (
            [near, PartialId(near.ms)] if near != MAX_ID or self._flag(5) else [None]
        )
        return pick.choice([*usual * 4, *odd])

    def _drafts(self, count_max: int = 4) -> list[Draft]:
        count = self._random.choice([1, 1, 1, *range(count_max)])
        wanted = [None] * count if self._flag(40) else [self._wanted() for _ in range(count)]
        return [Draft(entry_id, self._fields()) for entry_id in wanted]

    def _fields(self) -> tuple[bytes, ...]:
        pick = self._random
        pairs = pick.choice([1, 1, 2, 3])
        return tuple(pick.choice([b"", b"f", b"\0\xff", b"value" * 9]) for _ in range(2 * pairs))

    def _to(self) -> entries.TrimTo:
        pick = self._random
        approximate = self._flag(30)
        max_length = pick.choice([None, pick.randint(-1, 9)])
        min_id = self._id() if max_length is None or self._flag(2) else None
        limit = pick.choice([None, 0, 5, 1000]) if approximate or self._flag(5) else None
        return entries.TrimTo(
            max_length, min_id, approximate, limit, pick.choice(list(entries.References))
        )

    def _idempotent(self) -> Idempotent:
        pick = self._random
        digest = pick.choice([b"", b"1", b"1", b"2"])
        return Idempotent(pick.choice([b"p", b"q", b"r\n"]), b"%d" % pick.randint(0, 6), digest)

    def _add(self) -> entries.Add:
        pick = self._random
        if self._flag(20):
            drafts = [Draft(None, self._fields()) for _ in range(pick.choice([1, 1, 2]))]
            return entries.Add(
                self._name(), drafts, self._idempotent(), create_stream=self._flag(80)
            )
        return entries.Add(
            self._name(),
            self._drafts(),
            create_stream=self._flag(90),
            expected_last_id=self._id() if self._flag(5) else None,
            trim=self._to() if self._flag(15) else None,
            attributes=self._change() if self._flag(15) else None,
            is_new=self._flag(5),
        )

    def _change(self) -> AttributeChange:
        pick, names = self._random, [b"a", b"b", b"\xff\x00"]
        values = [None, b"", b"1", b"2" * 9]

        def portion(count_max: int) -> dict[bytes, bytes | None]:
            chosen = pick.sample(names, pick.randint(0, count_max))
            return {name: pick.choice(values) for name in chosen}

        return AttributeChange(portion(3), portion(1))

    def _attributes(self) -> Request[Any]:
        name = self._name()
        wanted = self._random.choice([None, [b"a", b"none"]])
        return self._random.choice(
            [GetAttributes(name, wanted), ChangeAttributes(name, self._change())]
        )

    def _range(self) -> entries.Range:
        pick = self._random
        return entries.Range(
            self._name(),
            *pick.choice([(MIN_ID, MAX_ID), (self._id(), MAX_ID), (self._id(), self._id())]),
            limit=pick.choice([None, 0, 1, 3, 100]),
            size_bytes_max=pick.choice([None, None, 0, 40, 500]),
            reverse=self._flag(40),
            whole=self._flag(20),
            entries_max=pick.choice([None, 2, 20]),
        )

    def _read(self) -> entries.Read:
        pick = self._random
        cursors = [
            entries.StreamCursor(self._name(), self._after(entries.From.NOW, entries.From.LAST))
            for _ in range(pick.choice([1, 1, 2, 3]))
        ]
        budget = entries.Budget(
            pick.randint(1, 9), pick.choice([1, 60, 900]), pick.choice([None, 90])
        )
        return entries.Read(
            cursors,
            limit=pick.choice([None, 1, 5]),
            size_bytes_max=pick.choice([None, 0, 30, 600]),
            missing_ok=self._flag(60),
            budget=budget if self._flag(30) else None,
        )

    def _trim(self) -> entries.Trim:
        return entries.Trim(self._name(), self._to())

    def _delete(self) -> entries.Delete:
        pick = self._random
        ids = [self._id() for _ in range(pick.randint(0, 6))]
        return entries.Delete(self._name(), ids, pick.choice(list(entries.References)))

    def _stream(self) -> Request[Any]:
        pick = self._random
        config = StreamConfig(
            max_length=pick.choice([None, None, 0, 5, 30]),
            max_age_ms=pick.choice([None, 86_400_000]),
            idempotency_window_ms=pick.choice([None, 50_000]),
            idempotency_max=pick.choice([None, 1, 2]),
        )
        changed = pick.choice(StreamConfig.__struct_fields__)
        patch = Patch.of(StreamConfig, **{changed: getattr(config, changed)})
        name = self._name()
        return pick.choice(
            [
                streams.CreateStream(name, config),
                streams.CreateStream(name, attributes=self._change() if self._flag(50) else None),
                streams.UpdateStream(name, patch),
                streams.UpdateStream(name, patch),
                streams.DescribeStream(name),
                streams.DescribeStream(name),
                streams.DeleteStream(name),
                streams.DeleteStream(name),
                keyspace.RenameStream(name, self._name()),
                self._close(name),
            ]
        )

    def _close(self, name: bytes) -> streams.CloseStream:
        if self._flag(30):
            return streams.CloseStream(name, [Draft(None, self._fields())], self._idempotent())
        drafts = self._drafts() if self._flag(50) else []
        expected = self._id() if self._flag(10) else None
        return streams.CloseStream(
            name,
            drafts,
            create_stream=self._flag(70),
            expected_last_id=expected,
            attributes=self._change() if self._flag(20) else None,
            is_new=self._flag(10),
        )

    def _group(self) -> Request[Any]:
        pick, name = self._random, self._name()
        group, consumer = pick.choice([b"g", b"h:"]), pick.choice([b"a", b"b"])
        start = GroupStart(pick.choice([None, MIN_ID, self._id()]))
        ids = [self._id() for _ in range(pick.randint(1, 6))]
        return pick.choice(
            [
                CreateGroup(name, group, start, create_stream=self._flag(20)),
                ReadGroup(group, consumer, [GroupCursor(name)], pick.choice([None, 1, 3])),
                ReadGroup(group, consumer, [GroupCursor(name)], pick.choice([None, 1, 3])),
                Ack(name, group, ids),
                DestroyGroup(name, group),
                keyspace.RequireGroups([name, self._name()], group),
                streams.DetailStream(
                    name, pick.choice([None, 0, 2]), None, pick.choice([None, 3, 20])
                ),
                keyspace.InspectStream(name, self._flag(70), pick.choice([None, 1, 9]), 30, 2000),
            ]
        )

    def _list(self) -> Request[Any]:
        pick = self._random
        only = NameFilter(
            frozenset(pick.sample([*NAMES, b"x"], pick.randint(0, 2))),
            tuple(pick.sample([b"", b"s", b"{", b"a}b"], pick.randint(0, 2))),
        )
        shown = pick.choice([None, only])
        return pick.choice(
            [
                streams.ListStreams(
                    prefix=pick.choice([b"", b"", b"s", b"{t"]),
                    after=pick.choice([None, self._name()]),
                    limit=pick.randint(0, 5),
                    only=shown,
                ),
                keyspace.ListNames(shown),
                keyspace.ScanNames(pick.randint(0, 3), pick.randint(1, 3), only),
                keyspace.CountStreams(None, shown),
                keyspace.CountStreams([self._name(), self._name(), b"none"]),
                keyspace.DescribeKeyspace(),
                *[keyspace.DeleteAll(), keyspace.DeleteStreams([self._name(), self._name()])]
                * self._flag(20),
            ]
        )

    def _keys(self) -> Request[Any]:
        producer, key, _ = self._idempotent()
        return keyspace.RememberKey(self._name(), producer, key, self._id())

    def _bulk(self) -> Request[Any]:
        pick = self._random
        writer = pick.choice([b"w", b"x}"])
        names = pick.sample(NAMES, pick.choice([0, 1, 1, 2]))
        cursors = [
            BulkCursor(name, self._after(entries.From.NOW), pick.choice([None, None, 1]))
            for name in pick.sample(NAMES, pick.randint(1, 3))
        ]
        return pick.choice(
            [
                CommitBatch(
                    writer,
                    pick.randint(0, 9),
                    {name: self._drafts() for name in names},
                    create_streams=self._flag(80),
                ),
                LastCommit(writer),
                PlanRead(cursors, pick.choice([None, None, 0, 1, 3, 7])),
                SplitRange(self._name(), self._id(), self._id(), pick.randint(1, 5)),
                SplitRange(self._name(), MIN_ID, MAX_ID, pick.randint(1, 5)),
                CountByTime(self._name(), MIN_ID, MAX_ID, pick.randint(1, 5)),
                CountByTime(self._name(), self._id(), self._id(), pick.randint(1, 5)),
            ]
        )

    def _counters(self) -> keyspace.SetCounters:
        pick = self._random
        ahead = EntryId(self._ms + 1, 0)
        return keyspace.SetCounters(
            self._name(),
            pick.choice([ahead, self._id()]),
            pick.choice([None, None, pick.randint(0, 20), 1000]),
            MIN_ID if self._flag(90) else EntryId(0, 1),
        )

    def _expiry(self) -> Request[Any]:
        pick, name = self._random, self._name()
        condition = pick.choice(["if_none", "if_set", "if_later", "if_earlier"])
        conditions = {condition: True} if self._flag(60) else {}
        self._ttl_ms += 700  # two that are equal would differ by the moment of the request
        longer = [million * 1_000_000 + self._ttl_ms for million in (1, 2, 3)]
        ttl_ms = pick.choice([*longer, *[0, -5] * self._flag(20), 2**63])
        return pick.choice(
            [
                keyspace.ExpireStream(name, ttl_ms, **conditions),
                keyspace.PersistStream(name),
                keyspace.TimeToLive(name),
            ]
        )


LEFT_OUT: Mapping[type, Mapping[str, Any]] = {
    StreamInfo: {"epoch": 0, "chunk_count": 0, "hot_bytes": None, "cold_bytes": None},
    KeyspaceInfo: {"now_ms": 0, "average_ttl_ms": 0},
    Portion: {"epoch": 0},
    Commit: {"at_ms": 0},
    ClosedStream: {"epoch": 0},
    GroupInfo: {"lag": None, "entries_read": None, "waiting_since_ms": None, "idle_since_ms": None},
    GroupRead: {"lag": None},
    PendingItem: {"idle_ms": 0},
    ConsumerInfo: {"idle_ms": 0, "inactive_ms": None},
    PendingInspection: {"delivered_at_ms": 0},
    ConsumerInspection: {"seen_at_ms": 0, "active_at_ms": None},
}
"""Fields that the backends need not agree on."""


def comparable(value: Any) -> Any:
    """Return the parts of a reply that two backends must agree on."""
    if isinstance(value, EntryId):
        return "now" if OLD_MS_MAX < value.ms < AHEAD_MS else value
    if isinstance(value, Histogram):  # where its buckets begin follows the clock
        return sum(value.counts)
    if isinstance(value, tuple | list):
        record: Any = value
        kind = type(value)
        if hasattr(record, "closed_at_ms"):
            record = record._replace(closed_at_ms=record.closed_at_ms is not None)
        parts = record._replace(**LEFT_OUT[kind]) if kind in LEFT_OUT else record
        return [comparable(part) for part in parts]
    return value


def _rough(ttl_ms: int) -> int:
    return round(ttl_ms / 100_000)


async def is_meant_to_differ(engine: Backend, request: Request[Any]) -> bool:
    """Tell whether a request puts the last id below trimmed entries."""
    if not isinstance(request, keyspace.SetCounters):
        return False
    try:
        info = await engine.perform(streams.DescribeStream(request.stream))
    except StreamError:
        return False
    return request.last_id < info.trimmed_through


async def outcome(backend: Backend, request: Request[Any]) -> Any:
    """Return the reply to a request, or its error, as far as it can be compared."""
    try:
        reply = await backend.perform(request)
    except StreamError as error:
        facts = {name: comparable(fact) for name, fact in vars(error).items()}
        return type(error), facts
    if isinstance(request, keyspace.TimeToLive) and reply is not None:
        return _rough(reply)
    return comparable(reply)


@pytest.fixture(params=["redis_7", "valkey_9"])
def server(request: pytest.FixtureRequest) -> Server:
    server: Server = request.getfixturevalue(request.param)
    return server


@pytest.mark.parametrize("seed", range(HISTORIES))
async def test_both_answer_the_same(
    seed: int, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.engine.state.keyspace.FORMER_STREAMS_MAX", 0)
    prefix = f"{tmp_path}:".encode()
    options = ClientOptions(read_url(server.url), prefix=prefix)
    async with (
        running(open_embedded(EmbeddedOptions(None))) as engine,
        running(RedisBackend(options)) as redis,
    ):
        history = History(seed)
        past: list[Request[Any]] = []
        for _ in range(STEPS):
            request = history.next()
            if await is_meant_to_differ(engine, request):
                continue
            for step in steps_of(request):
                past.append(step)
                expected = await outcome(engine, step)
                assert await outcome(redis, step) == expected, story(past)


def steps_of(request: Request[Any]) -> Sequence[Request[Any]]:
    """Return a request, and before it what makes up for a difference that is meant."""
    if isinstance(request, ReadGroup):
        [cursor] = request.cursors
        return [CreateConsumer(cursor.stream, request.group, request.consumer), request]
    return [request]


def story(past: Sequence[Request[Any]]) -> str:
    """Return the requests that led to a difference."""
    return "\n".join(map(repr, past[-12:]))
