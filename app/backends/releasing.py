"""Release the entries of a connection that cannot settle them any more.

`app.live.subscriber` does the same while the connection ends. These functions are for backends with
leases, which release what others held, or what could not be released at the end of a connection.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from headgate.app.backends.port import Backend, Holding, Perform
from headgate.engine.entry import MAX_ID, MIN_ID, EntryId
from headgate.engine.errors import StreamError, Unavailable
from headgate.engine.requests.deliveries import GiveBack, ListPending
from headgate.engine.requests.groups import DeleteConsumer, ListConsumers, ListGroups
from headgate.engine.requests.streams import ListStreams

_PAGE = 1_000
"""Pending entries that are released at once, and streams that are looked through at once."""

_LEFT_MAX = 100_000
"""So many connections may end while nothing can be changed; a start removes what is beyond."""

_PAUSE_S = 0.5

_TEMPORARY = re.compile(rb"temporary-[0-9a-f]{16}")


def temporary_name(number: int) -> bytes:
    """Return the name of a consumer created for one connection, from a random 64-bit number."""
    return b"temporary-%016x" % number


async def give_back(perform: Perform, holding: Holding, counts: Mapping[EntryId, int]) -> None:
    """Give back what a connection held, and delete its temporary consumer.

    `counts` are the delivery counts of the entries. Raises Unavailable if nothing can be changed
    now.
    """
    with ignoring_what_is_gone():
        if counts:
            await perform(GiveBack(holding.stream, holding.group, holding.consumer, counts))
        if holding.is_temporary:
            await delete_consumer(perform, holding)


async def release_pending(perform: Perform, holding: Holding, idle_ms: int = 0) -> None:
    """Give back, page by page, what a consumer holds and was idle for `idle_ms`.

    Raises StreamError if the group is gone or nothing can be changed now.
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
    await perform(DeleteConsumer(holding.stream, holding.group, holding.consumer, release=True))


@contextmanager
def ignoring_what_is_gone() -> Iterator[None]:
    """Suppress errors that mean that there is nothing left to release."""
    try:
        yield
    except Unavailable:
        raise
    except StreamError:
        pass


class LateReleases:
    """The connections of this process, and what to release once that is possible.

    It is a `Leases`, though no other gateway can release anything.
    """

    def __init__(self, perform: Perform) -> None:
        self._perform = perform
        self._left: deque[tuple[Holding, Mapping[EntryId, int]]] = deque(maxlen=_LEFT_MAX)
        self._temporary: set[tuple[bytes, bytes, bytes]] = set()
        self._wake = asyncio.Event()

    async def register(self, holding: Holding) -> None:
        if holding.is_temporary:
            self._temporary.add((holding.stream, holding.group, holding.consumer))

    async def unregister(self, holding: Holding) -> None:
        self._temporary.discard((holding.stream, holding.group, holding.consumer))

    def is_held(self, stream: bytes, group: bytes, consumer: bytes) -> bool:
        return (stream, group, consumer) in self._temporary

    def release_later(self, holding: Holding, counts: Mapping[EntryId, int]) -> None:
        """Release a connection's entries once changes are accepted again."""
        self._temporary.discard((holding.stream, holding.group, holding.consumer))
        self._left.append((holding, counts))
        self._wake.set()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            await asyncio.sleep(_PAUSE_S)
            with suppress(Unavailable):
                while self._left:
                    await give_back(self._perform, *self._left[0])
                    self._left.popleft()
                self._wake.clear()


async def remove_stranded(
    backend: Backend, is_held: Callable[[bytes, bytes, bytes], bool] | None = None
) -> None:
    """Remove the consumers whose connections ended with an earlier life of the gateway.

    If gateways have leases, other gateways do this when the lease of this one expires. Nobody can
    come back under a name that was created for one connection, so its entries go to the next reader
    at once. Names of this form belong to the gateway; a client that chooses one only loses its
    entries to the next reader. `is_held` (stream, group, consumer) None: the backend knows.
    """
    after: bytes | None = None
    leases = backend.leases
    if not isinstance(leases, LateReleases):
        return
    is_held = is_held or leases.is_held
    while streams := await backend.perform(ListStreams(after=after, limit=_PAGE)):
        for stream in streams:
            if stream.group_count:
                with ignoring_what_is_gone():  # clients act meanwhile
                    await _remove_stranded_of(backend, stream.name, is_held)
        after = streams[-1].name


async def _remove_stranded_of(
    backend: Backend, stream: bytes, is_held: Callable[[bytes, bytes, bytes], bool]
) -> None:
    for group in await backend.perform(ListGroups(stream)):
        with ignoring_what_is_gone():
            consumers = await backend.perform(ListConsumers(stream, group.name))
            gone = [
                consumer.name
                for consumer in consumers
                if _TEMPORARY.fullmatch(consumer.name)
                and not is_held(stream, group.name, consumer.name)
            ]
            await asyncio.gather(
                *(
                    backend.perform(DeleteConsumer(stream, group.name, name, release=True))
                    for name in gone
                )
            )
