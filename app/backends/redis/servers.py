"""Servers: the facts of the primaries, and the durability of their changes."""

from __future__ import annotations

from collections.abc import Sequence

from redis.exceptions import ResponseError

from headgate.app.backends.port import ServerFacts
from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.faults import as_stream_errors
from headgate.engine.errors import Invalid

_AT_ONCE_MS = 1
"""Wait of a server before it answers, at most: others use the connection, too."""


class Primaries:
    """The primaries, as an ability of the port."""

    def __init__(self, client: Client) -> None:
        """Ask by a client."""
        self._client = client

    async def replica_count(self) -> int:
        """Return how many replicas have everything that this gateway has written (WAIT)."""
        with as_stream_errors(b""):
            counts = await self._client.execute_everywhere(b"WAIT", 0, _AT_ONCE_MS, changes=True)
        return min(map(int, counts))

    async def synced_counts(self, wanted: int) -> tuple[int, int]:
        """Return how many primaries and replicas have all of it on their disks (WAITAOF).

        They are the least counts of all primaries.

        Raises:
            Invalid: the servers say no, or are older than 7.2.
        """
        words = (b"WAITAOF", wanted, 0, _AT_ONCE_MS)
        with as_stream_errors(b""):
            try:
                counts = await self._client.execute_everywhere(*words, changes=True)
            except ResponseError as error:
                raise Invalid(str(error)) from None
        return min(int(count[0]) for count in counts), min(int(count[1]) for count in counts)

    async def facts(self) -> Sequence[ServerFacts]:
        """Return the facts of each primary (INFO)."""
        with as_stream_errors(b""):
            texts = await self._client.execute_everywhere(b"INFO", changes=False)
        return [*map(_facts, texts)]


def _facts(text: bytes) -> ServerFacts:
    lines = (line.partition(b":") for line in text.splitlines())
    values = {name: value.decode(errors="replace") for name, _, value in lines}
    product = "valkey" if b"valkey_version" in values else "redis"
    return ServerFacts(
        product,
        values.get(f"{product}_version".encode(), ""),
        values.get(b"used_memory", ""),
        values.get(b"connected_slaves", ""),
    )
