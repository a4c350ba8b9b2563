"""Backend: the streams of a Redis or Valkey server, or of a cluster of them, behind the port.

A request is one call of a function in the server that has the stream, so it is atomic there. A
request over several streams is atomic for each of them, and not for all together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TypeVar

from headgate.app.backends.port import Ability, ClaimFeed, Commands, Journaled
from headgate.app.backends.redis.client import Client, ClientOptions
from headgate.app.backends.redis.commands import commands_of
from headgate.app.backends.redis.faults import as_stream_errors
from headgate.app.backends.redis.groups import table as groups
from headgate.app.backends.redis.performing.table import PERFORMERS
from headgate.app.redis_syntax.words import Bounds
from headgate.engine.errors import NotSupported
from headgate.engine.requests import Request

T = TypeVar("T")

_ABILITIES = frozenset({Ability.BULK, Ability.POLICIES, Ability.CLAIM_FEED, Ability.COMMANDS})


class RedisBackend:
    """The streams that servers keep. Several gateways may use the same servers."""

    def __init__(self, options: ClientOptions, reply: Bounds = Bounds()) -> None:  # noqa: B008 it is a value
        """Get ready. `run` connects to the servers.

        Args:
            options: how the servers are used.
            reply: the bounds of one reply to a Redis command.

        Raises:
            ValueError: an option cannot be used; the text says which.
        """
        self.client = Client(options)
        self.abilities = _ABILITIES
        self.claim_feed: ClaimFeed | None = None
        self.commands: Commands | None = commands_of(self, reply)
        self.journal: Journaled | None = None
        self._performers = {**PERFORMERS, **groups.PERFORMERS}
        self._is_draining = False
        self._closed = asyncio.Event()

    async def perform(self, request: Request[T]) -> T:
        """Carry out a request, and return its reply. See `Backend.perform`."""
        perform = self._performers.get(type(request))
        if perform is None:
            raise NotSupported(type(request).__name__)
        stream, group = getattr(request, "stream", b""), getattr(request, "group", b"")
        with as_stream_errors(stream, group):
            reply: T = await perform(self.client, request)
        return reply

    @property
    def failure(self) -> str | None:
        """Return None: whatever is wrong with the servers, it may get well."""
        return None

    @property
    def refusal(self) -> str | None:
        """Return why requests are refused for now, or None."""
        return self.client.refusal

    def memory_bytes(self) -> Mapping[str, int]:
        """Return nothing: the streams are not in the memory of this process."""
        return {}

    @property
    def waiter_count(self) -> int:
        """Return how many reads are blocked in this gateway."""
        return 0

    @property
    def is_draining(self) -> bool:
        """Tell whether this gateway is about to stop."""
        return self._is_draining

    def drain(self) -> None:
        """Prepare to stop: blocked reads end with `Draining`, and new reads do not block."""
        self._is_draining = True

    async def run(self) -> None:
        """Connect to the servers, and follow them, until `close` is called."""
        running = asyncio.create_task(self.client.run())
        closing = asyncio.create_task(self._closed.wait())
        try:
            await asyncio.wait({running, closing}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                await running
        finally:
            closing.cancel()
            running.cancel()
            await asyncio.wait({running})

    async def close(self) -> None:
        """End `run`. The servers have everything that was answered."""
        self._closed.set()
