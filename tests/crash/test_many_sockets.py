"""More connections than the system has files for: those that are open are served, and the disk."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from socket import socket

import pytest

from tests.conditions import WITHIN_S, eventually
from tests.processes.gateway import Gateway
from tests.processes.wire import Wire, connected

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="files have a limit")

FILES_MAX = 160
LEFT_MAX = (FILES_MAX - 64) * Gateway.worker_count
CALLERS = 400


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    started = await Gateway.start(tmp_path, files_max=FILES_MAX)
    yield started
    await started.stop()


async def _is_open(end: socket) -> bool:
    """Tell whether a connection is served."""
    loop = asyncio.get_running_loop()
    try:
        await loop.sock_sendall(end, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(WITHIN_S):
            return (await loop.sock_recv(end, 2**16)).startswith(b"HTTP/1.1 200 ")
    except ConnectionError:
        return False


async def test_connections_leave_the_disk_its_files(gateway: Gateway) -> None:
    wire = await Wire.open(gateway.url)
    limits = await wire.request("GET", "/v1/limits")
    assert limits["sockets_max"] == LEFT_MAX

    ends = await asyncio.gather(*(connected(gateway.url) for _ in range(CALLERS)))
    served = await asyncio.gather(*map(_is_open, ends))
    assert sum(served) == LEFT_MAX - 1

    for number in range(50):
        await wire.request("POST", "/v1/streams/orders/entries", {"fields": {"v": str(number)}})
    await wire.request("POST", "/v1/admin/rewrite")
    journal = partial(wire.request, "GET", "/v1/admin/journal")
    await eventually(journal, lambda status: status["rewrite_count"])
    page = await wire.request("GET", "/v1/streams/orders/entries")
    assert len(page["entries"]) == 50

    for end in ends:
        end.close()
    async with asyncio.timeout(WITHIN_S):
        while not await _is_open(end := await connected(gateway.url)):
            end.close()
    end.close()
    wire.close()
    complaints = [line for line in gateway.log_lines if "too many connections" in line]
    assert 1 <= len(complaints) <= Gateway.worker_count
    assert gateway.complaints() == []
