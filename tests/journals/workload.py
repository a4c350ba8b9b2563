"""Workload: commands at random, of every kind that leaves a trace in the state.

It knows the state it runs against and chooses from it, so two engines that are in the same state
are asked the same by the same seed, and must answer the same.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

from headgate.engine.config import GroupPolicy, StreamConfig
from headgate.engine.engine import Engine
from headgate.engine.entry import MAX_ID, MIN_ID, Draft, EntryId
from headgate.engine.errors import StreamError
from headgate.engine.requests.attributes import AttributeChange, ChangeAttributes
from headgate.engine.requests.bulk import CommitBatch
from headgate.engine.requests.deliveries import (
    Ack,
    Claim,
    GroupCursor,
    Nack,
    NackMode,
    ReadGroup,
    Redrive,
)
from headgate.engine.requests.entries import Add, Delete, Trim, TrimTo
from headgate.engine.requests.groups import CreateGroup, DeleteConsumer, GroupStart
from headgate.engine.requests.idempotency import Idempotent
from headgate.engine.requests.keyspace import ChangeDefaults, ExpireStream
from headgate.engine.requests.schedules import (
    AwaitSchedules,
    DeleteSchedule,
    PassSchedule,
    RunSchedule,
    SetSchedule,
)
from headgate.engine.requests.streams import CloseStream, DeleteStream
from headgate.engine.schedules.definition import Definition
from headgate.engine.schedules.progress import Refusal
from tests.changes import acting_by, configured
from tests.virtual_time import ManualClock

STREAMS = [b"a", b"b", b"c"]
SCHEDULES = [b"hourly", b"nightly"]
GROUPS = [b"g", b"h"]
CONSUMERS = [b"x", b"y", b"z"]
SMALL_NODES = ChangeDefaults(node_bytes_max=0, node_entries_max=4, idempotency_max=6)
"""Chunks that are sealed after four entries: soon there are many, and some mostly dead."""


class Workload:
    """A client that does what comes to its mind."""

    def __init__(self, engine: Engine, clock: ManualClock, seed: int) -> None:
        self._engine = engine
        self._clock = clock
        self._random = random.Random(seed)
        self._commands: dict[Callable[[], Awaitable[Any]], int] = {
            self._add: 30,
            self._add_under_key: 10,
            self._commit_batch: 4,
            self._read_group: 20,
            self._ack: 8,
            self._nack: 8,
            self._claim: 5,
            self._delete: 12,
            self._trim: 2,
            self._create_group: 4,
            self._set_policy: 2,
            self._redrive: 1,
            self._delete_consumer: 1,
            self._configure: 2,
            self._expire: 1,
            self._delete_stream: 1,
            self._close_stream: 1,
            self._set_schedule: 2,
            self._run_schedule: 4,
            self._delete_schedule: 1,
            self._change_attributes: 3,
        }

    async def begin(self) -> None:
        """Make chunks small; recorded as everything."""
        await self._engine.perform(SMALL_NODES)

    async def run(self, count: int) -> list[Any]:
        """Give so many commands; returns what each was answered."""
        return [await self.step() for _ in range(count)]

    async def step(self) -> Any:
        """Give a command; returns its reply, or its error as text."""
        self._clock.now_ms += self._random.choice([0, 0, 1, 1, 7, -3])
        [command] = self._random.choices(list(self._commands), list(self._commands.values()))
        try:
            return await command()
        except StreamError as error:
            return f"{type(error).__name__}: {error}"

    def _stream(self) -> bytes:
        return self._random.choices(STREAMS, [6, 3, 1])[0]

    def _group(self) -> bytes:
        return self._random.choices(GROUPS, [3, 1])[0]

    def _drafts(self) -> list[Draft]:
        value = b"%d" % self._random.randrange(1000)
        fields = self._random.choice([(b"f", value), (b"f", value, b"f", b""), (b"\xff", value)])
        return [Draft(None, fields)] * self._random.choice([1, 1, 2, 5])

    def _ids(self, stream: bytes) -> list[EntryId]:
        """Return up to three ids of live entries, the old ones more often."""
        known_stream = self._engine.keyspace.find(stream)
        ids = (
            [entry.id for entry in known_stream.log.range(MIN_ID, MAX_ID, 30)]
            if known_stream
            else []
        )
        return self._random.sample(ids, min(len(ids), 3)) or [EntryId(1, 1)]

    def _pending(self, stream: bytes, group: bytes) -> list[EntryId]:
        """Return up to three ids of pending entries."""
        known_stream = self._engine.keyspace.find(stream)
        known = known_stream.groups.get(group) if known_stream else None
        ids = [entry.id for entry in known.pel.walk()] if known else []
        return self._random.sample(ids, min(len(ids), 3)) or [EntryId(1, 1)]

    async def _add(self) -> Any:
        return (await self._engine.perform(Add(self._stream(), self._drafts()))).ids

    async def _add_under_key(self) -> Any:
        producer = self._random.choice([b"", b"p"])
        key = Idempotent(producer, b"%d" % self._random.randrange(12))
        return await self._engine.perform(Add(self._stream(), self._drafts(), key))

    async def _commit_batch(self) -> Any:
        wanted = {self._stream(): self._drafts() for _ in range(self._random.randrange(3))}
        writer, batch = self._random.choice([b"u", b"v"]), self._random.randrange(30)
        return await self._engine.perform(CommitBatch(writer, batch, wanted))

    async def _read_group(self) -> Any:
        request = ReadGroup(
            self._group(),
            self._random.choice(CONSUMERS),
            [GroupCursor(self._stream(), self._random.choice([None, None, None, MIN_ID]))],
            limit=self._random.choice([1, 3, 8]),
            claim_idle_ms=self._random.choice([None, None, 5]),
        )
        return await self._engine.perform(request)

    async def _set_schedule(self) -> Any:
        name = self._random.choice(SCHEDULES)
        known = self._engine.keyspace.schedules.by_name.get(name)
        definition = Definition(self._stream(), (b"f", b"1"), "* * * * *", "UTC")
        due_ms = self._random.choice([None, self._clock.now_ms + 5])
        revision = 0 if known is None else known.revision
        return await self._engine.perform(SetSchedule(name, definition, due_ms, revision))

    async def _run_schedule(self) -> Any:
        """Run or pass what is due first, or refuse it."""
        due = (await self._engine.perform(AwaitSchedules(b"me", 1))).schedules
        if not due:
            return None
        name, _, revision, definition, progress = due[0]
        due_ms = progress.next_due_ms
        assert due_ms is not None
        if self._random.random() < 0.3:
            refusal = self._random.choice([None, Refusal("limit_reached", "no", due_ms)])
            passing = PassSchedule(name, revision, due_ms, due_ms + 7, refusal=refusal)
            return await self._engine.perform(passing)
        run = RunSchedule(name, definition.stream, revision, due_ms, due_ms, due_ms + 7)
        return await self._engine.perform(run)

    async def _delete_schedule(self) -> Any:
        return await self._engine.perform(DeleteSchedule(self._random.choice(SCHEDULES)))

    async def _ack(self) -> Any:
        stream, group = self._stream(), self._group()
        return await self._engine.perform(Ack(stream, group, self._pending(stream, group)))

    async def _nack(self) -> Any:
        stream, group, mode = self._stream(), self._group(), self._random.choice(list(NackMode))
        ids, delay_ms = self._pending(stream, group), self._random.choice([None, None, 5, 60])
        error = self._random.choice([None, b"timeout", b"refused"])
        return await self._engine.perform(Nack(stream, group, ids, mode, delay_ms, error))

    async def _claim(self) -> Any:
        stream, group = self._stream(), self._group()
        ids, min_idle_ms = self._pending(stream, group), self._random.choice([0, 10])
        consumer = self._random.choice(CONSUMERS)
        return await self._engine.perform(Claim(stream, group, consumer, ids, min_idle_ms))

    async def _delete(self) -> Any:
        stream = self._stream()
        return await self._engine.perform(Delete(stream, self._ids(stream)))

    async def _trim(self) -> Any:
        request = TrimTo(self._random.randrange(40), approximate=self._random.random() < 0.5)
        return await self._engine.perform(Trim(self._stream(), request))

    async def _create_group(self) -> Any:
        start = GroupStart(self._random.choice([MIN_ID, None]))
        return await self._engine.perform(CreateGroup(self._stream(), self._group(), start))

    async def _set_policy(self) -> Any:
        max_deliveries = self._random.choice([None, None, 2, 4])
        policy = GroupPolicy(
            claim_idle_ms=self._random.choice([None, 20]),
            max_deliveries=max_deliveries,
            dead_letter_stream=None if max_deliveries is None else b"dead",
            backoff_ms=self._random.choice([(), (5, 40)]),
            max_pending=self._random.choice([None, 12]),
            on_disconnect=self._random.random() < 0.5,
            consumer_ttl_ms=self._random.choice([None, None, 100]),
        )
        return await self._engine.perform(acting_by(self._stream(), self._group(), policy))

    async def _redrive(self) -> Any:
        limit = self._random.choice([1, 3])
        return await self._engine.perform(Redrive(self._stream(), self._group(), limit=limit))

    async def _delete_consumer(self) -> Any:
        return await self._engine.perform(
            DeleteConsumer(
                self._stream(),
                self._group(),
                self._random.choice(CONSUMERS),
                release=self._random.random() < 0.5,
            )
        )

    async def _configure(self) -> Any:
        config = StreamConfig(
            max_length=self._random.choice([None, None, 60]),
            max_age_ms=self._random.choice([None, None, 500]),
            idempotency_max=self._random.choice([None, 4]),
        )
        return await self._engine.perform(configured(self._stream(), config))

    async def _expire(self) -> Any:
        name, delay_ms = self._stream(), self._random.choice([30, 10**6])
        return await self._engine.perform(ExpireStream(name, delay_ms))

    async def _close_stream(self) -> Any:
        last = [Draft(None, (b"n", b"last"))] * self._random.randint(0, 1)
        return await self._engine.perform(CloseStream(b"c", last))

    async def _change_attributes(self) -> Any:
        value = self._random.choice([None, b"", b"1", b"\xff" * 20])
        change = AttributeChange({self._random.choice([b"a", b"b", b"c"]): value})
        stream, kind = self._stream(), self._random.randrange(3)
        if kind == 0:
            return await self._engine.perform(Add(stream, self._drafts(), attributes=change))
        return await self._engine.perform(ChangeAttributes(stream, change))

    async def _delete_stream(self) -> Any:
        return await self._engine.perform(DeleteStream(b"c"))
