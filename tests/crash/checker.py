"""Checker: compares what is there after a crash with the answers that clients got before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise

from tests.crash.history import History, Id, State, Taking


def violations(history: History, before: State, after: State) -> list[str]:
    """Return the violations of the promises; none, if all were kept.

    A request that was not answered may have had its effect or not, but no half of it.

    Entries

    1. Every answered append is there: each id holds what was sent under it.
    2. A batch is there as a whole, its entries next to each other, or not at all.
    3. Nothing is there twice, also not under two ids, however often an append was sent again.
    4. Nothing is there that was not sent.
    5. What was found once is found again, with the same content.
    6. Ids grow: in the stream, and in the order in which one client was answered.

    Deliveries

    7. An entry that was answered as acknowledged is not pending, and no request sent after that
       answer is given it.
    8. An entry that was answered as delivered is pending with its consumer, or with whom a later
       request gave it to, or settled by one. Which of two answered requests came later is known
       only if one was sent after the other was answered.
    9. What is pending with a consumer was told to it, or taken by a request of its own that was
       not answered, or was pending with it before.
    10. What the group has passed is pending or acknowledged; an acknowledgement that was not
        answered may have had its effect. What it has not passed is neither.
    11. Delivery counts do not go back behind what was told.

    Args:
        history: what was sent and answered.
        before: what was found at the beginning of the round.
        after: what was found after the crash.
    """
    return [
        *_lost_or_changed(history, after),
        *_torn_batches(history, after),
        *_doubled_or_made_up(history, after),
        *_gone_since(before, after),
        *_out_of_order(history, after),
        *_acknowledged_in_vain(history, after),
        *_of_another_consumer(history, before, after),
        *_not_accounted_for(history, before, after),
        *_counted_back(history, after),
    ]


# Entries


def _lost_or_changed(history: History, after: State) -> Iterator[str]:
    for append in history.appends:
        for entry_id, value in zip(append.ids or (), append.values, strict=False):
            stored = after.entries.get(entry_id)
            if stored != value:
                yield f"1: {append.client} was told {entry_id} for {value!r}; it holds {stored!r}"


def _torn_batches(history: History, after: State) -> Iterator[str]:
    place_of = {value: place for place, value in enumerate(after.entries.values())}
    for append in history.appends:
        places = [place_of[value] for value in append.values if value in place_of]
        first = places[0] if places else 0
        if places and places != list(range(first, first + len(append.values))):
            yield f"2: of {append.values} there is only {len(places)}, or not in one piece"


def _doubled_or_made_up(history: History, after: State) -> Iterator[str]:
    sent = {value for append in history.appends for value in append.values}
    for value, count in Counter(after.entries.values()).items():
        if count > 1:
            yield f"3: {value!r} is there {count} times"
        if value not in sent:
            yield f"4: {value!r} was never sent"


def _gone_since(before: State, after: State) -> Iterator[str]:
    for entry_id, value in before.entries.items():
        if after.entries.get(entry_id) != value:
            yield f"5: {entry_id} held {value!r} before, now {after.entries.get(entry_id)!r}"


def _out_of_order(history: History, after: State) -> Iterator[str]:
    for who, ids in [("the stream", list(after.entries)), *history.answered.items()]:
        for previous, next_one in pairwise(ids):
            if previous >= next_one:
                yield f"6: {who} has {next_one} after {previous}"


# Deliveries


def _acknowledged_in_vain(history: History, after: State) -> Iterator[str]:
    for entry_id in history.acked.keys() & after.pending.keys():
        yield f"7: {entry_id} was acknowledged, and is pending: {after.pending[entry_id]}"
    for taking in history.takings:
        for entry_id in taking.deliveries:
            if history.acked.get(entry_id, taking.sent_at) < taking.sent_at:
                yield f"7: {entry_id} was acknowledged, then delivered to {taking.consumer}"


Change = tuple[int, int | None, str]
"""A possible change of an entry by a request: when sent, when answered, and the state then."""

_NOBODY = "(nobody)"
_SETTLED = "(settled)"


def _of_another_consumer(history: History, before: State, after: State) -> Iterator[str]:
    """Rules 8 and 9."""
    changes = _changes(history)
    lost_reads = {taking.consumer for taking in history.takings if _is_lost_read(taking)}
    for entry_id in before.pending.keys() | after.pending.keys() | changes.keys():
        allowed = _last_of(changes.get(entry_id, []))
        if not any(answered_at for _, answered_at, _ in changes.get(entry_id, [])):
            known = before.pending.get(entry_id)
            allowed.add(_NOBODY if known is None else known.consumer or _NOBODY)
        if _NOBODY in allowed:  # a read may have taken it, and its answer was lost
            allowed |= lost_reads
        pending = after.pending.get(entry_id)
        state = _SETTLED if pending is None else pending.consumer or _NOBODY
        is_new = entry_id not in before.pending and entry_id > before.group_position
        if pending is None and is_new and entry_id > after.group_position:
            state = _NOBODY  # not delivered at all
        if state not in allowed:
            yield f"8, 9: {entry_id} is with {state}, and may only be with {sorted(allowed)}"


def _is_lost_read(taking: Taking) -> bool:
    return taking.claimed is None and taking.answered_at is None


def _changes(history: History) -> dict[Id, list[Change]]:
    changes: dict[Id, list[Change]] = {}
    for taking in history.takings:
        ids: Iterable[Id] = taking.deliveries
        if taking.answered_at is None:
            ids = taking.claimed or ()
        for entry_id in ids:
            change = (taking.sent_at, taking.answered_at, taking.consumer)
            changes.setdefault(entry_id, []).append(change)
    states = {"ack": _SETTLED, "nack": _NOBODY}
    for settling in history.settlings:
        for entry_id in settling.ids:
            if settling.outcomes.get(entry_id, "acked") in ("acked", "released"):
                change = (settling.sent_at, settling.answered_at, states[settling.kind])
                changes.setdefault(entry_id, []).append(change)
    return changes


def _last_of(changes: list[Change]) -> set[str]:
    """Return the states after those changes that nothing is known to have come after."""
    last_sent_at = max((sent for sent, answered, _ in changes if answered is not None), default=0)
    return {state for _, answered, state in changes if answered is None or answered >= last_sent_at}


def _not_accounted_for(history: History, before: State, after: State) -> Iterator[str]:
    settlings = [settling for settling in history.settlings if settling.kind == "ack"]
    maybe_acked = {
        entry_id for settling in settlings for entry_id in settling.ids if not settling.outcomes
    }
    for entry_id in after.settled() - before.settled() - history.acked.keys() - maybe_acked:
        yield f"10: {entry_id} was passed, is not pending, and nobody acknowledged it"
    for entry_id in after.pending.keys() - after.entries.keys():
        yield f"10: {entry_id} is pending, and is no entry"
    for entry_id in after.pending:
        if entry_id > after.group_position:
            yield f"10: {entry_id} is pending behind the group's position"


def _counted_back(history: History, after: State) -> Iterator[str]:
    for taking in history.takings:
        for entry_id, count in taking.deliveries.items():
            pending = after.pending.get(entry_id)
            if pending is not None and pending.delivery_count < count:
                yield f"11: {entry_id} was delivered {count} times, now it says {pending}"
