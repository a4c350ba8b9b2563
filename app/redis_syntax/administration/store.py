"""Store: what commands about the server know of what keeps the streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from headgate.app.backends.port import Durable, Journaled
from headgate.engine.errors import Unavailable
from headgate.engine.replies import JournalStatus


class Store(NamedTuple):
    """What keeps the streams."""

    durable: Durable = Durable.NOTHING  # what an answer to a change has waited for
    journal: Journaled | None = None
    memory_bytes: Callable[[], Mapping[str, int]] = dict  # that the streams use, by kind

    @property
    def status(self) -> JournalStatus | None:
        """Return the status of the journal; None: there is none, or it is not known yet."""
        if self.journal is None:
            return None
        try:
            return self.journal.status
        except Unavailable:
            return None
