"""Without a thread or a descriptor to spare the gateway serves or refuses, and comes back."""

from __future__ import annotations

import asyncio
import json
import re
import resource
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conditions import WITHIN_S
from tests.processes.gateway import END_S_MAX, ROOT, START_S_MAX

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of a process that runs")

PROGRAM = """
import os, sys, threading
from pathlib import Path

really_start, flag = threading._start_new_thread, Path(sys.argv[1])

def start(*args, **options):
    if flag.exists():
        raise RuntimeError("can't start new thread")
    return really_start(*args, **options)

threading._start_new_thread = start
sys.argv[1:2] = []
from headgate.app.cli.command_line import main
main(prog_name="headgate")
"""
"""A gateway that gets no thread while there is a file. The system's own bound, RLIMIT_NPROC, does
not hold for root."""

SHORT_S = 2.0


class Short:
    """A gateway that may be short of something."""

    def __init__(self, process: subprocess.Popen[bytes], http: httpx.AsyncClient) -> None:
        self.process = process
        self.http = http
        self.flag: Path
        self.log: Path

    async def append(self) -> int:
        """Append an entry; returns the status, 0 if nobody has answered."""
        try:
            answer = await self.http.post("/v1/streams/s/entries", json={"fields": {"f": "v"}})
        except httpx.TransportError:
            return 0
        return answer.status_code

    async def statuses(self, paths: list[str]) -> set[int]:
        answered = set()
        for path in paths:
            with suppress(httpx.TransportError):
                answered.add((await self.http.get(path)).status_code)
        return answered

    def events(self) -> list[dict[str, Any]]:
        lines = self.log.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]


@asynccontextmanager
async def short_of(folder: Path) -> AsyncIterator[Short]:
    flag, log = folder / "no threads", folder / "log"
    command = [sys.executable, "-c", PROGRAM, str(flag), "serve", "--port", "0"]
    with log.open("wb") as written:
        process = subprocess.Popen(  # noqa: ASYNC220  it returns at once
            [*command, "--data-dir", str(folder / "data")], cwd=ROOT, stderr=written
        )
    try:
        async with asyncio.timeout(START_S_MAX):
            while not (match := re.search(r"Headgate is at (http://\S+),", log.read_text())):
                await asyncio.sleep(0.05)
        async with httpx.AsyncClient(base_url=match[1], timeout=10, trust_env=False) as http:
            gateway = Short(process, http)
            gateway.flag, gateway.log = flag, log
            yield gateway
        process.terminate()
        assert await asyncio.to_thread(process.wait, END_S_MAX) == 0
    finally:
        process.kill()
        process.wait()


PAGES = ["/healthz", "/readyz", "/metrics", "/v1/streams", "/openapi.json", "/docs"]


def without_threads(gateway: Short) -> Callable[[], None]:
    gateway.flag.touch()
    return gateway.flag.unlink


def without_descriptors(gateway: Short) -> Callable[[], None]:
    number = gateway.process.pid
    before = resource.prlimit(number, resource.RLIMIT_NOFILE)
    used = max(int(each.name) for each in Path(f"/proc/{number}/fd").iterdir())
    resource.prlimit(number, resource.RLIMIT_NOFILE, (used + 1, before[1]))

    def give_back() -> None:
        resource.prlimit(number, resource.RLIMIT_NOFILE, before)

    return give_back


@pytest.mark.parametrize("shorten", [without_threads, without_descriptors])
async def test_the_gateway_serves_or_refuses_and_comes_back(
    tmp_path: Path, shorten: Callable[[Short], Callable[[], None]]
) -> None:
    async with short_of(tmp_path) as gateway:
        assert await gateway.append() == 201

        end, written = shorten(gateway), 1
        over_s = asyncio.get_running_loop().time() + SHORT_S
        while asyncio.get_running_loop().time() < over_s:
            status = await gateway.append()
            assert status in (201, 503)
            written += status == 201
            assert await gateway.statuses(PAGES) <= {200, 503}
            await gateway.http.post("/v1/admin/rewrite")
        assert gateway.process.poll() is None
        end()

        async with asyncio.timeout(WITHIN_S):
            while await gateway.statuses(PAGES) != {200} or await gateway.append() != 201:
                await asyncio.sleep(0.1)
        described = (await gateway.http.get("/v1/streams/s")).json()
        assert described["length"] > written
        assert not [each for each in gateway.events() if each["level"] == "CRITICAL"]
