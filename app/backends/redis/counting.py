"""Counting: what this gateway has appended and acknowledged, from requests and their replies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headgate.app.backends.port import BackendActivity
from headgate.engine.replies import Added, Committed, Deletion, Outcome
from headgate.engine.requests import Request
from headgate.engine.requests.bulk import CommitBatch
from headgate.engine.requests.deliveries import Ack, AckAndDelete
from headgate.engine.requests.entries import Add


class Counts:
    """Counts since the start. What other clients of the servers do is not in them."""

    def __init__(self) -> None:
        """Begin at zero."""
        self._appended_count = self._acked_count = 0

    @property
    def activity(self) -> BackendActivity:
        """Return the counts."""
        return BackendActivity(self._appended_count, self._acked_count)

    def note(self, request: Request[Any], reply: Any) -> None:
        """Count the effects of a request."""
        kind = type(request)
        if kind in _APPENDED:
            self._appended_count += _APPENDED[kind](reply)
        elif kind in _ACKED:
            self._acked_count += _ACKED[kind](reply)


def _of_append(added: Added) -> int:
    return 0 if added.is_repeat else len(added.ids)


def _of_batch(committed: Committed) -> int:
    return sum(written.entries for written in committed.streams)


_APPENDED: dict[type[Request[Any]], Callable[[Any], int]] = {
    Add: _of_append,
    CommitBatch: _of_batch,
}

_ACKED: dict[type[Request[Any]], Callable[[Any], int]] = {
    Ack: lambda outcomes: sum(outcome is Outcome.ACKED for outcome in outcomes),
    AckAndDelete: lambda outcomes: sum(each is not Deletion.NOT_FOUND for each in outcomes),
}
