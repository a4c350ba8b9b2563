"""Workload: what clients ask, chosen by a seed. Everything the engine can be asked is asked.

A request is made of what the engine holds at the moment, so that most of them mean something.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import Any

from msgspec.structs import replace

from headgate.engine import commands as c
from headgate.engine.config import NO_POLICY, GroupPolicy, StreamConfig
from headgate.engine.decisions import Decision, Step
from headgate.engine.decisions.table import decide
from headgate.engine.engine import Engine
from headgate.engine.entry import MAX_ID, MIN_ID, Draft, EntryId, PartialId
from headgate.engine.errors import StreamError
from headgate.engine.journal.journal import Journal
from headgate.engine.requests import Request
from headgate.engine.requests.bulk import CommitBatch
from headgate.engine.requests.deliveries import (
    Ack,
    AckAndDelete,
    Autoclaim,
    Claim,
    Extend,
    GiveBack,
    GroupCursor,
    ListPending,
    Nack,
    NackMode,
    ReadGroup,
    Redrive,
    SumPending,
)
from headgate.engine.requests.entries import (
    Add,
    Delete,
    From,
    Range,
    Read,
    References,
    StreamCursor,
    Trim,
    TrimTo,
)
from headgate.engine.requests.groups import (
    CreateConsumer,
    CreateGroup,
    DeleteConsumer,
    DescribeConsumer,
    DescribeGroup,
    DestroyGroup,
    GroupStart,
    ListConsumers,
    ListGroups,
)
from headgate.engine.requests.idempotency import Digest, Idempotent
from headgate.engine.requests.keyspace import (
    ChangeDefaults,
    ExpireStream,
    InspectStream,
    PersistStream,
    RenameStream,
    SetCounters,
)
from headgate.engine.requests.streams import (
    CreateStream,
    DeleteStream,
    DescribeStream,
    DetailStream,
    ListStreams,
)
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.stream import Stream
from tests.changes import acting_by, configured, moved
from tests.simulation.history import Reader
from tests.simulation.platter import Platter
from tests.simulation.sight import seen

STREAMS = [b"a", b"a", b"a", b"b", b"c"]
GROUPS = [b"g", b"g", b"h"]
CONSUMERS = [b"x", b"y", b"z"]
KEYS = [b"k1", b"k2", b"k3"]
WAITS_MS = [0, 0, 5, 200, 1_500, None]
IDLE_MS = [0, 1, 20, 500]

Ask = Callable[[], Awaitable[Any]]


class StepError(Exception):
    """A mistake in a step: nothing that the engine knows of."""


class Workload:
    """Chooses requests."""

    poison_chance = 0.0
    """Share of transactions with commands that cannot be applied."""

    def __init__(self, engine: Engine, random: Random, serial: int, platter: Platter) -> None:
        self.serial = serial  # of the next entry: all entries differ
        self._engine, self._platter = engine, platter
        self._random = random
        self.reader: Reader | None = None  # of the last request, if it reads as one
        self._requests: list[Callable[[], Ask]] = []
        for request, weight in self._weights().items():
            self._requests += [request] * weight

    def next(self) -> tuple[str, Ask]:
        """Return a request and its name."""
        self.reader = None
        is_first = not self.serial and self._random.random() < 0.7  # small chunks: many are sealed
        request = self.set_defaults if is_first else self._random.choice(self._requests)
        return request.__name__, request()

    def _weights(self) -> dict[Callable[[], Ask], int]:
        return {
            self.add: 24,
            self.add_once: 8,
            self.commit_batch: 5,
            self.read_group: 20,
            self.read: 5,
            self.ack: 10,
            self.nack: 4,
            self.nack_by_force: 2,
            self.set_policy: 3,
            self.redrive: 2,
            self.extend: 3,
            self.claim: 4,
            self.autoclaim: 4,
            self.give_back: 1,
            self.ack_and_delete: 3,
            self.create_group: 6,
            self.set_group: 2,
            self.destroy_group: 1,
            self.create_consumer: 2,
            self.delete_consumer: 2,
            self.create_stream: 2,
            self.configure_stream: 3,
            self.delete_stream: 1,
            self.delete: 5,
            self.trim: 4,
            self.set_counters: 2,
            self.expire_stream: 2,
            self.rename: 1,
            self.set_defaults: 1,
            self.perform_all: 8,
            self.read_group_plainly: 2,
            self.range: 4,
            self.look: 5,
            self.start_rewrite: self._random.choice([3, 10]),
        }

    # What requests are made of

    def _stream(self) -> bytes:
        return self._random.choice(STREAMS)

    def _names(self) -> tuple[bytes, bytes]:
        return self._stream(), self._random.choice(GROUPS)

    def _consumer(self) -> bytes:
        return self._random.choice(CONSUMERS)

    def _find(self, name: bytes) -> Stream | None:
        return self._engine.keyspace.find(name)

    def _id(self, stream: bytes) -> EntryId:
        known_stream = self._find(stream)
        with seen(self._engine.keyspace, self._platter):
            live = [] if known_stream is None else known_stream.log.ids(MIN_ID, MAX_ID)
        if not live or self._random.random() < 0.1:
            return EntryId(self._random.randint(0, 2_000), self._random.randint(0, 2))
        return self._random.choice(live)

    def _ids(self, stream: bytes) -> list[EntryId]:
        return [self._id(stream) for _ in range(self._random.randint(1, 3))]

    def _pending(self, stream: bytes, group: bytes) -> list[EntryId]:
        known_stream = self._find(stream)
        in_group = None if known_stream is None else known_stream.groups.get(group)
        ids = [] if in_group is None else [entry.id for entry in in_group.pel.walk()]
        if not ids or self._random.random() < 0.1:
            return self._ids(stream)
        return self._random.sample(ids, min(len(ids), self._random.randint(1, 4)))

    def _drafts(self) -> list[Draft]:
        return [self._draft() for _ in range(self._random.choice([1, 1, 1, 2, 5]))]

    def _draft(self) -> Draft:
        self.serial += 1
        value = b"%d" % self.serial
        if self._random.random() < 0.2:
            value += bytes(self._random.randint(0, 400))
        if self._random.random() < 0.1:
            value += b"\xb1ock" * 3  # as a block begins
        asked = None if self._random.random() < 0.8 else self._explicit_id()
        return Draft(asked, (self._random.choice([b"v", b"w"]), value))

    def _explicit_id(self) -> EntryId | PartialId:
        ms = self._engine._executor.now_ms() + self._random.choice([-1_000, -1, 0, 1, 1_000])
        ms = max(ms, 1)
        return PartialId(ms) if self._random.random() < 0.5 else EntryId(ms, 1)

    def _trim(self) -> TrimTo:
        random = self._random
        length = random.randint(0, 12) if random.random() < 0.7 else None
        approximate = random.random() < 0.4
        return TrimTo(
            max_length=length,
            min_id=self._id(self._stream()) if length is None else None,
            approximate=approximate,
            limit=random.choice([None, 0, 3]) if approximate else None,
            references=random.choice([*References]),
        )

    def _maybe_trim(self) -> TrimTo | None:
        return self._trim() if self._random.random() < 0.15 else None

    def _config(self) -> StreamConfig:
        return StreamConfig(
            max_length=self._random.choice([None, None, 5, 30]),
            max_age_ms=self._random.choice([None, None, 500, 5_000]),
            idempotency_window_ms=self._random.choice([None, 300]),
            idempotency_max=self._random.choice([None, 2]),
        )

    def _policy(self) -> GroupPolicy:
        max_deliveries = self._random.choice([None, 1, 2, 4])
        return GroupPolicy(
            claim_idle_ms=self._random.choice([None, None, *IDLE_MS]),
            max_deliveries=max_deliveries,
            dead_letter_stream=None if max_deliveries is None else self._stream(),
            backoff_ms=self._random.choice([(), (20,), (1, 500)]),
            max_pending=self._random.choice([None, None, 3]),
            on_disconnect=self._random.random() < 0.5,
            consumer_ttl_ms=self._random.choice([None, 50, 2_000]),
        )

    # Entries

    def add(self) -> Ask:
        stream, drafts, trim = self._stream(), self._drafts(), self._maybe_trim()
        known_stream = self._find(stream)
        expected = (
            known_stream.last_id
            if known_stream is not None and self._random.random() < 0.1
            else None
        )
        return lambda: self._engine.perform(
            Add(stream, drafts, expected_last_id=expected, trim=trim)
        )

    def add_once(self) -> Ask:
        stream, drafts = self._stream(), self._drafts()
        digest = Digest()
        for draft in drafts if self._random.random() < 0.2 else ():
            digest.add(draft.fields)
        key = Idempotent(self._consumer(), self._random.choice(KEYS), digest.value())
        return lambda: self._engine.perform(Add(stream, drafts, key))

    def commit_batch(self) -> Ask:
        wanted = {self._stream(): self._drafts() for _ in range(self._random.randint(0, 2))}
        writer, batch = self._consumer(), self._random.randint(0, self.serial)
        return lambda: self._engine.perform(CommitBatch(writer, batch, wanted))

    def range(self) -> Ask:
        stream = self._stream()
        request = Range(stream, limit=20, reverse=self._random.choice([False, True]))
        return lambda: self._engine.perform(request)

    def read(self) -> Ask:
        stream = self._stream()
        places: list[EntryId | From] = [self._id(stream), From.NOW, From.LAST]
        after = self._random.choice(places)
        wait_ms, missing_ok = self._random.choice(WAITS_MS), self._random.random() < 0.5
        cursors = [StreamCursor(stream, after)]
        if self._random.random() < 0.3:
            cursors.append(StreamCursor(self._stream(), From.NOW))
        return lambda: self._engine.perform(
            Read(cursors, limit=5, wait_ms=wait_ms, missing_ok=missing_ok)
        )

    def delete(self) -> Ask:
        stream, references = self._stream(), self._random.choice([*References])
        ids = self._ids(stream)
        return lambda: self._engine.perform(Delete(stream, ids, references))

    def trim(self) -> Ask:
        stream, request = self._stream(), self._trim()
        return lambda: self._engine.perform(Trim(stream, request))

    # Streams

    def create_stream(self) -> Ask:
        stream, config = self._stream(), self._config()
        return lambda: self._engine.perform(CreateStream(stream, config))

    def configure_stream(self) -> Ask:
        stream, config = self._stream(), self._config()
        return lambda: self._engine.perform(configured(stream, config))

    def delete_stream(self) -> Ask:
        stream = self._stream()
        return lambda: self._engine.perform(DeleteStream(stream))

    def set_counters(self) -> Ask:
        stream, ahead = self._stream(), self._random.randint(0, 3)
        known_stream = self._find(stream)
        last_id = (
            known_stream.last_id._replace(ms=known_stream.last_id.ms + ahead)
            if known_stream is not None
            else MIN_ID
        )
        added = self._random.choice([None, 1_000])
        return lambda: self._engine.perform(SetCounters(stream, last_id, added))

    def expire_stream(self) -> Ask:
        stream, ttl_ms = self._stream(), self._random.choice([None, 50, 2_000, 100_000])
        if ttl_ms is None:
            return lambda: self._engine.perform(PersistStream(stream))
        return lambda: self._engine.perform(ExpireStream(stream, ttl_ms))

    def rename(self) -> Ask:
        stream, to = self._stream(), self._random.choice([b"a", b"b", b"c", b"d"])
        return lambda: self._engine.perform(RenameStream(stream, to))

    def set_defaults(self) -> Ask:
        request = ChangeDefaults(
            node_entries_max=self._random.choice([1, 3, 5, 8, 100]),
            node_bytes_max=self._random.choice([0, 60, 4096]),
            idempotency_window_ms=self._random.choice([300, 100_000]),
            idempotency_max=self._random.choice([2, 100]),
        )
        return lambda: self._engine.perform(request)

    # Groups and consumers

    def create_group(self) -> Ask:
        stream, group = self._names()
        start = GroupStart(self._random.choice([None, MIN_ID, MIN_ID, self._id(stream)]))
        policy = self._policy() if self._random.random() < 0.5 else NO_POLICY
        return lambda: self._engine.perform(
            CreateGroup(stream, group, start, create_stream=True, policy=policy)
        )

    def set_policy(self) -> Ask:
        stream, group = self._names()
        policy = self._policy()
        return lambda: self._engine.perform(acting_by(stream, group, policy))

    def redrive(self) -> Ask:
        stream, group = self._names()
        limit = self._random.choice([1, 5])
        return lambda: self._engine.perform(Redrive(stream, group, limit=limit))

    def set_group(self) -> Ask:
        stream, group = self._names()
        start = GroupStart(self._random.choice([None, MIN_ID, self._id(stream)]))
        return lambda: self._engine.perform(moved(stream, group, start))

    def destroy_group(self) -> Ask:
        stream, group = self._names()
        return lambda: self._engine.perform(DestroyGroup(stream, group))

    def create_consumer(self) -> Ask:
        stream, group = self._names()
        consumer = self._consumer()
        return lambda: self._engine.perform(CreateConsumer(stream, group, consumer))

    def delete_consumer(self) -> Ask:
        stream, group = self._names()
        consumer, release = self._consumer(), self._random.random() < 0.5
        return lambda: self._engine.perform(
            DeleteConsumer(stream, group, consumer, release=release)
        )

    # Deliveries

    def read_group(self) -> Ask:
        stream, group = self._names()
        random = self._random
        after = self._id(stream) if random.random() < 0.15 else None
        cursors = [GroupCursor(stream, after)]
        if random.random() < 0.1:
            cursors.append(GroupCursor(self._stream()))
        request = ReadGroup(
            group,
            self._consumer(),
            cursors,
            limit=random.choice([None, 1, 2, 5]),
            claim_idle_ms=random.choice([None, None, *IDLE_MS]),
            no_ack=random.random() < 0.1,
            max_pending=random.choice([None, None, None, 3]),
            size_bytes_max=random.choice([None, None, 100]),
            claim_own=random.random() < 0.7,
        )
        self.reader = None if after is not None else (group, request.consumer)
        wait_ms = random.choice(WAITS_MS)
        acked = self._pending(stream, group) if random.random() < 0.2 else []
        return lambda: self._engine.perform(replace(request, wait_ms=wait_ms, acked=acked))

    def ack(self) -> Ask:
        stream, group = self._names()
        ids, consumer = self._pending(stream, group), self._random.choice([None, self._consumer()])
        return lambda: self._engine.perform(Ack(stream, group, ids, consumer=consumer))

    def nack(self) -> Ask:
        stream, group = self._names()
        ids, mode = self._pending(stream, group), self._random.choice([*NackMode])
        delay_ms = self._random.choice([None, None, 0, 20, 1_000])
        request = Nack(stream, group, ids, mode, delay_ms, self._random.choice([None, b"timeout"]))
        return lambda: self._engine.perform(request)

    def nack_by_force(self) -> Ask:
        stream, group = self._names()
        ids = self._ids(stream)
        request = Nack(
            stream, group, ids, NackMode.FAIL, retry_count=2, force=True, by_policy=False
        )
        return lambda: self._engine.perform(request)

    def ack_and_delete(self) -> Ask:
        stream, group = self._names()
        ids, references = self._pending(stream, group), self._random.choice([*References])
        return lambda: self._engine.perform(AckAndDelete(stream, group, ids, references))

    def extend(self) -> Ask:
        stream, group = self._names()
        ids, consumer = self._pending(stream, group), self._consumer()
        return lambda: self._engine.perform(Extend(stream, group, ids, consumer=consumer))

    def claim(self) -> Ask:
        stream, group = self._names()
        ids, consumer = self._pending(stream, group), self._consumer()
        request = Claim(
            stream,
            group,
            consumer,
            ids,
            self._random.choice(IDLE_MS),
            idle_ms=self._random.choice([None, 700]),
            retry_count=self._random.choice([None, 7]),
            force=self._random.random() < 0.3,
            just_id=self._random.random() < 0.3,
        )
        return lambda: self._engine.perform(request)

    def autoclaim(self) -> Ask:
        stream, group = self._names()
        consumer, idle_ms = self._consumer(), self._random.choice(IDLE_MS)
        just_id = self._random.random() < 0.3
        return lambda: self._engine.perform(
            Autoclaim(stream, group, consumer, min_idle_ms=idle_ms, limit=3, just_id=just_id)
        )

    def give_back(self) -> Ask:
        stream, group = self._names()
        counts = dict.fromkeys(self._pending(stream, group), 1)
        consumer = self._consumer()
        return lambda: self._engine.perform(GiveBack(stream, group, consumer, counts))

    # Many at once, and questions

    def perform_all(self) -> Ask:
        requests = [self._part() for _ in range(self._random.randint(1, 4))]
        steps: list[Step[Any]] = [partial(_decided, request) for request in requests]
        if self._random.random() < 0.1:
            steps.insert(self._random.randint(0, len(steps)), _mistaken)
        if self._random.random() < self.poison_chance:
            steps.append(_poisonous)
        if len(steps) == len(requests):
            return lambda: self._engine.perform_all(requests)
        return lambda: self._engine._executor.run_all(steps)

    def _part(self) -> Request[Any]:
        stream, group = self._names()
        ids, drafts, consumer = self._pending(stream, group), self._drafts(), self._consumer()
        to = self._random.choice([b"a", b"b", b"c", b"d"])
        request = ReadGroup(group, consumer, [GroupCursor(stream)], limit=2)

        return self._random.choice(
            [
                Add(stream, drafts),
                Add(stream, drafts),
                Ack(stream, group, ids),
                request,
                Delete(stream, ids),
                RenameStream(stream, to),
                ExpireStream(stream, 100),
                DeleteStream(stream),
            ]
        )

    def read_group_plainly(self) -> Ask:
        stream, group = self._names()
        consumer, wait_ms = self._consumer(), self._random.choice(WAITS_MS)
        cursors = [GroupCursor(stream)]
        request = ReadGroup(group, consumer, cursors, limit=2, wait_ms=wait_ms, by_policy=False)
        return lambda: self._engine.perform(request)

    def look(self) -> Ask:
        stream, group = self._names()
        requests: list[Request[Any]] = [
            ListStreams(),
            DescribeStream(stream),
            DetailStream(stream, count=None),
            ListGroups(stream),
            DescribeGroup(stream, group),
            ListConsumers(stream, group),
            DescribeConsumer(stream, group, self._consumer()),
            ListPending(stream, group),
            SumPending(stream, group),
            InspectStream(stream),
        ]
        return partial(self._engine.perform, self._random.choice(requests))

    def start_rewrite(self) -> Ask:
        async def start() -> bool:
            journal = self._engine.storage
            assert isinstance(journal, Journal)
            return journal.start_rewrite()

        return start


def _decided(request: Request[Any], keyspace: Keyspace, now_ms: int) -> Decision[Any]:
    return decide(keyspace, request, now_ms)


def _mistaken(keyspace: Keyspace, now_ms: int) -> Decision[Any]:
    raise StepError("a mistake in a step")


def _poisonous(keyspace: Keyspace, now_ms: int) -> Decision[Any]:
    return Decision(None, [c.StreamTrimmed(b"missing", MIN_ID)])


def name_of(error: StreamError) -> str:
    """Return an error as a trace shows it."""
    return f"{type(error).__name__}: {error}"
