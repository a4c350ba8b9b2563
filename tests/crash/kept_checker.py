"""Checker: whether a stream holds what was appended, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from tests.crash.history import Id
from tests.crash.ledger import Ledger

NEVER = (0, 0)
"""When something was appended of which that is not known: no takeover can undo it."""


def not_kept(ledger: Ledger, kept: dict[Id, str]) -> Iterator[str]:
    """Yield the entries that a stream lacks and should hold, or holds and should not.

    Args:
        ledger: what was told.
        kept: the entries of the stream.
    """
    for entry_id, value in kept.items():
        if ledger.appended.get(entry_id) != value:
            yield f"7: {entry_id} holds {value}, and nobody was told so"
    for entry_id in ledger.appended.keys() - kept.keys():
        if not ledger.answer_is_undone(*ledger.append_spans.get(entry_id, NEVER)):
            yield f"7: {entry_id} is not there, and was appended"
    yield from _not_the_last(ledger, kept)


def delivered_from_nowhere(ledger: Ledger, kept: dict[Id, str]) -> Iterator[str]:
    """Yield deliveries of what is not there, and was not undone after them."""
    for delivery in ledger.deliveries:
        if delivery.entry_id not in kept and not ledger.delivery_is_undone(delivery):
            yield f"7: {delivery}, and it is not there"


def _not_the_last(ledger: Ledger, kept: dict[Id, str]) -> Iterator[str]:
    """Yield appends that a takeover kept though it undid earlier ones: a replica has the first."""
    for takeover in ledger.takeovers:
        last = [
            entry_id
            for entry_id, (_, answered_at) in ledger.append_spans.items()
            if takeover.safe.at < answered_at < takeover.dead.at
        ]
        undone = min((entry_id for entry_id in last if entry_id not in kept), default=None)
        if undone is not None:
            for entry_id in last:
                if entry_id > undone and entry_id in kept:
                    yield f"7: {undone} is not there, and {entry_id} is"
