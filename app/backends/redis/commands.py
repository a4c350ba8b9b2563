"""Commands: Redis commands over the servers.

Words become requests, as over the engine: so the rights are decided in one way, replies have
bounds, and streams keep what belongs to them beside their keys. Only INFO is the server's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Protocol, TypeVar

from msgspec.structs import replace

from headgate.app.backends.port import Reply
from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.faults import as_stream_errors
from headgate.app.backends.redis.groups.table import PERFORMERS as GROUP_PERFORMERS
from headgate.app.backends.redis.performing.table import PERFORMERS
from headgate.app.backends.redis.transaction import perform_together
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.app.redis_syntax.server import ServerCommands
from headgate.app.redis_syntax.words import AnyPlan, Bounds, Plan
from headgate.engine.errors import NotSupported, StreamError
from headgate.engine.requests import Request
from headgate.engine.requests.deliveries import ReadGroup
from headgate.engine.requests.entries import Read
from headgate.engine.requests.keyspace import GetDefaults

T = TypeVar("T")


_AT_ONCE = {**PERFORMERS, **GROUP_PERFORMERS}
"""What carries out requests without waiting."""


class Performs(Protocol):
    """Carries out requests one by one."""

    client: Client

    async def perform(self, request: Request[T]) -> T:
        """Carry out a request. See `Backend.perform`."""
        ...

    @property
    def waiter_count(self) -> int:
        """Return how many reads are blocked in this gateway."""
        ...


def commands_of(backend: Performs, bounds: Bounds) -> CommandRunner:
    """Return what runs Redis commands on the servers of a backend."""
    performer = _Performer(backend)
    return CommandRunner(performer, bounds, _Servers(performer, backend.client))


class _Performer:
    """Carries out requests, one by one or several as a transaction."""

    waited_for = (0, 0)
    unsaved_count = 0

    def __init__(self, backend: Performs) -> None:
        self._backend = backend
        self.perform = backend.perform

    @property
    def waiter_count(self) -> int:
        """Return how many reads are blocked in this gateway."""
        return self._backend.waiter_count

    async def perform_all(self, requests: Sequence[Request[Any]]) -> list[Any | StreamError]:
        """Carry out requests with nothing in between, and return their replies or errors."""
        at_once = [
            replace(request, wait_ms=0) if isinstance(request, Read | ReadGroup) else request
            for request in requests
        ]
        return await perform_together(self._backend.client, _perform, at_once)


async def _perform(client: Client, request: Request[Any]) -> Any:
    perform = _AT_ONCE.get(type(request))
    if perform is None:
        raise NotSupported(type(request).__name__)
    return await perform(client, request)


class _Servers(ServerCommands):
    """Answers commands about the servers."""

    def __init__(self, performer: _Performer, client: Client) -> None:
        super().__init__(performer)
        self._client = client

    def info(self, words: Sequence[bytes]) -> AnyPlan:
        """INFO [section ...]: that of a primary, and what this gateway adds.

        It says much about the servers, so the request is one that only administrators may make.
        """

        async def finish(_: Reply) -> Reply:
            with as_stream_errors(b""):
                [address, *_others] = await self._client.known()
                text = await self._client.execute_at(address, *words, changes=False)
            return bytes(text) + self._about_gateway()

        return Plan(GetDefaults(), lambda _: None, finish=finish)

    def _about_gateway(self) -> bytes:
        client = self._client
        lines = {
            "headgate_version": version("headgate"),
            "headgate_servers": client.options.servers,
            "headgate_prefix": client.options.prefix.decode(errors="backslashreplace"),
            "headgate_blocked_reads": self._engine.waiter_count,
            "headgate_commands_processed": self.calls_count,
        }
        text = "".join(f"{name}:{value}\r\n" for name, value in lines.items())
        return f"\r\n# Headgate\r\n{text}".encode()
