"""Pair: two gateways on a bucket, two dozen consumers, and an operator who lets gateways fail."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.buckets.gateways.shared_bucket import LOOK_S, SharedBucket
from tests.buckets.gateways.witness import Witness
from tests.processes.chaos import SETTINGS, Chaos
from tests.processes.consumers import GONE, Consumer
from tests.processes.gateway import Gateway

LEASE_MS = 2000
ASK_S = 3.0
"""Time for an answer, before the gateway that leads now is asked."""

TAKEOVER_S_MAX = 30.0
"""A takeover that takes longer has failed, also on a busy machine."""

DURABLE: Mapping[str, object] = {
    **SETTINGS,
    "log_level": "info",
    "durable": "bucket",
    "standby": True,
    "lease_ms": LEASE_MS,
    "ship_ms": 20,
    "rewrite_bytes_min": 100_000,
    "memory_bytes_max": 2**22,
}


@dataclass
class Member:
    """One of two gateways, started again and again."""

    data_dir: Path
    way: int
    lives: list[Gateway] = field(default_factory=list)
    witnessing: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def gateway(self) -> Gateway:
        return self.lives[-1]


class PairChaos(Chaos):
    """A leader and a standby. The place of the consumers is the leader."""

    settings: Mapping[str, Any] = DURABLE

    def __init__(
        self, shared: SharedBucket, data_dir: Path, rng: random.Random, rounds: int
    ) -> None:
        super().__init__(data_dir, rng, entry_count=200 * (rounds + 1))
        self.shared, self.rounds = shared, rounds
        self.members = [Member(data_dir / name, way) for way, name in enumerate("ab")]
        self.witness = Witness()
        self.takeovers_s: list[float] = []
        self._leader = self.members[0]

    async def start(self) -> None:
        for member in self.members:
            await self._begin(member)
        await self._until_led(self.members)

    async def _begin(self, member: Member) -> None:
        """Start a gateway, at times on an empty directory."""
        if member.lives and self.random.random() < 0.5:
            shutil.rmtree(member.data_dir)
        gateway = await self.shared.begin(member.data_dir, self.settings, way=member.way)
        member.lives.append(gateway)
        member.witnessing.append(asyncio.create_task(self.witness.run(gateway)))

    async def _until_led(self, members: Sequence[Member]) -> None:
        """Return once one of these gateways leads; the consumers go there."""
        async with asyncio.timeout(TAKEOVER_S_MAX):
            while (leader := await _leader_of(members)) is None:
                await asyncio.sleep(LOOK_S)
        if leader is not self._leader:
            self.note_restart()
        self._leader = leader
        self.place.url = leader.gateway.url
        self.place.is_up.set()

    async def ask_and_note(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[Any, int]:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(ASK_S):
                    return await super().ask_and_note(method, path, body, **headers)

    async def operate(self) -> None:
        """Let one of the two fail, and wait until all is well again."""
        failures = [self._kill, self._pause, *([self._cut_off] if self.shared.ways else [])]
        for number in range(self.rounds):
            await self.until_read(200 * (number + 1) - 150)
            await asyncio.sleep(self.random.random() * LEASE_MS / 1000)
            await self._heal()
            standby = next(member for member in self.members if member is not self._leader)
            of_leader = number % 4 != 3
            failure = failures[number % len(failures)]
            self.endings[f"{failure.__name__[1:]} {'leader' if of_leader else 'standby'}"] += 1
            self.note_restart()
            await failure(self._leader if of_leader else standby, standby if of_leader else None)
            self.note_restart()

    async def _heal(self) -> None:
        """Start a gateway anew that could not keep its lease, as the machine was too busy."""
        for member in self.members:
            if not member.gateway.is_running:
                self.endings["by itself"] += 1
                await self._begin(member)
        await self._until_led(self.members)

    async def _kill(self, member: Member, other: Member | None) -> None:
        await member.gateway.kill()
        await self._taken_over(other)
        await self._begin(member)

    async def _pause(self, member: Member, other: Member | None) -> None:
        """Stop a process for longer than the lease; a leader ends when it goes on."""
        paused_s = time.monotonic()
        member.gateway.signal(signal.SIGSTOP)
        await self._taken_over(other)
        longer_s = self.random.uniform(1.2, 3) * LEASE_MS / 1000
        await asyncio.sleep(max(0.0, paused_s + longer_s - time.monotonic()))
        member.gateway.signal(signal.SIGCONT)
        if other is not None:
            await self._ended(member)

    async def _cut_off(self, member: Member, other: Member | None) -> None:
        """Let the store be away for one of the two."""
        way = self.shared.ways[member.way]
        way.leave()
        await self._taken_over(other)
        await asyncio.sleep(self.random.random() * LEASE_MS / 1000)
        way.come_back()
        if other is not None:
            await self._ended(member)

    async def _ended(self, member: Member) -> None:
        """Start a gateway anew that has learnt that it leads no more."""
        await member.gateway.until_end()
        assert any('"gateway ends"' in line for line in member.gateway.log_lines)
        await self._begin(member)

    async def _taken_over(self, other: Member | None) -> None:
        """Return once the other one leads, and every second consumer has gone there."""
        if other is None:
            return
        began_s = time.monotonic()
        await self._until_led([other])
        self.takeovers_s.append(time.monotonic() - began_s)
        for consumer in self.consumers[::2]:
            _move(consumer)

    async def end(self, kind: str) -> None:
        """End both gateways."""
        del kind
        for member in self.members:
            await member.gateway.stop()
        await asyncio.gather(*(task for each in self.members for task in each.witnessing))

    def witness_violations(self) -> list[str]:
        """Return acknowledgements of a gateway behind one of a later term.

        They are sure: a request was sent after a later leader had answered another one.
        """
        term_of = {life.url: _term_of(life) for each in self.members for life in each.lives}
        wrong, acked = [], self.witness.acked
        first_s: dict[int, float] = {}
        for each in acked:
            term = term_of[each.life]
            first_s[term] = min(first_s.get(term, each.answered_s), each.answered_s)
        for each in acked:
            later = [term for term in first_s if term > term_of[each.life]]
            if any(first_s[term] < each.sent_s for term in later):
                wrong.append(f"{each} of term {term_of[each.life]} came after one of {later}")
        return wrong


async def _leader_of(members: Sequence[Member]) -> Member | None:
    for member in members:
        with suppress(httpx.TransportError):
            async with httpx.AsyncClient(base_url=member.gateway.url, timeout=1) as http:
                if (await http.get("/readyz")).status_code == 200:
                    return member
    return None


def _move(consumer: Consumer) -> None:
    """Let a consumer leave the connection to a gateway that does not lead any more."""
    for channel in consumer.channels:
        consumer.ledger.end(channel)
    with suppress(AttributeError, *GONE):  # it has none at this moment
        consumer.drop()


def _term_of(gateway: Gateway) -> int:
    """Return the term under which a gateway has led; 0: it has not."""
    for line in gateway.log_lines:
        facts = json.loads(line) if line.startswith("{") else {}
        if facts.get("event") == "leading":
            return int(facts["term"])
    return 0
