"""Whoever sends as much as it can has its turn, and so has everyone else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.processes.gateway import Gateway
from tests.processes.raw_socket import CONT, PING, TEXT, RawSocket, frame
from tests.processes.wire import Wire, connected

FLOODS = 4
ASKED = 40
WITHIN_S = 60.0

Flood = Callable[[str], Awaitable[None]]


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    started = await Gateway.start(tmp_path, {"log_level": "warning", "fsync": "no"})
    yield started
    await started.stop()


async def _frames(url: str, first: bytes, more: bytes) -> None:
    raw = await RawSocket.open(await connected(url))
    try:
        await raw.send(first)
        while True:
            await raw.send(more)
    finally:
        raw.close()


async def bad_frames(url: str) -> None:
    """Send many bad frames. The answers fill the way back, so their number is one bound of two."""
    await _frames(url, b"", frame(TEXT, b'{"type":"dance"}') * 10_000)


async def pings(url: str) -> None:
    raw = await RawSocket.open(await connected(url))
    sending = asyncio.ensure_future(_send_on(raw, frame(PING) * 10_000))
    try:
        while True:
            await raw.frame()
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        raw.close()


async def _send_on(raw: RawSocket, data: bytes) -> None:
    while True:
        await raw.send(data)


async def fragments_of_nothing(url: str) -> None:
    await _frames(url, frame(TEXT, b"{", is_last=False), frame(CONT, is_last=False) * 40_000)


async def requests(url: str) -> None:
    end = await connected(url)
    loop = asyncio.get_running_loop()

    async def send_on() -> None:
        while True:
            await loop.sock_sendall(end, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 10_000)

    sending = asyncio.ensure_future(send_on())
    try:
        while await loop.sock_recv(end, 2**18):
            pass
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        end.close()


async def chunks_of_one_byte(url: str) -> None:
    head = (
        "POST /v1/streams/s/entries HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
    )
    end = await connected(url)
    loop = asyncio.get_running_loop()
    try:
        await loop.sock_sendall(end, f"{head}Content-Type: application/json\r\n\r\n".encode())
        while True:
            await loop.sock_sendall(end, b"1\r\n \r\n" * 50_000)
    finally:
        end.close()


async def commands(url: str) -> None:
    wire = await Wire.open(url)
    try:
        while True:
            await wire.request("POST", "/v1/commands/pipeline", [["XLEN", "s"]] * 10_000)
    finally:
        wire.close()


@pytest.mark.parametrize(
    "flood", [bad_frames, pings, fragments_of_nothing, requests, chunks_of_one_byte, commands]
)
async def test_others_are_served_meanwhile(gateway: Gateway, flood: Flood) -> None:
    wire = await Wire.open(gateway.url)

    async def go_on() -> None:
        while True:
            with suppress(ConnectionError, EOFError):
                await flood(gateway.url)

    floods = [asyncio.ensure_future(go_on()) for _ in range(FLOODS)]
    async with asyncio.timeout(WITHIN_S):  # when a flood had all turns, one answer took seconds
        for _ in range(ASKED):
            assert await wire.request("GET", "/healthz") == {"status": "ok"}
            await asyncio.sleep(0)
    assert not any(each.done() for each in floods)
    for running_flood in floods:
        running_flood.cancel()
    await asyncio.gather(*floods, return_exceptions=True)
    wire.close()
    assert gateway.complaints() == []
