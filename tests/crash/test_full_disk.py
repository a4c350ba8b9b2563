"""A disk that is full: nothing promised is lost, nothing more is promised, everybody is told."""

import asyncio
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.api.conftest import said as problem_said
from tests.crash.gateway import Gateway

STREAM = "/v1/streams/orders"
SIZE_BYTES = 2 * 2**20
VALUE = "v" * 10_000
NEVER = {"rewrite_percentage": 0, "fsync": "always"}


class Shortage:
    """A directory in which so much fits, until it is lifted."""

    reason: str
    file_size_bytes_max = resource.RLIM_INFINITY

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def lift(self) -> None:
        """Make room."""

    def end(self) -> None:
        """Leave nothing behind."""


class FullFileSystem(Shortage):
    """A file system of its own, two megabytes large."""

    reason = "No space left on device"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        directory.mkdir()
        mounted = _mount("-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "tmpfs", directory)
        if mounted.returncode != 0:
            pytest.skip(f"nothing can be mounted here: {mounted.stderr.strip()}")

    def lift(self) -> None:
        assert _mount("-o", f"remount,size={4 * SIZE_BYTES}", self.directory).returncode == 0

    def end(self) -> None:
        subprocess.run(["umount", "--lazy", self.directory], check=True)


class LimitedFiles(Shortage):
    """A system that lets no file of the gateway grow above two megabytes; needs no rights."""

    reason = "File too large"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.file_size_bytes_max = SIZE_BYTES

    def lift(self) -> None:
        self.file_size_bytes_max = resource.RLIM_INFINITY


def _mount(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["mount", *words], capture_output=True, text=True, check=False)


@pytest.fixture(params=[FullFileSystem, LimitedFiles])
def shortage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shortage]:
    if request.param is FullFileSystem and os.geteuid() != 0:
        pytest.skip("only root can mount")
    found: Shortage = request.param(tmp_path / "data")
    yield found
    found.end()


async def fill(http: httpx.AsyncClient) -> tuple[list[str], httpx.Response]:
    """Append until that is refused; returns the ids that were answered, and the refusal."""
    ids: list[str] = []
    while True:
        body = {"fields": {"n": str(len(ids)), "v": VALUE}}
        answer = await http.post(f"{STREAM}/entries", json=body)
        if answer.status_code != 201:
            return ids, answer
        ids.append(answer.json()["id"])


async def until_readable(http: httpx.AsyncClient) -> None:
    """Return once the gateway has read again what is durable: it forgets the rest."""
    async with asyncio.timeout(10):
        while (await http.get(f"{STREAM}/entries")).status_code == 503:
            await asyncio.sleep(0.001)


async def entries(http: httpx.AsyncClient) -> list[tuple[str, str]]:
    """Return id and number of each entry."""
    answer = await http.get(f"{STREAM}/entries", params={"limit": 10_000})
    assert answer.status_code == 200, answer.text
    return [(entry["id"], entry["fields"]["n"]) for entry in answer.json()["entries"]]


async def test_a_full_disk_is_told_and_what_was_answered_stays(shortage: Shortage) -> None:
    gateway = await Gateway.start(
        shortage.directory, NEVER, file_size_bytes_max=shortage.file_size_bytes_max
    )
    async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as http:
        await http.put(f"{STREAM}/groups/billing", json={"start": "0", "create_stream": True})
        ids, refusal = await fill(http)
        expected = [(entry_id, str(number)) for number, entry_id in enumerate(ids)]
        assert SIZE_BYTES * 0.8 < len(ids) * len(VALUE) < SIZE_BYTES

        assert problem_said(refusal) == (503, "unavailable", "")
        reason = f"the journal cannot be written: {shortage.reason}"
        assert refusal.json()["detail"] == reason
        for _ in range(2):
            for path in ("/entries", "/groups/billing/read?consumer=c"):
                body = {"fields": {"n": "late"}} if path == "/entries" else {}
                later = await http.post(STREAM + path, json=body)
                assert problem_said(later) == (503, "unavailable", "")
                assert later.json()["detail"] == reason
            await until_readable(http)
            assert await entries(http) == expected
        ready = await http.get("/readyz")
        assert (ready.status_code, ready.json()["detail"]) == (503, reason)
        assert (await http.get("/healthz")).status_code == 200
        assert "headgate_journal_failed 1.0" in (await http.get("/metrics")).text
        assert (await http.get("/v1/admin/journal")).json()["failure"] == reason
        rewrite = await http.post("/v1/admin/rewrite")
        assert problem_said(rewrite) == (503, "unavailable", "")
    await gateway.stop()
    [line] = [line for line in gateway.said if "journal failed" in line]
    assert reason in line
    assert '"level": "ERROR"' in line
    assert not any("Traceback" in line for line in gateway.said)

    shortage.lift()
    again = await Gateway.start(
        shortage.directory, NEVER, file_size_bytes_max=shortage.file_size_bytes_max
    )
    async with httpx.AsyncClient(base_url=again.url, timeout=30) as http:
        # An append that was refused may be there all the same, if only its answer was impossible.
        assert (await entries(http))[: len(ids)] == expected
        assert len(await entries(http)) <= len(ids) + 1
        answer = await http.post(f"{STREAM}/entries", json={"fields": {"n": "new", "v": VALUE}})
        assert answer.status_code == 201
        assert (await entries(http))[-1] == (answer.json()["id"], "new")
        assert (await http.get("/readyz")).status_code == 200
    await again.stop()


async def test_a_gateway_on_a_disk_that_stays_full_says_so_and_keeps_its_files(
    shortage: Shortage,
) -> None:
    """Nothing is given up to make room; a start that has no room for its segment is not ready."""
    gateway = await Gateway.start(
        shortage.directory, NEVER, file_size_bytes_max=shortage.file_size_bytes_max
    )
    async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as http:
        ids, _ = await fill(http)
    await gateway.kill()
    if isinstance(shortage, LimitedFiles):
        shortage.file_size_bytes_max = 10
    second = await Gateway.begin(
        shortage.directory, NEVER, file_size_bytes_max=shortage.file_size_bytes_max
    )
    with pytest.raises(ChildProcessError, match=f"Error: .*: .*{shortage.reason}"):
        await second.until_greeting()
    assert await second.until_end() == 1
    assert not any("Traceback" in line for line in second.said)

    shortage.lift()
    third = await Gateway.start(shortage.directory, NEVER)
    async with httpx.AsyncClient(base_url=third.url, timeout=30) as http:
        found = await entries(http)
        assert [entry_id for entry_id, _ in found][: len(ids)] == ids
    await third.stop()
