"""The process that rewrites: its work beside its gateway, and its end without one."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from headgate.engine.journal import rewrites
from tests.conditions import WITHIN_S, until
from tests.processes.gateway import Gateway

ENTRIES = 10_000


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    """Run a gateway that rewrites only when asked to, with something to rewrite."""
    started = await Gateway.start(tmp_path, {"rewrite_percentage": 0, "rewrite_patience_s": 5})
    async with httpx.AsyncClient(base_url=started.url, timeout=30) as http:
        entries = [{"fields": {"v": str(number)}} for number in range(ENTRIES)]
        for _ in range(3):
            answer = await http.post("/v1/streams/orders/entries/batch", json=entries)
            assert answer.status_code == 201
    yield started
    await started.kill()


def children_of(process_id: int) -> list[Path]:
    """Return the running children of a process, as their directories in /proc."""
    threads = Path(f"/proc/{process_id}/task").iterdir()
    children = [child for thread in threads for child in _text(thread / "children").split()]
    return [Path(f"/proc/{child}") for child in children]


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):  # a thread that has ended
        return ""


def is_running(process: Path) -> bool:
    try:
        return (process / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def rewriter_of(gateway: Gateway) -> Path:
    """Return the process that rewrites, once it is there."""
    async with asyncio.timeout(WITHIN_S):
        while not (processes := [*filter(_rewrites, children_of(gateway.engine_id))]):
            await asyncio.sleep(0.001)
    return processes[0]


def _rewrites(process: Path) -> bool:
    """Tell whether a child has become the program."""
    return f"{rewrites.__name__}\0" in _text(process / "cmdline")


async def begun(gateway: Gateway) -> dict[str, Any]:
    async with httpx.AsyncClient(base_url=gateway.url) as http:
        answer = await http.post("/v1/admin/rewrite")
        assert answer.status_code == 202
        status: dict[str, Any] = answer.json()
        return status


def names(directory: Path) -> list[str]:
    names = {path.name for path in directory.iterdir()}
    return sorted(names - {"engine.sock", "lock", "reserve", "ticket-secret"})


async def test_a_rewrite_leaves_a_snapshot_and_an_empty_segment(
    gateway: Gateway, tmp_path: Path
) -> None:
    status = await begun(gateway)
    async with httpx.AsyncClient(base_url=gateway.url) as http, asyncio.timeout(WITHIN_S):
        while status["rewrite_count"] == 0:
            assert status["rewrite_failure"] is None
            await asyncio.sleep(0.01)
            status = (await http.get("/v1/admin/journal")).json()
    assert names(tmp_path) == [f"journal-{4:020}", f"snapshot-{3:020}"]


async def test_a_rewrite_ends_with_a_gateway_that_is_killed(
    gateway: Gateway, tmp_path: Path
) -> None:
    """Or it would go on beside the next gateway, in files that are that one's by now."""
    await begun(gateway)
    rewriter = await rewriter_of(gateway)
    await gateway.kill()
    await until(lambda: not is_running(rewriter))
    assert names(tmp_path)[:2] == [f"journal-{1:020}", f"journal-{4:020}"]
    assert f"snapshot-{3:020}" not in names(tmp_path)
    again = await Gateway.start(tmp_path)
    await again.stop()
    assert names(tmp_path)[0] == f"journal-{1:020}"


async def test_a_rewrite_that_is_killed_is_told_and_leaves_nothing(
    gateway: Gateway, tmp_path: Path
) -> None:
    await begun(gateway)
    rewriter = await rewriter_of(gateway)
    (tmp_path / f"snapshot-{3:020}.new").write_bytes(b"as far as it came")
    os.kill(int(rewriter.name), signal.SIGKILL)
    async with httpx.AsyncClient(base_url=gateway.url) as http, asyncio.timeout(WITHIN_S):
        status = (await http.get("/v1/admin/journal")).json()
        while status["is_rewriting"]:
            await asyncio.sleep(0.01)
            status = (await http.get("/v1/admin/journal")).json()
        assert status["rewrite_failure"] == "the rewrite ended with -9"
        assert names(tmp_path) == [f"journal-{1:020}", f"journal-{4:020}"]
        answer = await http.post("/v1/streams/orders/entries", json={"fields": {"v": "x"}})
        assert answer.status_code == 201


async def test_a_rewrite_that_hangs_is_ended_and_leaves_nothing(
    gateway: Gateway, tmp_path: Path
) -> None:
    await begun(gateway)
    rewriter = await rewriter_of(gateway)
    os.kill(int(rewriter.name), signal.SIGSTOP)
    (tmp_path / f"snapshot-{3:020}.new").write_bytes(b"as far as it came")
    async with httpx.AsyncClient(base_url=gateway.url) as http, asyncio.timeout(WITHIN_S):
        while (status := (await http.get("/v1/admin/journal")).json())["is_rewriting"]:
            answer = await http.post("/v1/streams/orders/entries", json={"fields": {"v": "x"}})
            assert answer.status_code == 201
        assert status["rewrite_failure"] == "the rewrite made no progress for 5 s"
        assert status["rewrite_failure"] in (await http.get("/readyz")).json()["warnings"][0]
    assert not is_running(rewriter)
    assert names(tmp_path) == [f"journal-{1:020}", f"journal-{4:020}"]
