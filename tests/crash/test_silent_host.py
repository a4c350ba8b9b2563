"""A host that vanishes without a word: nothing tells the gateway but what does not come back."""

from __future__ import annotations

import asyncio
import re
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.crash.silent_host import SilentHost
from tests.processes.gateway import Gateway
from tests.processes.raw_socket import RawSocket
from tests.processes.wire import Wire

SETTINGS = {
    "host": SilentHost.gateway,
    "allow_anonymous": True,
    "open_metrics": True,
    "allowed_hosts": "*",
    "log_level": "warning",
    "heartbeat_ms": 1000,
    "ping_interval_ms": 500,
    "pong_wait_ms": 500,
    "send_ms_max": 500,
}
GROUP = "/v1/streams/jobs/groups/workers"


@pytest.fixture
def host() -> Iterator[SilentHost]:
    try:
        made = SilentHost()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("it takes root to make a host that can vanish")
    with made:
        yield made


@pytest.fixture
async def gateway(host: SilentHost, tmp_path: Path) -> AsyncIterator[Gateway]:
    started = await Gateway.start(tmp_path, SETTINGS)
    yield started
    await started.stop()


@pytest.mark.parametrize("transport", ["WebSocket", "events", "long poll"])
async def test_a_host_that_vanishes_is_noticed_and_what_it_held_goes_on(
    host: SilentHost, gateway: Gateway, transport: str
) -> None:
    control = await Wire.open(gateway.url)
    await control.request("PUT", GROUP, {"start": "0", "create_stream": True})
    await control.request("POST", "/v1/streams/jobs/entries", {"fields": {"v": "1"}})
    end = await host.connected(urlsplit(gateway.url).port or 0)
    loop = asyncio.get_running_loop()
    match transport:
        case "WebSocket":
            raw = await RawSocket.open(end, f"{GROUP}/ws?consumer=gone")
            await raw.next("entries")
        case "events":
            accept = "Accept: text/event-stream"
            request = f"GET {GROUP}/events?consumer=gone HTTP/1.1\r\nHost: x\r\n{accept}\r\n\r\n"
            await loop.sock_sendall(end, request.encode())
            got = b""
            while b"event: entry" not in got:
                got += await loop.sock_recv(end, 2**16)
        case _:
            path = "/v1/streams/jobs/entries?after=$&wait_ms=60000"
            await loop.sock_sendall(end, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            while not await waiter_count(control):
                pass

    host.vanish()
    end.close()

    started = time.monotonic()
    if transport == "long poll":
        while await waiter_count(control):
            await asyncio.sleep(0.01)
    else:
        body = {"wait_ms": 30_000}
        got = await control.request("POST", f"{GROUP}/read?consumer=next", body)
        deliveries = 2 if transport == "WebSocket" else 1  # events are not counted
        assert [entry["deliveries"] for entry in got["entries"]] == [deliveries]
    print("MEASURED", transport, time.monotonic() - started)
    control.close()


async def waiter_count(control: Wire) -> int:
    """Return how many reads are blocked."""
    text = await control.request("GET", "/metrics")
    [count] = re.findall(r"^headgate_waiters (\S+)$", text, re.MULTILINE)
    return int(float(count))
