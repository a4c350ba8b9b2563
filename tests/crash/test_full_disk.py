"""A disk that is full: nothing promised is lost, everybody is told, and all goes on with room."""

import asyncio
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.api.conftest import refusal_of
from tests.conditions import WITHIN_S
from tests.processes.gateway import Gateway

STREAM = "/v1/streams/orders"
GROUP = f"{STREAM}/groups/billing"
SIZE_BYTES = 8 * 2**20
FREE_BYTES_MIN = 2 * 2**20
VALUE = "v" * 10_000
SETTINGS = {"fsync": "always", "disk_free_bytes_min": FREE_BYTES_MIN}
FULL = "the disk is full: "


class SmallDisk:
    """A file system of its own, eight megabytes large."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()
        mounted = self._mount("-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "tmpfs", directory)
        if mounted.returncode != 0:
            pytest.skip(f"nothing can be mounted here: {mounted.stderr.strip()}")

    def free_bytes(self) -> int:
        """Return the free bytes of the disk."""
        facts = os.statvfs(self.directory)
        return facts.f_bavail * facts.f_frsize

    def fill(self) -> None:
        """Take all room that is left, as another program may."""
        with (self.directory / "of-somebody-else").open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass

    def empty(self) -> None:
        """Give that back."""
        (self.directory / "of-somebody-else").unlink()

    def end(self) -> None:
        """Leave nothing behind."""
        subprocess.run(["umount", "--lazy", self.directory], check=True)

    @staticmethod
    def _mount(*words: str | Path) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(["mount", *words], capture_output=True, text=True, check=False)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    small = SmallDisk(tmp_path / "data")
    yield small
    small.end()


async def fill(
    http: httpx.AsyncClient, disk: SmallDisk | None = None
) -> tuple[list[str], httpx.Response]:
    """Append until that is refused; returns the ids that were answered, and the refusal.

    A disk that has little room left is filled so slowly that the gateway notices: it looks every
    second. Otherwise it has to use up its reserve.
    """
    ids: list[str] = []
    while True:
        if disk is not None and disk.free_bytes() < FREE_BYTES_MIN:
            await asyncio.sleep(0.03)
        body = {"fields": {"n": str(len(ids)), "v": VALUE}}
        answer = await http.post(f"{STREAM}/entries", json=body)
        if answer.status_code != 201:
            return ids, answer
        ids.append(answer.json()["id"])


async def entries(http: httpx.AsyncClient) -> list[tuple[str, str]]:
    """Return id and number of each entry."""
    answer = await http.get(f"{STREAM}/entries", params={"limit": 10_000})
    assert answer.status_code == 200, answer.text
    return [(entry["id"], entry["fields"]["n"]) for entry in answer.json()["entries"]]


async def until_ready(http: httpx.AsyncClient, status: int = 200) -> httpx.Response:
    """Return once the gateway is ready, or not any more."""
    async with asyncio.timeout(WITHIN_S):
        while (answer := await http.get("/readyz")).status_code != status:
            await asyncio.sleep(0.05)
        return answer


def times(gateway: Gateway, event: str) -> int:
    return sum(f'"{event}"' in line for line in gateway.log_lines)


async def test_a_full_disk_takes_what_makes_room_and_all_goes_on_without_a_restart(
    disk: SmallDisk,
) -> None:
    gateway = await Gateway.start(disk.directory, SETTINGS | {"rewrite_percentage": 0})
    async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as http:
        await http.put(GROUP, json={"start": "0", "create_stream": True})
        ids, refusal = await fill(http, disk)
        assert refusal_of(refusal) == (503, "unavailable", "")
        assert refusal.json()["detail"].startswith(FULL)
        assert refusal.headers["Retry-After"] == "1"
        disk.fill()

        # What was there is read, given out, acknowledged and deleted.
        expected = [(entry_id, str(number)) for number, entry_id in enumerate(ids)]
        assert await entries(http) == expected
        read = await http.post(f"{GROUP}/read?consumer=c", json={"limit": 5})
        assert [entry["id"] for entry in read.json()["entries"]] == ids[:5], read.text
        acked = await http.post(f"{GROUP}/ack?consumer=c", json={"ids": ids[:5]})
        assert acked.status_code == 200, acked.text
        assert (await http.delete(f"{STREAM}/entries/{ids[0]}")).status_code == 204
        command = await http.post("/v1/commands", json=["XADD", "orders", "*", "a", "1"])
        assert command.status_code == 503
        assert command.json()["error"].startswith(f"MISCONF {FULL}")
        for path in ("/v1/streams/other", f"{STREAM}/entries"):
            again = await http.put(path, json={}) if "other" in path else refusal
            assert refusal_of(again) == (503, "unavailable", "")

        # It is told everywhere, and it is no reason to be restarted.
        assert (await http.get("/readyz")).json()["detail"].startswith(FULL)
        assert (await http.get("/healthz")).status_code == 200
        metrics = (await http.get("/metrics")).text
        assert "headgate_journal_shortage 1.0" in metrics
        assert "headgate_journal_failed 0.0" in metrics
        assert (await http.get("/v1/admin/journal")).json()["shortage"].startswith(FULL)

        disk.empty()
        trimmed = await http.post("/v1/commands", json=["XTRIM", "orders", "MAXLEN", "10"])
        assert trimmed.status_code == 200, trimmed.text
        await until_ready(http)  # a rewrite has made room
        answer = await http.post(f"{STREAM}/entries", json={"fields": {"n": "new", "v": VALUE}})
        assert answer.status_code == 201
        kept = await entries(http)
        assert kept == [*expected[-10:], (answer.json()["id"], "new")]
    await gateway.stop()
    assert times(gateway, "room is short") == times(gateway, "there is room again") == 1
    assert not any("Traceback" in line for line in gateway.log_lines)

    second = await Gateway.start(disk.directory, SETTINGS)
    async with httpx.AsyncClient(base_url=second.url, timeout=30) as http:
        assert await entries(http) == kept
    await second.stop()


async def test_a_gateway_that_starts_on_a_full_disk_is_read_and_ready_when_there_is_room(
    disk: SmallDisk,
) -> None:
    gateway = await Gateway.start(disk.directory, SETTINGS)
    async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as http:
        ids, _ = await fill(http)
    await gateway.kill()
    (disk.directory / "reserve").unlink(missing_ok=True)
    disk.fill()

    second = await Gateway.start(disk.directory, SETTINGS)
    async with httpx.AsyncClient(base_url=second.url, timeout=30) as http:
        await until_ready(http, 503)
        assert [entry_id for entry_id, _ in await entries(http)] == ids
        late = await http.post(f"{STREAM}/entries", json={"fields": {"n": "late"}})
        assert refusal_of(late) == (503, "unavailable", "")
        assert (await http.get("/healthz")).status_code == 200
        disk.empty()
        async with asyncio.timeout(WITHIN_S):  # it can write again; there is still little room
            while (await http.delete(f"{STREAM}/entries/{ids[0]}")).status_code != 204:
                await asyncio.sleep(0.05)
        assert (await http.delete(STREAM)).status_code == 204
        await until_ready(http)
        answer = await http.post(f"{STREAM}/entries", json={"fields": {"n": "new"}})
        assert answer.status_code == 201
    await second.stop()
    assert not any("Traceback" in line for line in second.log_lines)


def segments(directory: Path) -> list[Path]:
    return list(directory.glob("journal-*"))


async def test_a_file_that_may_not_grow_is_followed_by_another(tmp_path: Path) -> None:
    gateway = await Gateway.start(tmp_path, file_size_bytes_max=2**20)
    async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as http:
        for number in range(250):
            body = {"fields": {"n": str(number), "v": VALUE}}
            answer = await http.post(f"{STREAM}/entries", json=body)
            assert answer.status_code == 201, answer.text
    await gateway.kill()
    assert len(segments(tmp_path)) >= 3

    again = await Gateway.start(tmp_path, file_size_bytes_max=resource.RLIM_INFINITY)
    async with httpx.AsyncClient(base_url=again.url, timeout=30) as http:
        assert [number for _, number in await entries(http)] == [str(n) for n in range(250)]
    await again.stop()
