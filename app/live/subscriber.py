"""Subscriber: the consumer that a connection reads as, and what becomes of its entries."""

import asyncio
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from headgate.app.backends.port import Backend, Holding
from headgate.engine.config import GroupPolicy, OnDisconnect
from headgate.engine.entry import EntryId
from headgate.engine.errors import NotFound, Unavailable, WrongType
from headgate.engine.requests.deliveries import GiveBack
from headgate.engine.requests.groups import DeleteConsumer, ListConsumers, ListGroups
from headgate.engine.requests.streams import ListStreams

_TEMPORARY = re.compile(rb"temporary-[0-9a-f]{16}")
_PAGE = 1000


async def remove_stranded(
    backend: Backend, is_held: Callable[[bytes, bytes, bytes], bool] = lambda *_: False
) -> None:
    """Remove the consumers whose connections ended with an earlier life of the gateway.

    If gateways have leases, other gateways do this when the lease of this one is over.

    Nobody can come back under a name that was made for one connection, so its entries go to the
    next reader at once. Names of this form belong to the gateway. A client that chooses one only
    loses its entries to the next reader.

    Args:
        backend: where to look.
        is_held: tells whether a connection reads as a consumer (stream, group, consumer).
    """
    after: bytes | None = None
    if backend.leases is not None:
        return
    while streams := await backend.perform(ListStreams(after=after, limit=_PAGE)):
        for stream in streams:
            for group in (
                await backend.perform(ListGroups(stream.name)) if stream.group_count else ()
            ):
                names = stream.name, group.name
                names_found = [
                    consumer.name for consumer in await backend.perform(ListConsumers(*names))
                ]
                gone = [
                    consumer
                    for consumer in names_found
                    if _TEMPORARY.fullmatch(consumer) and not is_held(*names, consumer)
                ]
                await asyncio.gather(
                    *(
                        backend.perform(DeleteConsumer(*names, consumer, release=True))
                        for consumer in gone
                    )
                )
        after = streams[-1].name


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A consumer of a group that reads over one connection."""

    stream: bytes
    group: bytes
    consumer: bytes
    is_temporary: bool  # the gateway made the name, and removes the consumer with the connection
    releases: bool  # what is not settled by the end goes back at once

    @classmethod
    def named_or_new(
        cls,
        stream: bytes,
        group: bytes,
        consumer: bytes | None,
        *,
        on_disconnect: OnDisconnect | None,
        policy: GroupPolicy,
        random: Random,
    ) -> "Subscriber":
        """Return a subscriber of that name; without a name one is made.

        What becomes of its entries in the end is what it says, or else what the policy says.
        """
        keeps = policy.on_disconnect if on_disconnect is None else on_disconnect == "keep"
        if consumer is not None:
            return cls(stream, group, consumer, is_temporary=False, releases=not keeps)
        name = b"temporary-%016x" % random.getrandbits(64)
        return cls(stream, group, name, is_temporary=True, releases=True)

    @property
    def _holding(self) -> Holding:
        return Holding(self.stream, self.group, self.consumer, self.is_temporary)

    async def enter(self, backend: Backend) -> None:
        """Let other gateways know the consumer, so that they release its entries if this one dies.

        Raises:
            Unavailable: they cannot know it now.
        """
        if backend.leases is not None and self.releases:
            await backend.leases.register(self._holding)

    async def leave(self, backend: Backend, held: Mapping[EntryId, int]) -> None:
        """Give back what was sent and not settled, as if it had never been delivered.

        What was delivered again since stays where it is, be it with this consumer on another
        connection.

        Args:
            backend: where it was read.
            held: delivery count of each entry, as it was sent.
        """
        leases = backend.leases
        try:
            with suppress(NotFound, WrongType):  # with the group all that was pending is gone
                if self.releases and held:
                    await backend.perform(GiveBack(self.stream, self.group, self.consumer, held))
                if self.is_temporary:
                    await backend.perform(
                        DeleteConsumer(self.stream, self.group, self.consumer, release=True)
                    )
            if leases is not None and self.releases:
                await leases.unregister(self._holding)
        except Unavailable:
            if leases is not None and self.releases:
                leases.release_later(self._holding, held)
