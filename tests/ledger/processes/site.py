"""Site: gateways and workers in processes of their own, and an operator who lets them fail."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from random import Random

import msgspec

from deploy.local_cluster.server import free_ports
from tests.conditions import eventually
from tests.ledger.bank import Event
from tests.ledger.client import CLAIM_IDLE_MS
from tests.ledger.processes.rest import RestClient
from tests.processes.gateway import HOST, ROOT, Gateway

LEASE_MS = 2_000
PAIR: Mapping[str, object] = {
    "durable": "bucket",
    "standby": True,
    "lease_ms": LEASE_MS,
    "ship_ms": 20,
    "log_level": "info",
}
SETTINGS: Mapping[str, object] = {"rewrite_bytes_min": 200_000, "memory_bytes_max": 2**23}
"""Rewrites begin in the middle of things, and little stays in memory."""

STOPPED_S_MAX = 3 * CLAIM_IDLE_MS / 1_000

Failure = Callable[[], Awaitable[None]]


class Member:
    """A gateway that is started again and again at its address."""

    def __init__(self, data_dir: Path, settings: Mapping[str, object]) -> None:
        [port] = free_ports(1)
        self.url = f"http://{HOST}:{port}"
        self._data_dir, self._settings = data_dir, {**SETTINGS, **settings, "port": port}
        self.gateway: Gateway

    async def start(self) -> None:
        self.gateway = await Gateway.begin(self._data_dir, self._settings)
        await self.gateway.until_greeting()


class Worker:
    """A worker that is started again and again under its name."""

    def __init__(self, work: str, name: str) -> None:
        self.work, self.name = work, name
        self.process: asyncio.subprocess.Process
        self.has_failed = False

    async def kill(self) -> None:
        """End it, and note whether it had ended by itself, which it never does."""
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
        else:
            self.has_failed = True


class Site:
    def __init__(
        self, folder: Path, chance: Random, works: Mapping[str, str], *, is_pair: bool = False
    ) -> None:
        """Describe a site.

        Args:
            folder: where everything is kept.
            chance: what happens when.
            works: what each worker does, by its name.
            is_pair: a leader and a standby on a bucket, in place of one gateway.
        """
        self.chance, self.is_pair = chance, is_pair
        bucket = {**PAIR, "bucket": (folder / "bucket").as_uri()} if is_pair else {}
        self.members = [Member(folder / f"gateway{at}", bucket) for at in range(1 + is_pair)]
        self._workers = [Worker(work, name) for name, work in works.items()]
        self._lives = count()
        self._logs = folder / "logs"
        self.failures: Counter[str] = Counter()
        self.client = RestClient(self._urls, chance)

    @property
    def _urls(self) -> list[str]:
        return [member.url for member in self.members]

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Let gateways serve while the context lasts."""
        self._logs.mkdir()
        for member in self.members:
            await member.start()
        async with self.client:
            yield
        for member in self.members:
            await member.gateway.kill()
            if not self.is_pair:
                assert member.gateway.complaints() == []

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Let workers work while the context lasts."""
        for worker in self._workers:
            await self._employ(worker)
        try:
            yield
        finally:
            for worker in self._workers:
                await worker.kill()
        assert not [worker.name for worker in self._workers if worker.has_failed]

    async def _employ(self, worker: Worker) -> None:
        life = f"{worker.name}.{next(self._lives)}"
        worker.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.ledger.processes.worker"),
            *(worker.work, worker.name, life, str(self._logs), *self._urls),
            cwd=ROOT,
        )

    async def operate(self, is_over: Callable[[], bool], calm_s_max: float) -> None:
        """Let workers fail one after the other, and gateways less often, until it is over."""
        of_gateways = [self._kill_gateway, self._end_gateway]
        of_gateways += [self._stop_gateway] * self.is_pair
        of_workers = [self._kill_worker, self._stop_worker]
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._fail(of_workers, is_over, calm_s_max))
            tasks.create_task(self._fail(of_gateways, is_over, 4 * calm_s_max))

    async def _fail(
        self, failures: Sequence[Failure], is_over: Callable[[], bool], calm_s_max: float
    ) -> None:
        while not is_over():
            await asyncio.sleep(self.chance.random() * calm_s_max)
            failure = self.chance.choice(failures)
            await failure()
            self.failures[failure.__name__.strip("_")] += 1

    async def _kill_worker(self) -> None:
        worker = self.chance.choice(self._workers)
        await worker.kill()
        await self._employ(worker)

    async def _stop_worker(self) -> None:
        """Stop a worker until others may have its entries, or not yet."""
        process = self.chance.choice(self._workers).process
        process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(self.chance.random() * STOPPED_S_MAX)
        process.send_signal(signal.SIGCONT)

    async def _kill_gateway(self) -> None:
        member = self.chance.choice(self.members)
        await member.gateway.kill()
        await self._start(member)

    async def _end_gateway(self) -> None:
        member = self.chance.choice(self.members)
        member.gateway.signal(signal.SIGTERM)
        await member.gateway.until_end()
        await self._start(member)

    async def _stop_gateway(self) -> None:
        """Stop a gateway for about its lease: if that is over when it goes on, it ends."""
        member = self.chance.choice(self.members)
        member.gateway.signal(signal.SIGSTOP)
        await asyncio.sleep(2 * self.chance.random() * LEASE_MS / 1_000)
        member.gateway.signal(signal.SIGCONT)

    async def _start(self, member: Member) -> None:
        """Start a gateway again, and each that has ended as it did not lead any more."""
        if self.is_pair:
            await asyncio.sleep(2 * self.chance.random() * LEASE_MS / 1_000)
        for each in self.members:
            if each is member or each.gateway.has_ended:
                await each.gateway.until_end()
                await each.start()

    async def left(self, stream: str, group: str) -> int | None:
        """Return how many entries a group has still to settle, if that is known."""
        path = f"/v1/streams/{stream}/groups/{group}"
        state = await self.client.ask_again("GET", path)
        return None if state["lag"] is None else state["lag"] + state["pending"]

    async def until_settled(self, stream: str, group: str, within_s: float) -> None:
        """Return once a group has settled everything."""
        await eventually(lambda: self.left(stream, group), lambda left: left == 0, within_s)

    def log(self) -> list[Event]:
        """Return what all workers have noted."""
        decoder = msgspec.json.Decoder(Event)
        lines = [line for file in self._logs.iterdir() for line in file.read_bytes().splitlines()]
        return [decoder.decode(line) for line in lines]
