"""Governed: the index of the streams for which something is to be done as time passes.

These are streams with a retention by age or a group with a policy, and streams with dead letters
to relay. The index is one set for all of them. `housekeeping.py` walks it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from redis.crc import key_slot

from headgate.app.backends.redis.client import Client

_CHANGES = {b"SADD", b"SREM"}


@asynccontextmanager
async def govern(client: Client, stream: bytes, *, is_needed: bool) -> AsyncIterator[None]:
    """Put a stream into the index before and after something is configured in the context.

    Before, so that nothing configured is missed if this gateway dies. After, because housekeeping
    may meanwhile have seen that nothing is configured, and taken the stream out.
    """
    if is_needed:
        await execute(client, b"SADD", stream)
    yield
    if is_needed:
        await execute(client, b"SADD", stream)


async def execute(client: Client, command: bytes, *words: bytes | int) -> Any:
    """Run a command on the index, and return its reply."""
    key = client.names.side_index(b"governed")
    [reply] = await client.execute_all(
        key_slot(key), [[command, key, *words]], changes=command in _CHANGES
    )
    return reply
