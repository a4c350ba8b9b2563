"""A backup of a gateway that is written to and rewrites its journal, restored elsewhere."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from headgate.engine.entry import MAX_ID, MIN_ID
from headgate.engine.journal import extents, recovery
from headgate.engine.journal.disk import SystemDisk
from headgate.engine.state.keyspace import Keyspace
from tests.conditions import until
from tests.journals.frozen import frozen
from tests.model.snapshot import snapshot
from tests.processes.gateway import Gateway, headgate

ROUNDS = int(os.environ.get("HEADGATE_TEST_ROUNDS", "2"))
STREAM = "/v1/streams/orders"
GROUP = f"{STREAM}/groups/billing"


class Load:
    """Entries, reads, acks and rewrites, until it is ended."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.acknowledged_count = 0  # entries that were answered for
        self._http = http

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(act()) for act in (self._append, self._work, self._rewrite)]
        yield
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ended), ended

    async def until_more(self, entry_count: int) -> None:
        aim = self.acknowledged_count + entry_count
        await until(lambda: self.acknowledged_count >= aim)

    async def _append(self) -> None:
        while True:
            first = self.acknowledged_count
            entries = [{"fields": {"n": str(first + index)}} for index in range(50)]
            await self._post(f"{STREAM}/entries/batch", json=entries)
            self.acknowledged_count += 50

    async def _work(self) -> None:
        while True:
            answer = await self._post(f"{GROUP}/read?consumer=c1", json={"limit": 30})
            ids = [entry["id"] for entry in answer["entries"]]
            if ids:
                await self._post(f"{GROUP}/ack?consumer=c1", json={"ids": ids[::2]})

    async def _rewrite(self) -> None:
        while True:
            await self._post("/v1/admin/rewrite")

    async def _post(self, path: str, **body: Any) -> Any:
        answer = await self._http.post(path, **body)
        assert answer.is_success, answer.text
        return answer.json()


def loaded(folder: Path) -> Keyspace:
    """Return the state in the journal of a folder."""
    disk = SystemDisk(folder, is_shared=True)
    try:
        return recovery.load(disk).keyspace
    finally:
        disk.close()


async def test_backups_under_load_have_all_that_was_acknowledged(tmp_path: Path) -> None:
    data, kept, tar = tmp_path / "data", tmp_path / "kept", tmp_path / "orders.tar"
    gateway = await Gateway.start(data, {"rewrite_percentage": 0})
    async with httpx.AsyncClient(base_url=gateway.url, timeout=30) as http:
        for path in (STREAM, GROUP):
            assert (await http.put(path)).is_success
        load = Load(http)
        async with load.going_on():
            for number in range(ROUNDS):
                await load.until_more(100)
                before = load.acknowledged_count
                target = kept if number % 3 else tar
                taken = await asyncio.to_thread(
                    headgate, "backup", "--data-dir", str(data), str(target)
                )
                assert taken.returncode == 0, taken.stderr
                after = load.acknowledged_count
                restored = tmp_path / f"restored-{number}"
                done = await asyncio.to_thread(
                    headgate, "restore", str(target), "--data-dir", str(restored)
                )
                assert done.returncode == 0, done.stderr
                entries = loaded(restored).streams[b"orders"].log
                numbers = [int(entry.fields[1]) for entry in entries.range(MIN_ID, MAX_ID)]
                assert numbers == list(range(len(numbers)))
                # What is on its way meanwhile may be in it or not: one batch, after its answer.
                assert before <= len(numbers) <= after + 50

        last = tmp_path / "last"
        for words in (["backup", "--data-dir", str(data), str(kept)], ["restore", str(kept)]):
            options = ["--data-dir", str(last)] if words[0] == "restore" else []
            ended = await asyncio.to_thread(headgate, *words, *options)
            assert ended.returncode == 0, ended.stderr
    await gateway.stop()
    assert snapshot(loaded(last)) == snapshot(loaded(data))


async def test_a_gateway_serves_what_was_restored(tmp_path: Path) -> None:
    gateway = await Gateway.start(tmp_path / "data")
    timed = {"fields": {"n": "1"}, "delay_ms": 3_600_000, "expires_at_ms": 2**50}
    async with httpx.AsyncClient(base_url=gateway.url) as http:
        location = (await http.post(f"{STREAM}/entries", json=timed)).headers["Location"]
        appended = (await http.get(location)).json()
    assert {"deliver_at_ms", "expires_at_ms"} < appended.keys()
    assert headgate("backup", "--data-dir", tmp_path / "data", tmp_path / "kept").returncode == 0
    await gateway.kill()

    assert headgate("restore", tmp_path / "kept", "--data-dir", tmp_path / "new").returncode == 0
    gateway = await Gateway.start(tmp_path / "new")
    async with httpx.AsyncClient(base_url=gateway.url) as http:
        entries = (await http.get(f"{STREAM}/entries")).json()["entries"]
    refused = headgate("restore", tmp_path / "kept", "--data-dir", tmp_path / "new")
    await gateway.stop()

    assert entries == [appended]
    assert refused.returncode == 1
    assert "in use by process" in refused.stderr


def backed_up_with_few_descriptors(data: Path, target: Path) -> subprocess.CompletedProcess[str]:
    """Back up with a soft limit of 64 open files."""
    words = [sys.executable, "-m", "headgate.app.cli", "backup", "--data-dir", str(data)]
    return subprocess.run(
        ["sh", "-c", 'ulimit -Sn 64; exec "$0" "$@"', *words, str(target)],
        capture_output=True,
        text=True,
        check=False,
    )


async def test_a_backup_takes_more_files_than_a_process_may_have_open_at_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(extents, "EXTENT_FILE_BYTES_MAX", 1)
    disk = await frozen(*(b"%d" % number for number in range(100)))
    data = tmp_path / "data"
    data.mkdir()
    for name, content in disk.files.items():
        (data / name).write_bytes(content)
    for target in ("kept", "orders.tar"):
        process = backed_up_with_few_descriptors(data, tmp_path / target)
        assert process.returncode == 0, process.stderr
        verified = headgate("restore", tmp_path / target, "--verify-only")
        assert verified.returncode == 0, verified.stderr
    assert len(list((tmp_path / "kept").glob("extents-*"))) == 100
