"""Keys of clients work at the next machine."""

from __future__ import annotations

import shutil
from pathlib import Path

import httpx
import pytest

from headgate.engine.bucket.manifest import KEYS
from tests.buckets.gateways.shared_bucket import SharedBucket
from tests.conditions import until
from tests.key_files import EVERYTHING, Keys

SETTINGS = {"durable": "bucket", "lease_ms": 1000, "ship_ms": 20}


@pytest.mark.parametrize("shared_bucket", ["directory"], indirect=True)
async def test_a_key_works_at_the_next_machine(shared_bucket: SharedBucket, tmp_path: Path) -> None:
    gateway = await shared_bucket.start(tmp_path / "a", SETTINGS)
    key = Keys(tmp_path / "a" / "keys.json").add(EVERYTHING)
    await until(lambda: any((tmp_path / "bucket" / KEYS).glob("0*")), 60)
    await gateway.kill()
    shutil.rmtree(tmp_path / "a")
    gateway = await shared_bucket.start(tmp_path / "b", SETTINGS)
    async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as http:
        assert (await http.get("/v1/streams")).status_code == 401
        headers = {"Authorization": f"Bearer {key}"}
        assert (await http.get("/v1/streams", headers=headers)).status_code == 200
    await gateway.stop()
