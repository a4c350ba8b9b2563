"""Rounds: gateways on one bucket, with faults, and the promises that hold all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from headgate.engine.bucket.attachment import attach
from headgate.engine.bucket.curator import Retention
from headgate.engine.bucket.replication import Replication, ReplicationOptions
from headgate.engine.engine import Engine
from headgate.engine.entry import MAX_ID, MIN_ID, Draft, EntryId
from headgate.engine.errors import LeaseLost, StreamError
from headgate.engine.journal import recovery
from headgate.engine.journal.journal import Journal
from headgate.engine.journal.rewrites import Growth
from headgate.engine.journal.writer import FsyncPolicy
from headgate.engine.requests import Request
from headgate.engine.requests.deliveries import Ack, GroupCursor, ReadGroup
from headgate.engine.requests.entries import Add, Range
from headgate.engine.requests.groups import CreateGroup, GroupStart
from headgate.engine.state.keyspace import Keyspace
from tests.buckets.world import Host, Store, World, WorldBucket
from tests.journals.memory_disk import MemoryDisk

LEASE_MS = 3_000
STREAM, GROUP = b"orders", b"billing"


class Answered(NamedTuple):
    """A change that was acknowledged."""

    at_s: float
    term: int
    host: str
    value: bytes | None  # of an append
    id: EntryId | None  # likewise
    acked: EntryId | None


@dataclass
class Member:
    """A gateway, started again and again on its directory."""

    world: World
    store: Store
    name: str
    options: ReplicationOptions
    answered: list[Answered]
    disk: MemoryDisk = field(default_factory=MemoryDisk)
    life: int = 0
    host: Host | None = None
    replication: Replication | None = None
    engine: Engine | None = None
    task: asyncio.Task[None] | None = None
    events: list[tuple[str, Any]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)  # though it had just begun to lead
    seen: set[bytes] = field(default_factory=set)  # values that were read here

    def start(self) -> None:
        """Start on the directory as it is."""
        self.life += 1
        host = self.host = Host(self.world, self.name)
        bucket = WorldBucket(self.store, host)
        directory = self.disk
        attached = attach(directory, bucket)
        replication = self.replication = Replication(
            *(bucket, directory, attached, host, self.options),
            holder=f"{attached.marker.writer}@{self.name}",
            on_event=self._note,
        )

        async def rewrite(through: int, _: object) -> None:
            recovery.rewrite(attached.disk, through)

        journal = Journal(
            attached.disk,
            FsyncPolicy.ALWAYS,
            rewrite,
            position=attached.loaded.position,
            torn=attached.loaded.torn,
            growth=Growth(100, 3_000),
            shipping=replication,
            chance=Random(self.world.random.random()),
            on_event=self._note,
        )
        self.engine = Engine(journal, keyspace=attached.loaded.keyspace, clock=host)
        self.task = host.loop.create_task(self._run(self.engine))
        host.loop.create_task(self._look_first(self.engine, replication))
        self.world.say(f"{self.name} starts")

    async def _look_first(self, engine: Engine, replication: Replication) -> None:
        """Look whether changes are taken as soon as this gateway leads: it makes some itself."""
        await replication.leads.wait()
        if engine.refusal is not None:
            self.refused.append(engine.refusal)

    async def _run(self, engine: Engine) -> None:
        try:
            await engine.run()
        except* LeaseLost as errors:
            self.world.say(f"{self.name} ends: {errors.exceptions[0]}")

    def _note(self, event: str, facts: Any) -> None:
        self.events.append((event, facts))
        self.world.say(f"{self.name} {event} {dict(facts)}")

    def kill(self, *, power: bool = False) -> None:
        """End the process; the directory stays, without what was not synced if power goes."""
        if self.host is None:
            return
        self.world.say(f"{self.name} is killed")
        self.host.kill()
        if power:
            self.disk.lose_power()
        self.disk = self.disk.copy()
        self.host = self.engine = self.replication = self.task = None

    @property
    def has_ended(self) -> bool:
        return self.task is not None and self.task.done()

    @property
    def leads(self) -> bool:
        return self.replication is not None and self.replication.leads.is_set()

    def ask(self, request: Request[Any], value: bytes | None = None) -> None:
        """Send a request; what is answered is noted when it is answered."""
        host, engine = self.host, self.engine
        if host is None or engine is None or self.has_ended:
            return
        host.loop.call_soon(lambda: host.loop.create_task(self._ask(host, engine, request, value)))

    async def _ask(
        self, host: Host, engine: Engine, request: Request[Any], value: bytes | None
    ) -> None:
        with suppress(StreamError):
            reply = await engine.perform(request)
            if isinstance(request, Range):
                self.seen.update(bytes(entry.fields[1]) for entry in reply)
                return
            term = 0 if self.replication is None else self.replication.status.term
            now_s = self.world.now_s
            if value is not None:
                entry_id = reply.ids[0]
                self.answered.append(Answered(now_s, term, host.name, value, entry_id, None))
            elif isinstance(request, ReadGroup):
                for entry_id in [delivery.id for read in reply for delivery in read.deliveries]:
                    await engine.perform(Ack(STREAM, GROUP, [entry_id]))
                    noted = Answered(self.world.now_s, term, host.name, None, None, entry_id)
                    self.answered.append(noted)


class Round:
    """One seed: two gateways, and a client of each."""

    def __init__(self, seed: int, *, is_durable: bool, error_chance: float | None = None) -> None:
        self.world = World(seed)
        random = self.world.random
        chance = random.choice([0.0, 0.02, 0.1]) if error_chance is None else error_chance
        self.store = Store(self.world, error_chance=chance)
        self.is_durable = is_durable
        options = ReplicationOptions(
            is_durable=is_durable,
            is_standby=True,
            lease_ms=LEASE_MS,
            ship_ms=100 if is_durable else 500,
            retention=Retention(1_000, joined_parts=random.choice([4, 20]), grace_ms=4 * LEASE_MS),
        )
        self.answered: list[Answered] = []
        self.members = [
            Member(self.world, self.store, name, options, self.answered) for name in "ab"
        ]
        self.number = 0
        self.is_clock_set = False

    def run(self, seconds: float = 60.0) -> None:
        """Let things go wrong for a while, and then heal."""
        random, world = self.world.random, self.world
        over_s = world.now_s + seconds
        for member in self.members:
            member.start()
        while world.now_s < over_s:
            self._work()
            if random.random() < 0.04:
                self._break(random.choice(self.members))
            self._restart()
            world.run(world.now_s + random.random())
        self.store.error_chance, self.store.away = 0.0, set()
        for member in self.members:
            if member.host is not None:
                member.host.resume()
        over_s = world.now_s + 10 * LEASE_MS / 1000
        world.run(over_s, lambda: any(self._can_write(member) for member in self.members))
        self._restart()
        world.run(world.now_s + 2 * LEASE_MS / 1000)
        world.run(world.now_s + 60, self._is_shipped)

    def close(self) -> None:
        """End both gateways for good."""
        for member in self.members:
            member.kill()
        self.world.close()

    def _is_shipped(self) -> bool:
        """Tell whether the bucket has everything, and somebody leads."""
        leaders = [member.replication for member in self.members if member.leads]
        states = [leader.status for leader in leaders if leader is not None]
        return bool(states) and all(state.unshipped_ms is None for state in states)

    @staticmethod
    def _can_write(member: Member) -> bool:
        return member.leads and member.engine is not None and member.engine.refusal is None

    def _work(self) -> None:
        for member in self.members:
            self.number += 1
            value = b"%d" % self.number
            draft = Draft(None, (b"v", value * 20))
            member.ask(Add(STREAM, [draft]), value)
            if self.number % 7 == 0:
                member.ask(Range(STREAM, reverse=True, limit=10))
            if self.number % 5 == 0:
                start = GroupStart(MIN_ID, None)
                member.ask(CreateGroup(STREAM, GROUP, start, create_stream=True))
                member.ask(ReadGroup(GROUP, b"w", [GroupCursor(STREAM)]))

    def _break(self, member: Member) -> None:
        random, world = self.world.random, self.world
        host = member.host
        if host is None:
            return
        pause_s = random.random() * 3 * LEASE_MS / 1000
        if random.random() < 0.1:  # longer than parts are kept that have been replaced
            pause_s *= 5
        match random.randrange(5):
            case 0:
                member.kill(power=random.random() < 0.5)
            case 1:
                world.say(f"{member.name} pauses for {pause_s:.1f} s")
                host.pause()
                world.at(world.now_s + pause_s, host.resume)
            case 2:
                world.say(f"{member.name} does not reach the store for {pause_s:.1f} s")
                self.store.away.add(member.name)
                world.at(world.now_s + pause_s, lambda: self.store.away.discard(member.name))
            case 3:
                self.is_clock_set = True
                host.set_ms += random.choice([-3_600_000, 3_600_000])
            case 4:
                member.kill()
                member.disk = MemoryDisk()

    def _restart(self) -> None:
        for member in self.members:
            if member.has_ended:
                member.kill()
            if member.host is None and member.name not in self.store.away:
                member.start()

    def check(self) -> Keyspace:
        """Compare the acknowledged changes with the state of another machine."""
        disk = MemoryDisk()
        there = Host(self.world, "c")
        attached = attach(disk, WorldBucket(self.store, there))
        keyspace = attached.loaded.keyspace
        there.kill()
        self.check_terms(self.answered)
        assert [member.refused for member in self.members] == [[], []]
        if self.is_durable:
            self.check_all(keyspace)
        elif not self.is_clock_set:
            self.check_reported(keyspace)
        return keyspace

    def check_reported(self, keyspace: Keyspace) -> None:
        """Readers have to be told of whatever was acknowledged and is not there."""
        values = self._values(keyspace)
        for each in self.answered:
            if each.value is not None and each.id is not None and each.value * 20 not in values:
                tails = keyspace.lost_tails
                is_reported = any(tail.first_id <= each.id <= tail.last_id for tail in tails)
                assert is_reported, f"{each} is lost, and nobody is told: {tails}"

    @staticmethod
    def _values(keyspace: Keyspace) -> set[bytes]:
        stream = keyspace.find(STREAM)
        entries = [] if stream is None else stream.log.range(MIN_ID, MAX_ID)
        return {bytes(entry.fields[1]) for entry in entries}

    @staticmethod
    def check_terms(answered: Sequence[Answered]) -> None:
        """No gateway may acknowledge after another one of a later term has."""
        latest = 0
        for each in answered:
            assert each.term >= latest, f"{each} was acknowledged after a change of term {latest}"
            latest = max(latest, each.term)

    def check_all(self, keyspace: Keyspace) -> None:
        stream = keyspace.find(STREAM)
        values = self._values(keyspace)
        for each in self.answered:
            if each.value is not None:
                assert each.value * 20 in values, f"{each} is lost"
        for member in self.members:
            assert member.seen <= values, f"{member.name} showed {member.seen - values}"
        pending = set()
        if stream is not None and GROUP in stream.groups:
            pending = set(stream.groups[GROUP].pel.by_id)
        for each in self.answered:
            assert each.acked not in pending, f"{each} is pending again"
