"""Workload: requests chosen by a seed, of every kind that leaves a trace in the state.

A request is made of what the engine holds at the moment, so that most of them mean something. Two
engines in the same state are thus asked the same by the same seed, and must answer the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any

from msgspec.structs import replace

from headgate.engine.config import NO_POLICY, GroupPolicy, StreamConfig
from headgate.engine.engine import Engine
from headgate.engine.entry import MAX_ID, MIN_ID, Draft, EntryId, PartialId
from headgate.engine.errors import StreamError
from headgate.engine.requests import Request, deliveries, entries, groups, keyspace, streams
from headgate.engine.requests.bulk import CommitBatch
from headgate.engine.requests.deliveries import GroupCursor, NackMode
from headgate.engine.requests.entries import From, References, StreamCursor, TrimTo
from headgate.engine.requests.groups import GroupStart
from headgate.engine.requests.idempotency import Digest, Idempotent
from headgate.engine.requests.schedules import (
    AwaitSchedules,
    DeleteSchedule,
    PassSchedule,
    RunSchedule,
    SetSchedule,
)
from headgate.engine.requests.streams import AttributeChange, ChangeAttributes
from headgate.engine.schedules import Definition, Refusal
from headgate.engine.state.stream import Stream
from tests.changes import acting_by, configured, moved
from tests.virtual_time import ManualClock

STREAMS = [b"a", b"a", b"a", b"b", b"c"]
GROUPS = [b"g", b"g", b"h"]
CONSUMERS = [b"x", b"y", b"z"]
KEYS = [b"k1", b"k2", b"k3"]
SCHEDULES = [b"hourly", b"nightly"]
IDLE_MS = [0, 1, 20, 500]
SMALL_NODES = keyspace.ChangeDefaults(node_bytes_max=0, node_entries_max=4, idempotency_max=6)
"""Chunks that are sealed after four entries: soon there are many, and some mostly dead."""

Reader = tuple[bytes, bytes]
"""A group, and a consumer of it."""
Ask = Callable[[], Awaitable[Any]]
Make = Callable[[], Request[Any] | Ask]
"""Makes a request, or what else is asked of an engine."""


class Requests:
    """Makes requests, each of what there is."""

    waits_ms: Sequence[int | None] = [0]
    """Times for which reads wait."""

    def __init__(self, engine: Engine, random: Random, serial: int) -> None:
        self.serial = serial  # of the next entry: all entries differ
        self._engine = engine
        self._random = random
        self.reader: Reader | None = None  # of the last request, if it reads as one

    def kinds(self) -> dict[str, tuple[int, Make]]:
        """Return the kinds of requests, with how often they come."""
        stream, names, choice = self._stream, self._names, self._random.choice
        return {
            "add": (24, self.add),
            "add_once": (8, self.add_once),
            "commit_batch": (5, self.commit_batch),
            "read_group": (20, self.read_group),
            "read": (5, self.read),
            "ack": (10, self.ack),
            "nack": (4, self.nack),
            "nack_by_force": (2, self.nack_by_force),
            "set_policy": (3, lambda: acting_by(*names(), self._policy())),
            "redrive": (2, lambda: deliveries.Redrive(*names(), limit=choice([1, 5]))),
            "extend": (3, self.extend),
            "claim": (4, self.claim),
            "autoclaim": (4, self.autoclaim),
            "give_back": (1, self.give_back),
            "ack_and_delete": (3, self.ack_and_delete),
            "create_group": (6, self.create_group),
            "set_group": (2, self.set_group),
            "destroy_group": (1, lambda: groups.DestroyGroup(*names())),
            "create_consumer": (2, lambda: groups.CreateConsumer(*names(), self._consumer())),
            "delete_consumer": (2, self.delete_consumer),
            "create_stream": (2, lambda: streams.CreateStream(stream(), self._config())),
            "configure_stream": (3, lambda: configured(stream(), self._config())),
            "delete_stream": (1, lambda: streams.DeleteStream(stream())),
            "delete": (5, self.delete),
            "trim": (4, lambda: entries.Trim(stream(), self._trim())),
            "set_counters": (2, self.set_counters),
            "expire_stream": (2, self.expire_stream),
            "rename": (
                1,
                lambda: keyspace.RenameStream(stream(), choice([b"a", b"b", b"c", b"d"])),
            ),
            "set_defaults": (1, self.set_defaults),
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

    def _live_ids(self, stream: bytes) -> list[EntryId]:
        known_stream = self._find(stream)
        return [] if known_stream is None else known_stream.log.ids(MIN_ID, MAX_ID)

    def _id(self, stream: bytes) -> EntryId:
        live = self._live_ids(stream)
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
        return [self.draft() for _ in range(self._random.choice([1, 1, 1, 2, 5]))]

    def draft(self) -> Draft:
        """Return an entry that no other is equal to."""
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

    def add(self) -> Request[Any]:
        stream, drafts = self._stream(), self._drafts()
        trim = self._trim() if self._random.random() < 0.15 else None
        known = self._find(stream)
        is_expected = known is not None and self._random.random() < 0.1
        last_id = known.last_id if known is not None and is_expected else None
        return entries.Add(stream, drafts, expected_last_id=last_id, trim=trim)

    def add_once(self) -> Request[Any]:
        stream, drafts = self._stream(), self._drafts()
        digest = Digest()
        for draft in drafts if self._random.random() < 0.2 else ():
            digest.add(draft.fields)
        key = Idempotent(self._consumer(), self._random.choice(KEYS), digest.value())
        return entries.Add(stream, drafts, key)

    def commit_batch(self) -> Request[Any]:
        wanted = {self._stream(): self._drafts() for _ in range(self._random.randint(0, 2))}
        return CommitBatch(self._consumer(), self._random.randint(0, self.serial), wanted)

    def read(self) -> Request[Any]:
        stream = self._stream()
        places: list[EntryId | From] = [self._id(stream), From.NOW, From.LAST]
        cursors = [StreamCursor(stream, self._random.choice(places))]
        wait_ms, missing_ok = self._random.choice(self.waits_ms), self._random.random() < 0.5
        if self._random.random() < 0.3:
            cursors.append(StreamCursor(self._stream(), From.NOW))
        return entries.Read(cursors, limit=5, wait_ms=wait_ms, missing_ok=missing_ok)

    def delete(self) -> Request[Any]:
        stream, references = self._stream(), self._random.choice([*References])
        return entries.Delete(stream, self._ids(stream), references)

    # Streams

    def set_counters(self) -> Request[Any]:
        stream, ahead = self._stream(), self._random.randint(0, 3)
        known = self._find(stream)
        last_id = known.last_id._replace(ms=known.last_id.ms + ahead) if known else MIN_ID
        return keyspace.SetCounters(stream, last_id, self._random.choice([None, 1_000]))

    def expire_stream(self) -> Request[Any]:
        stream, ttl_ms = self._stream(), self._random.choice([None, 50, 2_000, 100_000])
        if ttl_ms is None:
            return keyspace.PersistStream(stream)
        return keyspace.ExpireStream(stream, ttl_ms)

    def set_defaults(self) -> Request[Any]:
        return keyspace.ChangeDefaults(
            node_entries_max=self._random.choice([1, 3, 5, 8, 100]),
            node_bytes_max=self._random.choice([0, 60, 4096]),
            idempotency_window_ms=self._random.choice([300, 100_000]),
            idempotency_max=self._random.choice([2, 100]),
        )

    # Groups and consumers

    def create_group(self) -> Request[Any]:
        stream, group = self._names()
        start = GroupStart(self._random.choice([None, MIN_ID, MIN_ID, self._id(stream)]))
        policy = self._policy() if self._random.random() < 0.5 else NO_POLICY
        return groups.CreateGroup(stream, group, start, create_stream=True, policy=policy)

    def set_group(self) -> Request[Any]:
        stream, group = self._names()
        start = GroupStart(self._random.choice([None, MIN_ID, self._id(stream)]))
        return moved(stream, group, start)

    def delete_consumer(self) -> Request[Any]:
        names = *self._names(), self._consumer()
        return groups.DeleteConsumer(*names, release=self._random.random() < 0.5)

    # Deliveries

    def read_group(self) -> Request[Any]:
        stream, group = self._names()
        random = self._random
        after = self._id(stream) if random.random() < 0.15 else None
        cursors = [GroupCursor(stream, after)]
        if random.random() < 0.1:
            cursors.append(GroupCursor(self._stream()))
        request = deliveries.ReadGroup(
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
        wait_ms = random.choice(self.waits_ms)
        acked = self._pending(stream, group) if random.random() < 0.2 else []
        return replace(request, wait_ms=wait_ms, acked=acked)

    def ack(self) -> Request[Any]:
        names = self._names()
        ids, consumer = self._pending(*names), self._random.choice([None, self._consumer()])
        return deliveries.Ack(*names, ids, consumer=consumer)

    def nack(self) -> Request[Any]:
        names = self._names()
        ids, mode = self._pending(*names), self._random.choice([*NackMode])
        delay_ms = self._random.choice([None, None, 0, 20, 1_000])
        error = self._random.choice([None, b"timeout"])
        return deliveries.Nack(*names, ids, mode, delay_ms, error)

    def nack_by_force(self) -> Request[Any]:
        names = self._names()
        options: dict[str, Any] = {"retry_count": 2, "force": True, "by_policy": False}
        return deliveries.Nack(*names, self._ids(names[0]), NackMode.FAIL, **options)

    def ack_and_delete(self) -> Request[Any]:
        names = self._names()
        ids, references = self._pending(*names), self._random.choice([*References])
        return deliveries.AckAndDelete(*names, ids, references)

    def extend(self) -> Request[Any]:
        names = self._names()
        return deliveries.Extend(*names, self._pending(*names), consumer=self._consumer())

    def claim(self) -> Request[Any]:
        names = self._names()
        ids, consumer = self._pending(*names), self._consumer()
        return deliveries.Claim(
            *names,
            consumer,
            ids,
            self._random.choice(IDLE_MS),
            idle_ms=self._random.choice([None, 700]),
            retry_count=self._random.choice([None, 7]),
            force=self._random.random() < 0.3,
            just_id=self._random.random() < 0.3,
        )

    def autoclaim(self) -> Request[Any]:
        names = *self._names(), self._consumer()
        idle_ms, just_id = self._random.choice(IDLE_MS), self._random.random() < 0.3
        return deliveries.Autoclaim(*names, min_idle_ms=idle_ms, limit=3, just_id=just_id)

    def give_back(self) -> Request[Any]:
        names = self._names()
        counts = dict.fromkeys(self._pending(*names), 1)
        return deliveries.GiveBack(*names, self._consumer(), counts)

    # Schedules, attributes, ends

    def set_schedule(self) -> Request[Any]:
        name = self._random.choice(SCHEDULES)
        known = self._engine.keyspace.schedules.by_name.get(name)
        definition = Definition(self._stream(), (b"f", b"1"), "* * * * *", "UTC")
        due_ms = self._random.choice([None, self._engine._executor.now_ms() + 5])
        return SetSchedule(name, definition, due_ms, 0 if known is None else known.revision)

    def run_schedule(self) -> Request[Any]:
        """Run or pass a schedule that has a due time, or refuse it; or ask what is due."""
        known = [*self._engine.keyspace.schedules.by_name.values()]
        if (
            not known
            or (due_ms := (info := self._random.choice(known)).progress.next_due_ms) is None
        ):
            return AwaitSchedules(b"me", 1)
        if self._random.random() < 0.3:
            refusal = self._random.choice([None, Refusal("limit_reached", "no", due_ms)])
            return PassSchedule(info.name, info.revision, due_ms, due_ms + 7, refusal=refusal)
        stream = info.definition.stream
        return RunSchedule(info.name, stream, info.revision, due_ms, due_ms, due_ms + 7)

    def change_attributes(self) -> Request[Any]:
        value = self._random.choice([None, b"", b"1", b"\xff" * 20])
        change = AttributeChange({self._random.choice([b"a", b"b", b"c"]): value})
        if self._random.random() < 0.3:
            return entries.Add(self._stream(), self._drafts(), attributes=change)
        return ChangeAttributes(self._stream(), change)


class Workload(Requests):
    """A client that does what comes to its mind."""

    def __init__(self, engine: Engine, clock: ManualClock, seed: int) -> None:
        super().__init__(engine, Random(seed), 0)
        self._clock = clock
        self._kinds = self.kinds() | {
            "set_schedule": (2, self.set_schedule),
            "run_schedule": (4, self.run_schedule),
            "delete_schedule": (1, lambda: DeleteSchedule(self._random.choice(SCHEDULES))),
            "change_attributes": (3, self.change_attributes),
            "close_stream": (1, lambda: streams.CloseStream(b"c", self._drafts())),
        }
        self._weights = [weight for weight, _ in self._kinds.values()]

    async def begin(self) -> None:
        """Make chunks small; recorded as everything."""
        await self._engine.perform(SMALL_NODES)

    async def run(self, count: int) -> list[Any]:
        """Send so many requests; returns what each was answered."""
        return [await self.step() for _ in range(count)]

    async def step(self) -> Any:
        """Send a request; returns its reply, or its error as text."""
        self._clock.now_ms += self._random.choice([0, 0, 1, 1, 7, -3])
        [(_, make)] = self._random.choices([*self._kinds.values()], self._weights)
        request: Any = make()
        try:
            return await self._engine.perform(request)
        except StreamError as error:
            return f"{type(error).__name__}: {error}"
