"""The consumer that a connection reads as, and what happens to its entries."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

from headgate.app.backends.port import Backend, Holding
from headgate.app.backends.releasing import temporary_name
from headgate.engine.config import GroupPolicy, OnDisconnect
from headgate.engine.entry import EntryId
from headgate.engine.errors import NotFound, Unavailable, WrongType
from headgate.engine.requests import Request
from headgate.engine.requests.deliveries import GiveBack, Nack, NackMode
from headgate.engine.requests.groups import DeleteConsumer


@dataclass(frozen=True, slots=True)
class Subscriber:
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
        on_disconnect: OnDisconnect | None,
        *,
        policy: GroupPolicy,
        random: Random,
    ) -> "Subscriber":
        """Return a subscriber; its name is generated unless given."""
        keeps = policy.on_disconnect if on_disconnect is None else on_disconnect == "keep"
        if consumer is not None:
            return cls(stream, group, consumer, is_temporary=False, releases=not keeps)
        name = temporary_name(random.getrandbits(64))
        return cls(stream, group, name, is_temporary=True, releases=True)

    @property
    def _holding(self) -> Holding:
        return Holding(self.stream, self.group, self.consumer, self.is_temporary)

    async def enter(self, backend: Backend) -> None:
        """Register the consumer, so that other gateways release its entries if this one dies."""
        if self.releases:
            await backend.leases.register(self._holding)

    async def leave(
        self, backend: Backend, held: Mapping[EntryId, int], *, has_failed: bool
    ) -> None:
        """Give back what was sent and not settled.

        Entries that were delivered again since stay where they are, even with this consumer on
        another connection: `held` has the delivery count of each entry as it was sent. With
        `has_failed` the deliveries count as failed, as the consumer may have died of them;
        otherwise it is as if they had never happened.
        """
        names = self.stream, self.group
        give_back: Request[Any] = GiveBack(*names, self.consumer, held)
        if has_failed:
            mode, error = NackMode.FAIL, b"the connection of the consumer has broken"
            give_back = Nack(*names, [*held], mode, None, error, self.consumer, counts=held)
        leases = backend.leases
        try:
            with suppress(NotFound, WrongType):  # with the group all that was pending is gone
                if self.releases and held:
                    await backend.perform(give_back)
                if self.is_temporary:
                    await backend.perform(
                        DeleteConsumer(self.stream, self.group, self.consumer, release=True)
                    )
            if self.releases:
                await leases.unregister(self._holding)
        except Unavailable:
            if self.releases:
                leases.release_later(self._holding, held)
