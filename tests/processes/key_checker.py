"""Checker: whether the entries of each key were delivered in order, so many of them at once."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise

from tests.processes.ledger import Delivery, Id, Ledger


def violations_of_order(
    ledger: Ledger,
    key_of: Callable[[str], str],
    pending_max: int,
    given_up: set[Id],
    kept: Collection[Id],
) -> list[str]:
    """Return the violations of the order by key.

    1. When an entry comes, fewer than `pending_max` earlier ones of its key are not settled: there
       are so many turns at most, and they are given in order. So no more are pending at once.
    2. If there is one turn: nothing is sent of a key that is earlier than what has come before.
    3. If there is one turn: the acks of a key that had an effect were sent in the order of its
       entries.

    An entry counts as settled from the moment at which somebody first sent an ack of it.

    Args:
        ledger: what was told.
        key_of: returns the key of a value.
        pending_max: the turns of a key.
        given_up: the entries that are dead letters; when their turn ended is not known.
        kept: the entries that the stream has in the end.
    """
    settled_at = dict.fromkeys(given_up, 0)
    acked_at: dict[Id, int] = {}
    for settling in ledger.settlings:
        for entry_id in settling.ids if settling.kind == "ack" else ():
            settled_at.setdefault(entry_id, settling.sent_at)
            if settling.outcomes.get(entry_id) == "acked":
                acked_at[entry_id] = settling.sent_at
    entries: defaultdict[str, list[Id]] = defaultdict(list)
    for entry_id, value in sorted(ledger.appended.items()):
        if entry_id in kept:
            entries[key_of(value)].append(entry_id)
    deliveries: defaultdict[str, list[Delivery]] = defaultdict(list)
    for delivery in ledger.deliveries:
        if delivery.entry_id in ledger.appended:  # or its append was not answered
            deliveries[key_of(ledger.appended[delivery.entry_id])].append(delivery)
    wrong: list[str] = []
    for key, ids in entries.items():
        wrong += _too_early(deliveries[key], ids, settled_at, pending_max)
        if pending_max == 1:
            wrong += _gone_back(deliveries[key])
            wrong += _settled_in_disorder(ids, acked_at)
    return wrong


def _too_early(
    deliveries: Sequence[Delivery], ids: Sequence[Id], settled_at: dict[Id, int], pending_max: int
) -> Iterator[str]:
    unsettled = list(reversed(ids))
    for delivery in deliveries:
        while unsettled and settled_at.get(unsettled[-1], math.inf) < delivery.at:
            unsettled.pop()
        before: list[Id] = []
        for entry_id in reversed(unsettled):
            if entry_id >= delivery.entry_id or len(before) == pending_max:
                break
            if settled_at.get(entry_id, math.inf) > delivery.at:
                before.append(entry_id)
        if len(before) == pending_max:
            yield f"1: {delivery}, and {before} were not settled"


def _gone_back(deliveries: Sequence[Delivery]) -> Iterator[str]:
    seen_at: list[int] = []
    latest: list[Id] = []
    for delivery in deliveries:
        before = bisect_left(seen_at, delivery.sent_after)
        if before and latest[before - 1] > delivery.entry_id:
            yield f"2: {delivery}, and {latest[before - 1]} was there"
        seen_at.append(delivery.at)
        latest.append(max([delivery.entry_id, *latest[-1:]]))


def _settled_in_disorder(ids: Sequence[Id], acked_at: dict[Id, int]) -> Iterator[str]:
    for before, after in pairwise(entry_id for entry_id in ids if entry_id in acked_at):
        if acked_at[before] > acked_at[after]:
            yield f"3: {after} was acknowledged before {before}"
