"""Store: the facts of a backend for commands about the server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from headgate.app.backends.port import Durable, Journaled
from headgate.engine.errors import Unavailable
from headgate.engine.replies import JournalStatus


class WriteSafety(Protocol):
    """Servers that keep the streams, and say by themselves how safe they are."""

    async def replica_count(self) -> int:
        """Return how many replicas have everything that this gateway has written."""
        ...

    async def synced_counts(self, wanted: int) -> tuple[int, int]:
        """Return the numbers of primaries (0 or 1) and replicas that have all of it on disk.

        Args:
            wanted: how many primaries the client asks for: 0 or 1.

        Raises:
            StreamError: the servers cannot say that.
        """
        ...


class Store(NamedTuple):
    """The facts of the backend for commands about the server."""

    durable: Durable = Durable.NOTHING  # what an answer to a change has waited for
    journal: Journaled | None = None
    memory_bytes: Callable[[], Mapping[str, int]] = dict  # that the streams use, by kind
    servers: WriteSafety | None = None  # that answers have not waited for

    @property
    def status(self) -> JournalStatus | None:
        """Return the status of the journal; None: there is none, or it is not known yet."""
        if self.journal is None:
            return None
        try:
            return self.journal.status
        except Unavailable:
            return None
