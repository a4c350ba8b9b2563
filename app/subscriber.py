"""Subscriber: who a long-lived connection reads as, and what becomes of its entries in the end."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Literal

import anyio

from app.backend import Backend
from engine.entry import EntryId
from engine.errors import NotFound, Unavailable
from engine.policy import GroupPolicy


@dataclass(frozen=True)
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
        on_disconnect: Literal["release", "keep"] | None,
        policy: GroupPolicy,
        random: Random,
    ) -> "Subscriber":
        """Return a subscriber of that name; without a name one is made.

        What becomes of its entries in the end is what it says, or else what the policy says.
        """
        releases = not policy.keeps if on_disconnect is None else on_disconnect == "release"
        if consumer is not None:
            return cls(stream, group, consumer, is_temporary=False, releases=releases)
        name = f"temporary-{random.getrandbits(64):016x}".encode()
        return cls(stream, group, name, is_temporary=True, releases=True)

    async def leave(self, backend: Backend, held: Mapping[EntryId, int]) -> None:
        """Give back what was sent and not settled, as if it had never been delivered.

        What was delivered again since stays where it is, be it with this consumer on another
        connection. Runs to its end even if the connection is cancelled.

        Args:
            backend: where it was read.
            held: delivery count of each entry, as it was sent.
        """
        with anyio.CancelScope(shield=True):
            try:
                if self.releases and held:
                    await backend.give_back(self.stream, self.group, self.consumer, held)
                if self.is_temporary:
                    await backend.delete_consumer(
                        self.stream, self.group, self.consumer, release=True
                    )
            except (NotFound, Unavailable):
                pass  # the group is gone, and with it all that was pending; or nothing can change
