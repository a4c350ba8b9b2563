"""Random commits: one does what its steps do one after the other, or nothing."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from headgate.engine.config import FieldName, GroupPolicy, StreamConfig
from headgate.engine.engine import Engine
from headgate.engine.entry import MIN_ID, Draft, EntryId
from headgate.engine.errors import StreamError
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.requests import Request
from headgate.engine.requests.commits import CommitStep, CommitSteps
from headgate.engine.requests.deliveries import Ack, Claim, Extend, Nack, NackMode
from headgate.engine.requests.entries import Add
from headgate.engine.requests.groups import CreateGroup, GroupStart
from headgate.engine.requests.idempotency import Idempotent
from headgate.engine.requests.schedules import DeleteSchedule, SetSchedule
from headgate.engine.requests.streams import CloseStream, CreateStream
from headgate.engine.requests.tables import DeleteRow, PutRow, RowCondition
from headgate.engine.schedules import once
from tests.journals.records import reloaded, replayed
from tests.model.snapshot import snapshot
from tests.unit.driver import Driver, G, S, entry_id

ROUNDS = 150
STREAMS = [b"s", b"table", b"small", b"closed", b"new-1", b"new-2"]
CONSUMERS = [b"a", b"b"]


class Pair:
    """Two engines with the same history, but for commits: the other one gets their steps."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.one, self.other = Driver(), Driver()
        self.ids: dict[bytes, list[EntryId]] = {name: [] for name in STREAMS}
        self.done = self.refused = 0

    async def both(self, request: Request[object]) -> None:
        replies = [await engine.perform(request) for engine in (self.one, self.other)]
        assert replies[0] == replies[1]

    async def begin(self) -> None:
        policy = GroupPolicy(max_deliveries=2, dead_letter_stream=b"table", backoff_ms=(5,))
        await self.both(CreateStream(b"table", StreamConfig(key_field=FieldName(b"k"))))
        await self.both(CreateStream(b"small", StreamConfig(max_length=5)))
        for name in (b"s", b"table", b"small"):
            ruled = policy if name == b"s" else None
            await self.both(
                CreateGroup(name, G, GroupStart(MIN_ID), create_stream=True, policy=ruled)
            )
        await self.both(CloseStream(b"closed", self.drafts(1)))

    def drafts(self, count: int) -> list[Draft]:
        return [Draft(None, (b"k", self.key(), b"v", b"1")) for _ in range(count)]

    def key(self) -> bytes:
        return b"%d" % self.chance.randrange(4)

    def some_ids(self, name: bytes) -> list[EntryId]:
        ids = [*self.ids[name][-12:], EntryId(9, 9)]
        return self.chance.sample(ids, min(self.chance.randint(1, 3), len(ids)))

    async def read(self) -> None:
        """Deliver something, to both in the same way."""
        name, consumer = (
            self.chance.choice([b"s", b"table", b"small"]),
            self.chance.choice(CONSUMERS),
        )
        if self.chance.random() < 0.3:
            await self.both(Claim(name, G, consumer, self.some_ids(name), 0))
            return
        for engine in (self.one, self.other):
            await engine.take(consumer, 3, streams=(name,), released=True)

    def step(self, consumer: bytes) -> CommitStep:
        name = self.chance.choice(STREAMS)
        grouped = self.chance.choice([b"s", b"table", b"small"])
        condition = self.chance.choice(
            [None, None, None, RowCondition(), RowCondition(EntryId(9, 9))]
        )
        kind = self.chance.randrange(8)
        if kind <= 1:
            return Add(name, self.drafts(self.chance.randint(1, 4)))
        if kind == 2:
            return PutRow(b"table", self.key(), (b"v", b"2"), condition)
        if kind == 3:
            return DeleteRow(b"table", self.key(), condition)
        if kind == 4:
            fields, at_ms = (b"v", b"3"), self.chance.randrange(2**40, 2**41)
            timer = self.chance.choice([b"t1", b"t2"])
            if self.chance.random() < 0.5:
                return DeleteSchedule(timer)
            return SetSchedule(timer, once(b"s", fields, at_ms), at_ms, None)
        ids = self.some_ids(grouped)
        if kind == 5:
            return Extend(grouped, G, ids, consumer)
        if kind == 6:
            mode = self.chance.choice([*NackMode])
            return Nack(grouped, G, ids, mode, consumer=consumer)
        return Ack(grouped, G, ids, consumer)

    async def commit(self) -> None:
        consumer = self.chance.choice(CONSUMERS)
        steps = [self.step(consumer) for _ in range(self.chance.choice([1, 1, 2, 3, 6]))]
        before = snapshot(self.one.keyspace)
        try:
            done = await self.one.perform(CommitSteps(steps))
        except StreamError:
            self.refused += 1
            assert snapshot(self.one.keyspace) == before
            return
        self.done += 1
        for step, ids in zip(steps, done.ids, strict=True):
            if isinstance(step, Add | PutRow | DeleteRow):
                self.ids[step.stream] += ids
        # Appends to a stream stand together, and dead letters come behind all steps.
        for step in sorted(steps, key=lambda each: isinstance(each, Nack)):
            for request in alone(step):
                await self.other.perform(request)
        assert snapshot(self.one.keyspace) == snapshot(self.other.keyspace)

    def pass_time(self) -> None:
        for engine in (self.one, self.other):
            engine.clock.now_ms += 7


def alone(step: CommitStep) -> list[Request[object]]:
    """Return what a step of a commit does by itself, whose conditions have held."""
    if isinstance(step, PutRow):
        return [replace(step, condition=None)]
    if isinstance(step, DeleteRow):  # in a commit it is written even if there is no row
        return [Add(step.stream, [Draft(None, (b"k", step.key, b"deleted", b"1"))])]
    return [step]


async def test_the_key_of_a_commit_without_entries_outlives_a_restart() -> None:
    engine = Driver()
    await engine.start(1)
    await engine.take(b"a")
    commit = CommitSteps([Ack(S, G, [entry_id(1)], b"a")], Idempotent(b"w", b"k", b"digest"))
    assert not (await engine.perform(commit)).is_repeat
    for keyspace in (replayed(engine), reloaded(engine.keyspace)):
        restarted = Engine(MemoryStorage(), keyspace=keyspace, clock=engine.clock)
        assert (await restarted.perform(commit)).is_repeat


@pytest.mark.parametrize("seed", range(6))
async def test_a_commit_does_what_its_steps_do_or_nothing(seed: int) -> None:
    pair = Pair(seed)
    await pair.begin()
    for _ in range(ROUNDS):
        await pair.read()
        await pair.commit()
        pair.pass_time()
    assert snapshot(replayed(pair.one)) == snapshot(pair.one.keyspace)
    assert pair.done > ROUNDS / 10
    assert pair.refused > ROUNDS / 10
