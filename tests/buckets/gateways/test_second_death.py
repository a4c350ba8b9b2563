"""A standby takes over, dies as well, and starts again on its own directory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from tests.buckets.gateways.shared_bucket import SharedBucket, until_leading
from tests.buckets.gateways.test_outages import metrics_of
from tests.buckets.gateways.witness import Witness, lost, witnessed
from tests.conditions import eventually

SETTINGS = {
    "durable": "bucket",
    "standby": True,
    "lease_ms": 1000,
    "ship_ms": 20,
    "rewrite_bytes_min": 200_000,
    "memory_bytes_max": 2**21,
}


@pytest.mark.parametrize("shared_bucket", ["directory"], indirect=True)
async def test_a_directory_knows_what_of_it_is_in_the_bucket_alone(
    shared_bucket: SharedBucket, tmp_path: Path
) -> None:
    witness = Witness(pad_bytes=3000)
    leader = await shared_bucket.start(tmp_path / "a", SETTINGS)
    standby = await shared_bucket.begin(tmp_path / "b", SETTINGS)
    clients = [asyncio.create_task(witness.run(leader)) for _ in range(8)]
    async with httpx.AsyncClient(base_url=standby.url, timeout=30) as http:

        async def has_adopted() -> bool:  # it has taken over a snapshot by then
            return bool((await metrics_of(http))["headgate_bucket_remote_bytes"])

        await eventually(has_adopted, bool)
    await leader.kill()
    await asyncio.gather(*clients)
    await until_leading(standby)
    await standby.kill()
    again = await shared_bucket.start(tmp_path / "b", SETTINGS)
    assert lost(witness.acked, await witnessed(again.url)) == []
    await again.stop()
