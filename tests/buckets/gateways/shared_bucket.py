"""Shared bucket: gateways in processes of their own start on it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx
import pytest

from tests.buckets.faulty_way import FaultyWay
from tests.buckets.stores import variables_of
from tests.conditions import eventually
from tests.processes.gateway import START_S_MAX, Gateway

LONG = (pytest.mark.long, pytest.mark.timeout(7200))
STORES = ["directory", "moto", "ministack"]
LOOK_S = 0.02


def forms(store: str, short: int, long: int) -> pytest.MarkDecorator:
    """Return the forms of a test: short with one store, and long with each.

    Args:
        store: of the short form.
        short: its rounds.
        long: those of the long forms, unless HEADGATE_TEST_ROUNDS says another number.
    """
    rounds = int(os.environ.get("HEADGATE_TEST_ROUNDS", long))
    longs = [pytest.param(each, rounds, marks=LONG) for each in STORES]
    names = ("shared_bucket", "rounds")
    return pytest.mark.parametrize(names, [(store, short), *longs], indirect=["shared_bucket"])


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


async def until_leading(gateway: Gateway, within_s: float = START_S_MAX) -> None:
    """Return once a gateway has said that it takes changes."""
    async with httpx.AsyncClient(base_url=gateway.url) as http:

        async def leads() -> bool:
            return (await http.get("/readyz")).status_code == 200

        await eventually(leads, bool, within_s)
