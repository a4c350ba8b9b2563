"""Idempotency: what was appended under a key."""

from __future__ import annotations

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.library import Effect
from headgate.app.backends.redis.performing import Performers, by_operation
from headgate.engine.replies import KeyInfo
from headgate.engine.requests.keyspace import RememberKey


async def describe_keys(client: Client, stream: bytes) -> KeyInfo:
    """Describe the idempotency keys of a stream."""
    return KeyInfo(*await client.call(Effect.READ, "describe_keys", stream))


PERFORMERS: Performers = {RememberKey: by_operation(Effect.WRITE)}
