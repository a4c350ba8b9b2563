"""Deleted entries are no longer in memory, as the system sees it."""

from __future__ import annotations

import asyncio
import random
import re
import sys
from pathlib import Path

import pytest

from tests.processes.gateway import Gateway
from tests.processes.wire import Wire

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")

BATCHES, ENTRIES, VALUE_BYTES = 80, 1000, 300
GIVEN_BACK_MIN = 0.7
"""Measured: 0.85 and more. The rest is what the allocator cannot give back in pieces."""


def _resident_kib(gateway: Gateway) -> int:
    text = Path(f"/proc/{gateway.process_id}/status").read_text()
    match = re.search(r"VmRSS:\s+(\d+) kB", text)
    assert match is not None
    return int(match[1])


@pytest.mark.parametrize("how", ["trim", "delete"])
async def test_memory_goes_back_once_entries_are_gone(tmp_path: Path, how: str) -> None:
    gateway = await Gateway.start(tmp_path, {"log_level": "warning", "fsync": "no"})
    wire = await Wire.open(gateway.url)
    rng = random.Random(1)

    async def append(stream: str) -> None:
        values = (rng.randbytes(VALUE_BYTES).hex() for _ in range(ENTRIES))
        body = [{"fields": {"v": value}} for value in values]
        await wire.request("POST", f"/v1/streams/{stream}/entries/batch", body)

    for _ in range(5):  # what a first request makes is there to stay
        await append("warm")
    before_kib = _resident_kib(gateway)
    for _ in range(BATCHES):
        await append("orders")
    full_kib = _resident_kib(gateway)

    if how == "trim":
        await wire.request("POST", "/v1/streams/orders/trim", {"max_length": 0})
    else:
        await wire.request("POST", "/v1/commands", ["DEL", "orders"])
    most_kib = full_kib - GIVEN_BACK_MIN * (full_kib - before_kib)
    async with asyncio.timeout(10):
        while _resident_kib(gateway) > most_kib:
            await asyncio.sleep(0.05)
    print(f"{how}: {before_kib} KiB, {full_kib}, {_resident_kib(gateway)}")
    wire.close()
    await gateway.stop()
