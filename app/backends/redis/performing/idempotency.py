"""Idempotency: what was appended under a key."""

from __future__ import annotations

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.library import Effect
from headgate.app.backends.redis.performing import Performers, by_function
from headgate.engine.replies import KeyInfo
from headgate.engine.requests.keyspace import RememberKey

KEY_DEFAULTS = (100_000, 100)
"""Defaults of streams: the time that keys are valid (ms), and the number by producer.

They are Redis's stream-idmp-duration and stream-idmp-maxsize.
"""


async def remember_key(client: Client, request: RememberKey) -> None:
    """Remember that an entry was appended under an idempotency key (XIDMPRECORD)."""
    words = (request.producer, request.key, str(request.entry_id), *KEY_DEFAULTS)
    await client.call(Effect.WRITE, b"remember_key", request.stream, *words)


async def describe_keys(client: Client, stream: bytes) -> KeyInfo:
    """Describe the idempotency keys of a stream."""
    return KeyInfo(*await client.call(Effect.READ, b"describe_keys", stream, *KEY_DEFAULTS))


PERFORMERS: Performers = {RememberKey: by_function(remember_key)}
