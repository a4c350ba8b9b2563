"""Several gateways over a cluster, and an operator whose servers and gateways fail."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable
from itertools import chain
from pathlib import Path
from typing import Any

from headgate.app.backends.redis.durability import DurabilityLevel
from tests.processes.chaos import LOOK_S, RETRY_S, SETTINGS, Chaos, ask_place, finish
from tests.processes.consumers import GROUP, Place
from tests.processes.gateway import Gateway
from tests.processes.key_chaos import KeyedChaos
from tests.servers.failures import FailingCluster, cut_connections, cut_tracking

GATEWAY_COUNT = 3
KEY = "headgate:orders"
SHARES_AHEAD = 2
"""Shares between two events that a writer may be ahead of the last event."""


class ClusterChaos(Chaos):
    """Gateways over a cluster, a writer, consumers at all gateways, and an operator."""

    def __init__(
        self,
        data_dir: Path,
        rng: random.Random,
        entry_count: int,
        cluster: FailingCluster,
        *,
        rounds: int,
        durability: DurabilityLevel,
        takes_over: bool,
    ) -> None:
        """Get ready.

        Args:
            data_dir: where each gateway gets a folder.
            rng: makes all choices.
            entry_count: how many entries are appended.
            cluster: keeps the streams.
            rounds: how often each event happens.
            durability: what answers wait for.
            takes_over: the replica of a primary that is killed takes over. If not, the primary
                comes back before.
        """
        super().__init__(data_dir, rng, entry_count)
        self._cluster = cluster
        self._rounds = rounds
        self._events: list[Callable[[], Awaitable[object]]] = [
            self.kill_primary,
            self.fail_over,
            self.move_slot,
            self.kill_gateway,
            self.stop_gateway,
            self.cut_tracking,
            self.cut_connections,
        ]
        self._share_count = rounds * len(self._events) + 1
        self._takes_over = takes_over
        self._settings = {**SETTINGS, "backend": cluster.url, "redis_durability": durability.value}
        self._gateways: dict[int, Gateway] = {}
        self._places = [Place() for _ in range(GATEWAY_COUNT)]
        for number, consumer in enumerate(self.consumers):
            consumer.place = self._places[number % GATEWAY_COUNT]

    async def start(self) -> None:
        """Start all gateways."""
        await asyncio.gather(*map(self._start, range(GATEWAY_COUNT)))

    async def end(self, kind: str) -> None:
        """End all gateways."""
        await asyncio.gather(*(self._end(number, kind) for number in range(GATEWAY_COUNT)))

    async def place_to_ask(self) -> Place:
        """Return the place of any gateway, once there is one."""
        while not (up := [place for place in self._places if place.is_up.is_set()]):
            await asyncio.sleep(RETRY_S)
        return self.random.choice(up)

    async def operate(self) -> None:
        """Let servers and gateways fail as the work goes on."""
        orders = [self.random.sample(self._events, len(self._events)) for _ in range(self._rounds)]
        for number, event in enumerate(chain.from_iterable(orders), 1):
            await self.until_read(number * self.entry_count // self._share_count)
            self.endings[event.__name__] += 1
            self.note_restart()
            begun_at = self.ledger.tick()
            await event()
            self.note_restart()
            self.ledger.failures.append((begun_at, self.ledger.tick()))
            print(f"{event.__name__} at {self.ledger.failures[-1]}")

    async def until_due(self, count: int) -> None:
        """Return once so many entries may be there: each failure meets consumers at work."""
        share = count * self._share_count // self.entry_count
        while share > self.endings.total() + SHARES_AHEAD:
            await asyncio.sleep(LOOK_S)

    async def kill_primary(self) -> None:
        """Kill the primary of the stream, and start it again.

        Its replica has taken over by then, if it does.
        """
        await asyncio.to_thread(self._cluster.kill_primary, KEY)
        if self._takes_over:
            await asyncio.to_thread(self._cluster.until_served)
        await asyncio.to_thread(self._cluster.mend)

    async def fail_over(self) -> None:
        """Make the replica of the stream its primary."""
        await asyncio.to_thread(self._cluster.fail_over, KEY)

    async def move_slot(self) -> None:
        """Move the slot of the stream to another primary."""
        slot = await asyncio.to_thread(self._cluster.slot_of, KEY)
        await asyncio.to_thread(self._cluster.move_slot, slot)

    async def kill_gateway(self) -> None:
        """End a gateway as a power switch does, and start it again."""
        await self._restart("SIGKILL")

    async def stop_gateway(self) -> None:
        """Ask a gateway to end, and start it again."""
        await self._restart("SIGTERM")

    async def cut_tracking(self) -> None:
        """Cut the connections over which gateways hear of changes."""
        for primary in await asyncio.to_thread(self._cluster.primaries):
            await asyncio.to_thread(cut_tracking, primary)

    async def cut_connections(self) -> None:
        """Cut all connections of gateways."""
        for primary in await asyncio.to_thread(self._cluster.primaries):
            await asyncio.to_thread(cut_connections, primary)

    async def is_quiet(self) -> bool:
        """Tell whether also what a gateway held that was killed is released."""
        if await self.open_count() != (0, 0):
            return False
        known = await self.ask("GET", f"{GROUP}/consumers")
        return not any(each["name"].startswith("temporary-") for each in known["consumers"])

    async def open_count(self) -> tuple[int, int]:
        """Return the numbers of blocked reads and open connections, at all gateways."""
        texts = [await ask_place(place, "GET", "/metrics") for place in self._places]
        waiters = _sum(r"headgate_waiters", texts)
        return waiters, _sum(r"headgate_connections{.*}", texts)

    async def _restart(self, kind: str) -> None:
        number = self.random.randrange(GATEWAY_COUNT)
        await self._end(number, kind)
        await self._start(number)

    async def _start(self, number: int) -> None:
        gateway = await Gateway.start(self.data_dir / str(number), self._settings)
        self._gateways[number] = gateway
        self._places[number].move_to(gateway)

    async def _end(self, number: int, kind: str) -> None:
        self.note_restart()
        self._places[number].is_up.clear()
        await finish(self._gateways.pop(number), kind)


class KeyClusterChaos(KeyedChaos, ClusterChaos):
    """The same with a group in order by key, and entries of so many keys."""

    def __init__(self, *args: Any, key_count: int, at_once: int, **options: Any) -> None:
        super().__init__(*args, **options)
        self.begin_keys(key_count, at_once, self._places)


def _sum(pattern: str, texts: list[str]) -> int:
    lines = chain.from_iterable(
        re.findall(rf"^{pattern} (\S+)$", text, re.MULTILINE) for text in texts
    )
    return int(sum(map(float, lines)))
