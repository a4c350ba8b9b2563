"""Pair: two gateways on one bucket, one of which leads, for clients that know both."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx

from deploy.local_cluster.server import free_ports
from tests.processes.gateway import Gateway

LEASE_MS = 3_000
LOOK_S = 0.05


class Pair:
    """Two gateways, each with a directory and an address that it keeps from life to life."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._gateways: dict[int, Gateway] = {}
        self._ports = free_ports(2)

    @property
    def urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self._ports]

    async def start(self) -> None:
        """Start those that are not running, and return once one leads."""
        for number in range(2):
            if number not in self._gateways:
                await self._start(number)
        await self.leader()

    async def leader(self) -> int:
        """Return the number of the one that leads, once one does.

        One that lost its lease on a slow machine has ended, and is started again.
        """
        async with httpx.AsyncClient() as client:
            while True:
                for number, gateway in list(self._gateways.items()):
                    if gateway.has_ended:
                        await self._start(number)
                    try:
                        if (await client.get(f"{self.urls[number]}/readyz")).is_success:
                            return number
                    except httpx.TransportError:
                        continue  # it ends just now
                await asyncio.sleep(LOOK_S)

    async def kill_leader(self) -> None:
        """Kill the one that leads, and return once the other one does."""
        gateway = self._gateways.pop(await self.leader())
        gateway.kill_now()
        await gateway.until_end()
        await self.leader()

    async def kill(self) -> None:
        for gateway in self._gateways.values():
            gateway.kill_now()
            await gateway.until_end()

    async def _start(self, number: int) -> None:
        settings = {
            "port": self._ports[number],
            "address": self.urls[number],
            "bucket": f"file://{self._folder}/bucket",
            "durable": "bucket",
            "standby": True,
            "lease_ms": LEASE_MS,
            "ship_ms": 20,
        }
        self._gateways[number] = await Gateway.start(self._folder / f"data-{number}", settings)
