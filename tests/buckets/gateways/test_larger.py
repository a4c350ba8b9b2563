"""A stream is larger than the disk: what does not fit is in the bucket, and read from there."""

from __future__ import annotations

import base64
import random
import shutil
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from headgate.engine.journal.disk import RESERVE
from tests.buckets.gateways.shared_bucket import LONG, SharedBucket
from tests.buckets.gateways.test_outages import metrics_of, until_shipped
from tests.conditions import eventually
from tests.processes.gateway import Gateway
from tests.processes.ledger import id_of

STREAM = "/v1/streams/large/entries"
VALUE_BYTES = 2250
BATCH = 100
RESIDENT_BYTES_MAX = 400e6
GOT = 'headgate_bucket_traffic_bytes_total{way="received"}'


class Peak:
    """The most that a gateway has taken of memory and disk."""

    def __init__(self, gateway: Gateway, data_dir: Path) -> None:
        self.memory_bytes = self.disk_bytes = 0
        self._gateway, self._data_dir = gateway, data_dir

    def look(self) -> None:
        self.memory_bytes = max(self.memory_bytes, self._gateway.memory_bytes())
        sizes = 0
        for path in self._data_dir.iterdir():
            if path.name != RESERVE:  # it is there to be given up
                with suppress(FileNotFoundError):  # it is being put in place, or removed
                    sizes += path.stat().st_size
        self.disk_bytes = max(self.disk_bytes, sizes)


@pytest.mark.parametrize(
    ("shared_bucket", "disk_bytes", "data_bytes"),
    [
        ("directory", 40 * 10**6, 80 * 10**6),
        pytest.param("directory", 25 * 10**7, 2 * 10**9, marks=LONG),
    ],
    indirect=["shared_bucket"],
)
async def test_a_stream_is_larger_than_the_disk(
    shared_bucket: SharedBucket, tmp_path: Path, disk_bytes: int, data_bytes: int
) -> None:
    settings = {
        "disk_bytes_max": disk_bytes,
        "memory_bytes_max": 32 * 2**20,
        "rewrite_bytes_min": disk_bytes // 20,
        "lease_ms": 1000,
        "ship_ms": 100,
    }
    count = data_bytes // VALUE_BYTES // BATCH * BATCH
    gateway = await shared_bucket.start(tmp_path / "a", settings)
    peak = Peak(gateway, tmp_path / "a")
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as http:
        await append(http, count, peak)
        await until_shipped(http)
        before = await metrics_of(http)
        await check_all(http, count, peak)
        after = await metrics_of(http)
    await gateway.stop()
    shutil.rmtree(tmp_path / "a")
    gateway = await shared_bucket.start(tmp_path / "b", settings)
    again = Peak(gateway, tmp_path / "b")
    async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as http:
        await check_all(http, count, again)
    await gateway.stop()
    remote_bytes = after["headgate_bucket_remote_bytes"]
    assert remote_bytes > data_bytes / 3
    assert after[GOT] - before[GOT] < 1.5 * remote_bytes
    assert max(peak.memory_bytes, again.memory_bytes) < RESIDENT_BYTES_MAX
    assert max(peak.disk_bytes, again.disk_bytes) < 1.2 * disk_bytes


def value_of(number: int) -> str:
    """Return the value of an entry, which hardly compresses."""
    return base64.b64encode(random.Random(number).randbytes(VALUE_BYTES)).decode()


async def append(http: httpx.AsyncClient, count: int, peak: Peak) -> None:
    """Append entries, batch by batch; a batch waits for room, as it comes faster than it goes."""
    for begin in range(0, count, BATCH):
        body = [{"fields": {"v": value_of(number)}} for number in range(begin, begin + BATCH)]

        async def is_taken(body: object = body) -> bool:
            answer = await http.post(f"{STREAM}/batch", json=body)
            assert answer.status_code in (201, 503), answer.text
            return answer.status_code == 201

        await eventually(is_taken, bool)
        peak.look()


async def check_all(http: httpx.AsyncClient, count: int, peak: Peak) -> None:
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
        peak.look()
    assert number == count
