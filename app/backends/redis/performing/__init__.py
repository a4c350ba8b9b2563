"""The function that carries out each request, as a table."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from headgate.app.backends.port import Way
from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.library import Effect
from headgate.engine.errors import NotSupported
from headgate.engine.requests import Request

T = TypeVar("T")

PerformBy = Callable[[Client, Any], Coroutine[Any, Any, Any]]


class Performer(NamedTuple):
    way: Way
    perform: PerformBy


Performers = dict[type[Request[Any]], Performer]
"""For each type of request, how it is carried out."""


def portions(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the items in turn, so many at a time."""
    for at in range(0, len(items), size):
        yield items[at : at + size]


def natively(perform: PerformBy) -> Performer:
    """Return a performer that uses only commands of the server."""
    return Performer(Way.NATIVELY, perform)


def by_function(perform: PerformBy) -> Performer:
    """Return a performer that calls our functions in the server, perhaps beside commands."""
    return Performer(Way.BY_FUNCTION, perform)


def by_operation(effect: Effect, read: Callable[[Any], Any] = lambda _: None) -> Performer:
    """Return a performer that calls the operation named like the request; `read` its reply."""

    async def perform(client: Client, request: Request[Any]) -> Any:
        return read(await client.perform(effect, request))

    return by_function(perform)


TABLES = "tables (`key_field` of a stream)"
"""What servers do not have, as `NotSupported` says it."""


def not_supported(what: str) -> Performer:
    async def refuse(client: Client, request: Request[Any]) -> Any:
        del client, request
        raise NotSupported(what)

    return Performer(Way.NOT, refuse)
