"""The store is away for a while, and comes back."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.buckets.gateways.shared_bucket import LONG, SharedBucket
from tests.buckets.gateways.witness import STREAM, Witness, lost, witnessed
from tests.conditions import eventually, until
from tests.processes.gateway import Gateway

SETTINGS = {"lease_ms": 1500}
LARGE_PAD_BYTES = 50_000
DISK_BYTES = 20 * 10**6
CLIENTS = 4
AWAY = int(os.environ.get("HEADGATE_TEST_APPENDS", "25_000"))
"""Answers that come while the store is away, in the long form: some minutes."""

answers_away = pytest.mark.parametrize(
    ("shared_bucket", "count"),
    [("moto", 100), pytest.param("moto", AWAY, marks=LONG)],
    indirect=["shared_bucket"],
)


@asynccontextmanager
async def working(gateway: Gateway, pad_bytes: int = 3000) -> AsyncIterator[Witness]:
    """Let clients append; they end with the context."""
    witness = Witness(pad_bytes)
    clients = [asyncio.create_task(witness.run(gateway)) for _ in range(CLIENTS)]
    try:
        await until(lambda: len(witness.acked) > 10 * CLIENTS)
        yield witness
    finally:
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)


async def check_next_machine(
    shared_bucket: SharedBucket, tmp_path: Path, gateway: Gateway, witness: Witness
) -> None:
    """A machine is lost: the next one has everything that was acknowledged."""
    await gateway.kill()
    shutil.rmtree(tmp_path / "a")
    gateway = await shared_bucket.start(tmp_path / "b", SETTINGS)
    assert lost(witness.acked, await witnessed(gateway.url)) == []
    await gateway.stop()


@answers_away
async def test_with_disk_everything_goes_on_and_the_bucket_gets_it_later(
    shared_bucket: SharedBucket, tmp_path: Path, count: int
) -> None:
    settings = {**SETTINGS, "memory_bytes_max": 32 * 2**20}
    gateway = await shared_bucket.start(tmp_path / "a", settings)
    [way, _] = shared_bucket.ways
    async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as http:

        async def warns() -> bool:
            ready = await http.get("/readyz")
            assert ready.status_code == 200, ready.text
            return "warnings" in ready.json()

        async with working(gateway) as witness:
            way.leave()
            await eventually(warns, bool)
            before_bytes, before_count = gateway.memory_bytes(), len(witness.acked)
            await until(lambda: len(witness.acked) > before_count + count, 3600)
            grown_bytes = gateway.memory_bytes() - before_bytes
            way.come_back()
        await until_shipped(http)
    assert witness.refused == []
    assert grown_bytes < 64e6
    await check_next_machine(shared_bucket, tmp_path, gateway, witness)


@answers_away
async def test_with_bucket_changes_are_refused_and_reads_go_on(
    shared_bucket: SharedBucket, tmp_path: Path, count: int
) -> None:
    settings = {**SETTINGS, "durable": "bucket", "ship_ms": 50}
    gateway = await shared_bucket.start(tmp_path / "a", settings)
    [way, _] = shared_bucket.ways
    async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as http:

        async def reads() -> bool:
            """It is refused while the engine goes back."""
            answer = await http.get(f"{STREAM}/entries", params={"after": "0", "limit": 10})
            return answer.status_code == 200 and bool(answer.json()["entries"])

        async with working(gateway) as witness:
            way.leave()
            await until(lambda: len(witness.refused) > count, 3600)
            await eventually(reads, bool)
            way.come_back()
            back_count = len(witness.acked)
            await until(lambda: len(witness.acked) > back_count + 10)
    assert {each.status for each in witness.refused} == {503}
    assert all(each.retry_after is not None for each in witness.refused)
    await check_next_machine(shared_bucket, tmp_path, gateway, witness)


@pytest.mark.parametrize("shared_bucket", ["moto"], indirect=True)
async def test_a_disk_that_fills_meanwhile_takes_entries_again(
    shared_bucket: SharedBucket, tmp_path: Path
) -> None:
    settings = {**SETTINGS, "disk_bytes_max": DISK_BYTES, "rewrite_bytes_min": DISK_BYTES // 20}
    gateway = await shared_bucket.start(tmp_path / "a", settings)
    [way, _] = shared_bucket.ways
    async with working(gateway, LARGE_PAD_BYTES) as witness:
        way.leave()
        await until(lambda: witness.refused)
        way.come_back()
        back_count = len(witness.acked)
        await until(lambda: len(witness.acked) > back_count + 10)
    assert {each.status for each in witness.refused} == {503}
    async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as http:
        await until_shipped(http)
    await check_next_machine(shared_bucket, tmp_path, gateway, witness)


async def until_shipped(http: httpx.AsyncClient) -> None:
    """Return once the bucket has everything."""

    async def is_shipped() -> bool:
        return not (await metrics_of(http))["headgate_bucket_unshipped_bytes"]

    await eventually(is_shipped, bool)


async def metrics_of(http: httpx.AsyncClient) -> dict[str, float]:
    """Return the metrics by name and labels."""
    text = (await http.get("/metrics")).text
    pairs: list[Any] = re.findall(r"^(headgate_bucket_\S+) (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in pairs}
