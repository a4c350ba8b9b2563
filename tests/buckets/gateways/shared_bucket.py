"""Shared bucket: gateways in processes of their own start on it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx

from tests.buckets.faulty_way import FaultyWay
from tests.buckets.stores import variables_of
from tests.crash.gateway import START_S_MAX, Gateway

LOOK_S = 0.02


class SharedBucket:
    """A bucket, and a way to it for each of two gateways; none to a directory."""

    def __init__(self, url: str, ways: Sequence[FaultyWay] = ()) -> None:
        self.url = url
        self.ways = ways

    async def begin(
        self, data_dir: Path, settings: Mapping[str, object], *, way: int = 0
    ) -> Gateway:
        """Start a gateway, and return once it accepts connections; it may not lead yet."""
        chosen = {"bucket": self.url, **settings}
        variables = variables_of(self.ways[way].endpoint) if self.ways else {}
        gateway = await Gateway.begin(data_dir, chosen, variables=variables)
        await gateway.until_greeting()
        return gateway

    async def start(
        self, data_dir: Path, settings: Mapping[str, object], *, way: int = 0
    ) -> Gateway:
        """Start a gateway, and return once it leads."""
        gateway = await self.begin(data_dir, settings, way=way)
        await until_leading(gateway)
        return gateway


async def until_leading(gateway: Gateway, within_s: float = START_S_MAX) -> float:
    """Return when a gateway has said that it takes changes, by the clock of `time.monotonic`."""
    async with httpx.AsyncClient(base_url=gateway.url) as http, asyncio.timeout(within_s):
        while (await http.get("/readyz")).status_code != 200:
            await asyncio.sleep(LOOK_S)
    return time.monotonic()
