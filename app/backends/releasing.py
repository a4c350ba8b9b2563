"""Releasing: entries of a connection that cannot settle them any more.

`app.live.subscriber` does the same while the connection ends. These functions are for backends with
leases, which release what others held, or what could not be released at the end of a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from headgate.app.backends.port import Holding
from headgate.engine.entry import MAX_ID, MIN_ID, EntryId
from headgate.engine.errors import StreamError, Unavailable
from headgate.engine.requests import Request
from headgate.engine.requests.deliveries import GiveBack, ListPending
from headgate.engine.requests.groups import DeleteConsumer

_PAGE = 1_000
"""Pending entries that are released at once."""

Perform = Callable[[Request[Any]], Coroutine[Any, Any, Any]]
"""Carries out requests."""


async def give_back(perform: Perform, holding: Holding, counts: Mapping[EntryId, int]) -> None:
    """Give back what a connection held, and delete a consumer that was made for it.

    Args:
        perform: carries out requests.
        holding: the consumer that the connection read as.
        counts: the delivery counts of the entries that it held.

    Raises:
        Unavailable: nothing can be changed now.
    """
    with ignoring_what_is_gone():
        if counts:
            await perform(GiveBack(holding.stream, holding.group, holding.consumer, counts))
        if holding.is_temporary:
            await delete_consumer(perform, holding)


async def release_pending(perform: Perform, holding: Holding, idle_ms: int = 0) -> None:
    """Give back what a consumer holds, page by page.

    Args:
        perform: carries out requests.
        holding: the consumer.
        idle_ms: only entries that have been idle for so long.

    Raises:
        StreamError: the group is gone, or nothing can be changed now.
    """
    names = holding.stream, holding.group
    start: EntryId | None = MIN_ID
    while start is not None:
        pending = await perform(
            ListPending(*names, start, MAX_ID, _PAGE, holding.consumer, idle_ms)
        )
        if pending:
            counts = {item.id: item.delivery_count for item in pending}
            await perform(GiveBack(*names, holding.consumer, counts))
        start = pending[-1].id.next() if len(pending) == _PAGE else None


async def delete_consumer(perform: Perform, holding: Holding) -> None:
    """Delete a consumer; what it holds goes to the next reader."""
    await perform(DeleteConsumer(holding.stream, holding.group, holding.consumer, release=True))


@contextmanager
def ignoring_what_is_gone() -> Iterator[None]:
    """Suppress errors that say that there is nothing to release any more."""
    try:
        yield
    except Unavailable:
        raise
    except StreamError:
        pass
