"""The store is away for a while, and comes back."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.buckets.gateways.shared_bucket import LONG, LOOK_S, SharedBucket
from tests.buckets.gateways.witness import STREAM, Witness, lost, witnessed
from tests.processes.gateway import Gateway

SETTINGS = {"lease_ms": 1500}
PAD_BYTES, LARGE_PAD_BYTES = 3000, 50_000
DISK_BYTES = 20 * 10**6
MEMORY_BYTES = 32 * 2**20
CLIENTS = 4
REFUSED_S_MAX = 20.0
"""Here it takes 2 to 4 s; a busy machine takes longer."""

RETURN_S_MAX = 60.0
WORK_S = 2.0
"""Clients work for so long before the store leaves, and when it is back."""

away_s = pytest.mark.parametrize(
    ("shared_bucket", "away_s"),
    [("moto", 6.0), pytest.param("moto", 600.0, marks=LONG)],
    indirect=["shared_bucket"],
)


@asynccontextmanager
async def working(gateway: Gateway, pad_bytes: int = PAD_BYTES) -> AsyncIterator[Witness]:
    """Let clients append; they end with the context."""
    witness = Witness(pad_bytes)
    clients = [asyncio.create_task(witness.run(gateway)) for _ in range(CLIENTS)]
    try:
        await asyncio.sleep(WORK_S)
        yield witness
    finally:
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)


@away_s
async def test_with_disk_everything_goes_on_and_the_bucket_gets_it_later(
    shared_bucket: SharedBucket, tmp_path: Path, away_s: float
) -> None:
    settings = {**SETTINGS, "memory_bytes_max": MEMORY_BYTES}
    gateway = await shared_bucket.start(tmp_path / "a", settings)
    [way, _] = shared_bucket.ways
    async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as http:
        async with working(gateway) as witness:
            before_bytes = resident_bytes(gateway)
            way.leave()
            left_s = time.monotonic()
            await until_warned(http)
            await asyncio.sleep(max(0.0, left_s + away_s - time.monotonic()))
            grown_bytes = resident_bytes(gateway) - before_bytes
            during_count = sum(each.sent_s > left_s for each in witness.acked)
            way.come_back()
            back_s = time.monotonic()
            await asyncio.sleep(WORK_S)
        caught_up_s = await until_shipped(http) - back_s
    assert witness.refused == []
    assert during_count > 10 * away_s
    disk_bytes = sum(path.stat().st_size for path in (tmp_path / "a").iterdir())
    await gateway.kill()
    shutil.rmtree(tmp_path / "a")
    gateway = await shared_bucket.start(tmp_path / "b", SETTINGS)
    assert lost(witness.acked, await witnessed(gateway.url)) == []
    await gateway.stop()
    print(
        f"away for {away_s:.0f} s: {during_count} appends meanwhile, caught up after "
        f"{caught_up_s:.1f} s; memory grew by {grown_bytes / 1e6:.1f} MB, "
        f"{disk_bytes / 1e6:.1f} MB on the disk"
    )
    assert grown_bytes < 64e6


@away_s
async def test_with_bucket_changes_are_refused_and_reads_go_on(
    shared_bucket: SharedBucket, tmp_path: Path, away_s: float
) -> None:
    settings = {**SETTINGS, "durable": "bucket", "ship_ms": 50}
    gateway = await shared_bucket.start(tmp_path / "a", settings)
    [way, _] = shared_bucket.ways
    async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as http:
        async with working(gateway) as witness:
            way.leave()
            left_s = time.monotonic()
            unread_s = 0.0  # for so long, since the store has left, no read was answered
            while time.monotonic() < left_s + away_s:
                if not await is_read(http):
                    unread_s = time.monotonic() - left_s
                await asyncio.sleep(5 * LOOK_S)
            way.come_back()
            back_s = time.monotonic()
            await asyncio.sleep(WORK_S)
            async with asyncio.timeout(RETURN_S_MAX):
                while witness.acked[-1].sent_s < back_s:
                    await asyncio.sleep(LOOK_S)
        until_back_s = next(each.answered_s for each in witness.acked if each.sent_s > back_s)
    refused = [each for each in witness.refused if each.sent_s < back_s]
    assert refused
    assert {each.status for each in refused} == {503}
    assert all(each.retry_after is not None for each in refused)
    longest_s = max(each.answered_s - each.sent_s for each in refused)
    await gateway.kill()
    shutil.rmtree(tmp_path / "a")
    gateway = await shared_bucket.start(tmp_path / "b", settings)
    assert lost(witness.acked, await witnessed(gateway.url)) == []
    await gateway.stop()
    print(
        f"away for {away_s:.0f} s: {len(refused)} appends refused, within {longest_s:.1f} s; "
        f"reads answered again after {unread_s:.1f} s; "
        f"accepted again {until_back_s - back_s:.1f} s after the store was back"
    )
    assert max(longest_s, unread_s) < REFUSED_S_MAX


@pytest.mark.parametrize("shared_bucket", ["moto"], indirect=True)
async def test_a_disk_that_fills_meanwhile_takes_entries_again(
    shared_bucket: SharedBucket, tmp_path: Path
) -> None:
    settings = {**SETTINGS, "disk_bytes_max": DISK_BYTES, "rewrite_bytes_min": DISK_BYTES // 20}
    gateway = await shared_bucket.start(tmp_path / "a", settings)
    [way, _] = shared_bucket.ways
    async with working(gateway, LARGE_PAD_BYTES) as witness:
        way.leave()
        async with asyncio.timeout(RETURN_S_MAX):
            while not witness.refused:
                await asyncio.sleep(LOOK_S)
        way.come_back()
        back_s = time.monotonic()
        async with asyncio.timeout(RETURN_S_MAX):
            while witness.acked[-1].sent_s < back_s:
                await asyncio.sleep(LOOK_S)
    assert {each.status for each in witness.refused} == {503}
    await gateway.stop()
    shutil.rmtree(tmp_path / "a")
    gateway = await shared_bucket.start(tmp_path / "b", settings)
    assert lost(witness.acked, await witnessed(gateway.url)) == []
    await gateway.stop()


async def is_read(http: httpx.AsyncClient) -> bool:
    """Tell whether a reader gets entries; it is refused while the engine goes back."""
    answer = await http.get(f"{STREAM}/entries", params={"after": "0", "limit": 10})
    if answer.status_code == 503:
        return False
    assert answer.json()["entries"], answer.text
    return True


async def until_warned(http: httpx.AsyncClient) -> None:
    """Return once the gateway is ready, and warns."""
    async with asyncio.timeout(RETURN_S_MAX):
        while "warnings" not in (ready := await http.get("/readyz")).json():
            assert ready.status_code == 200, ready.text
            await asyncio.sleep(LOOK_S)


async def until_shipped(http: httpx.AsyncClient) -> float:
    """Return when the bucket has everything, by the clock of `time.monotonic`."""
    async with asyncio.timeout(RETURN_S_MAX):
        while (await metrics_of(http))["headgate_bucket_unshipped_bytes"]:
            await asyncio.sleep(LOOK_S)
    return time.monotonic()


async def metrics_of(http: httpx.AsyncClient) -> dict[str, float]:
    """Return the metrics by name and labels."""
    text = (await http.get("/metrics")).text
    pairs: list[Any] = re.findall(r"^(headgate_bucket_\S+) (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in pairs}


def resident_bytes(gateway: Gateway) -> int:
    """Return the memory of a gateway."""
    pages = int(Path(f"/proc/{gateway.process_id}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
