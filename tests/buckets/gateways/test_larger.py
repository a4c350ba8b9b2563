"""A stream is larger than the disk: what does not fit is in the bucket, and read from there."""

from __future__ import annotations

import asyncio
import base64
import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from headgate.engine.journal.disk import RESERVE
from tests.buckets.gateways.shared_bucket import LONG, SharedBucket
from tests.buckets.gateways.test_outages import metrics_of, resident_bytes, until_shipped
from tests.processes.gateway import Gateway
from tests.processes.ledger import id_of

STREAM = "/v1/streams/large/entries"
VALUE_BYTES = 2250
BATCH = 100
RESIDENT_BYTES_MAX = 400e6
ROOM_S_MAX = 60.0


def settings_of(disk_bytes: int) -> dict[str, object]:
    """Return the settings of a gateway that may use so much of the disk."""
    return {
        "disk_bytes_max": disk_bytes,
        "memory_bytes_max": 32 * 2**20,
        "rewrite_bytes_min": disk_bytes // 20,
        "lease_ms": 1000,
        "ship_ms": 100,
    }


@pytest.mark.parametrize(
    ("shared_bucket", "disk_bytes", "data_bytes"),
    [
        ("directory", 40 * 10**6, 80 * 10**6),
        pytest.param("directory", 10**9, 10 * 10**9, marks=LONG),
    ],
    indirect=["shared_bucket"],
)
async def test_a_stream_is_larger_than_the_disk(
    shared_bucket: SharedBucket, tmp_path: Path, disk_bytes: int, data_bytes: int
) -> None:
    settings, count = settings_of(disk_bytes), data_bytes // VALUE_BYTES // BATCH * BATCH
    data_dir = tmp_path / "a"
    gateway = await shared_bucket.start(data_dir, settings)
    peak = Peak(gateway, data_dir)
    began_s = time.monotonic()
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as http:
        refused_count = await append(http, count, peak.look)
        append_s = time.monotonic() - began_s
        await until_shipped(http)
        before = await metrics_of(http)
        began_s = time.monotonic()
        await check_all(http, count, peak.look)
        scan_s, after = time.monotonic() - began_s, await metrics_of(http)
    remote_bytes = after["headgate_bucket_remote_bytes"]
    gets = after[GETS] - before[GETS]
    got_bytes = after[GOT] - before[GOT]
    await gateway.stop()
    shutil.rmtree(data_dir)
    began_s = time.monotonic()
    gateway = await shared_bucket.start(tmp_path / "b", settings)
    start_s = time.monotonic() - began_s
    peak = Peak(gateway, tmp_path / "b", peak)
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as http:
        await check_all(http, count, peak.look)
    await gateway.stop()
    print(
        f"{count} entries of {VALUE_BYTES} bytes, disk of {disk_bytes / 1e6:.0f} MB: appended in "
        f"{append_s:.1f} s ({refused_count} batches refused for a moment), read in {scan_s:.1f} s "
        f"with {gets:.0f} gets of {got_bytes / 1e6:.1f} MB; {remote_bytes / 1e6:.1f} MB are in the "
        f"bucket alone; at most {peak.resident_bytes / 1e6:.0f} MB of memory and "
        f"{peak.disk_bytes / 1e6:.1f} MB of disk; started from the bucket in {start_s:.1f} s"
    )
    assert remote_bytes > data_bytes / 3
    assert got_bytes < 1.5 * remote_bytes
    assert peak.resident_bytes < RESIDENT_BYTES_MAX
    assert peak.disk_bytes < 1.2 * disk_bytes


GETS = 'headgate_bucket_requests_total{kind="get"}'
GOT = 'headgate_bucket_traffic_bytes_total{way="received"}'


class Peak:
    """The most that a gateway has taken of memory and disk."""

    def __init__(self, gateway: Gateway, data_dir: Path, before: Peak | None = None) -> None:
        self.resident_bytes: int = 0 if before is None else before.resident_bytes
        self.disk_bytes: int = 0 if before is None else before.disk_bytes
        self._gateway, self._data_dir = gateway, data_dir

    def look(self) -> None:
        self.resident_bytes = max(self.resident_bytes, resident_bytes(self._gateway))
        self.disk_bytes = max(self.disk_bytes, sum(_sizes(self._data_dir)))


def _sizes(directory: Path) -> Iterator[int]:
    for path in directory.iterdir():
        if path.name == RESERVE:
            continue  # it is there to be given up
        try:
            yield path.stat().st_size
        except FileNotFoundError:  # it has just gone
            continue


def value_of(number: int) -> str:
    """Return the value of an entry, which hardly compresses."""
    return base64.b64encode(random.Random(number).randbytes(VALUE_BYTES)).decode()


async def append(http: httpx.AsyncClient, count: int, look: Callable[[], None]) -> int:
    """Append entries, batch by batch; returns how often one was refused for want of room."""
    refused_count = 0
    for begin in range(0, count, BATCH):
        body = [{"fields": {"v": value_of(number)}} for number in range(begin, begin + BATCH)]
        async with asyncio.timeout(ROOM_S_MAX):
            while (answer := await http.post(f"{STREAM}/batch", json=body)).status_code == 503:
                refused_count += 1  # it comes faster than it goes to the bucket
                await asyncio.sleep(0.05)
        assert answer.is_success, (begin, answer.text)
        if begin % 1000 == 0:
            look()
    return refused_count


async def check_all(http: httpx.AsyncClient, count: int, look: Callable[[], None]) -> None:
    """Read all entries, and compare them with what was appended."""
    after, number, last = "0", 0, (0, 0)
    while True:
        answer = await http.get(STREAM, params={"after": after, "limit": 1000})
        assert answer.is_success, (number, answer.text)
        page = answer.json()
        assert page["gap"] is None, page["gap"]
        if not page["entries"]:
            break
        for entry in page["entries"]:
            assert entry["fields"]["v"] == value_of(number), number
            assert last < id_of(entry["id"])
            last, number = id_of(entry["id"]), number + 1
        after = page["next_after"]
        look()
    assert number == count
