"""What a user would write: a worker that reads a group of Redis, posts each entry, acknowledges it.

`python -m tests.bench.push_worker REDIS_PORT URL COUNT` posts so many entries, 64 at a time, signed
as Standard Webhooks has it.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import sys
import time
from typing import Any

import aiohttp
import redis.asyncio as redis

STREAM, GROUP = "s", "g"
CONCURRENCY = 64
_SECRET = b"x" * 32


async def work(port: int, url: str, count: int) -> None:
    """Post entries until so many are acknowledged."""
    connector = aiohttp.TCPConnector(limit=0)
    async with redis.Redis(port=port) as server, aiohttp.ClientSession(connector=connector) as http:
        done = 0
        while done < count:
            read: Any = await server.xreadgroup(
                GROUP, "worker", {STREAM: ">"}, count=CONCURRENCY, block=1000
            )
            [[_, entries]] = read
            await asyncio.gather(*(_post(http, url, *entry) for entry in entries))
            await server.xack(STREAM, GROUP, *(entry_id for entry_id, _ in entries))
            done += len(entries)


async def _post(
    http: aiohttp.ClientSession, url: str, entry_id: bytes, fields: dict[bytes, bytes]
) -> None:
    shown = {name.decode(): value.decode() for name, value in fields.items()}
    body = json.dumps({"id": entry_id.decode(), "fields": shown}).encode()
    at_s = str(int(time.time()))
    signed = hmac.digest(_SECRET, b"%b.%b.%b" % (entry_id, at_s.encode(), body), hashlib.sha256)
    headers = {
        "Content-Type": "application/json",
        "webhook-id": entry_id.decode(),
        "webhook-timestamp": at_s,
        "webhook-signature": f"v1,{base64.b64encode(signed).decode()}",
    }
    async with http.post(url, data=body, headers=headers) as answer:
        await answer.read()


if __name__ == "__main__":
    asyncio.run(work(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
