"""Commands of other clients of the servers, which know nothing of the gateway."""

from __future__ import annotations

from typing import Any

from headgate.app.backends.redis.backend import RedisBackend
from tests.contract.calls import G, S


async def run(redis: RedisBackend, command: str, *words: bytes | str | int) -> Any:
    """Run a command on the stream, and return its reply."""
    client = redis.client
    key = client.names.of(S).key
    return await client.execute(S, *command.split(" "), key, *words, changes=True)


async def side(redis: RedisBackend, kind: bytes, command: str, *words: bytes | str | int) -> Any:
    """Run a command on a side key of the group, or of the stream for some kinds."""
    group = None if kind in (b"outbox", b"claims", b"relayed", b"meta") else G
    key = redis.client.names.of(S).side(kind, group)
    return await redis.client.execute(S, command, key, *words, changes=True)
