"""A gateway that is killed again and again: what a producer wrote is there once, in order."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import httpx

from tests.processes.gateway import Gateway, no_gateway_left

__all__ = ["no_gateway_left"]

PLACE = "/v1/stream/run/1"
KILLS = 4
JSON = {"Content-Type": "application/json"}


async def test_a_producer_that_tries_again_writes_each_message_once(tmp_path: Path) -> None:
    written = 0
    for life in range(KILLS):
        gateway = await Gateway.start(tmp_path, {"fsync": "always"})
        async with httpx.AsyncClient(base_url=gateway.url, timeout=10) as http:
            made = await http.put(PLACE, headers={**JSON, "Stream-TTL": "3600"})
            assert made.status_code == (201 if life == 0 else 200)
            writing = asyncio.create_task(write_on(http, written))
            await asyncio.sleep(random.uniform(0.05, 0.4))  # it is killed in the middle
            await gateway.kill()
            written = await writing
    gateway = await Gateway.start(tmp_path, {"fsync": "always"})
    async with httpx.AsyncClient(base_url=gateway.url, timeout=10) as http:
        await write(http, written)
        closed = await http.post(
            PLACE, headers={**headers_of(written + 1), "Stream-Closed": "true"}
        )
        assert closed.status_code == 204
        assert await read(http) == [*range(written + 1)]
    await gateway.stop()
    assert written > 0


def headers_of(seq: int) -> dict[str, str]:
    return {**JSON, "Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": str(seq)}


async def write(http: httpx.AsyncClient, number: int) -> None:
    """Append a number; it may have been appended before the gateway died."""
    answer = await http.post(PLACE, headers=headers_of(number), json=number)
    assert answer.status_code in (200, 204), answer.text


async def write_on(http: httpx.AsyncClient, number: int) -> int:
    """Append numbers until nobody answers; returns the first that was not answered."""
    while True:
        try:
            await write(http, number)
        except httpx.TransportError:
            return number
        number += 1


async def read(http: httpx.AsyncClient) -> list[int]:
    """Read all messages of the stream, which is closed."""
    offset, numbers = "-1", list[int]()
    while True:
        answer = await http.get(PLACE, params={"offset": offset})
        numbers += answer.json()
        if "stream-closed" in answer.headers:
            return numbers
        offset = answer.headers["stream-next-offset"]
