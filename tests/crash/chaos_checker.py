"""Checker: whether every entry of a group was settled once, by one owner at a time."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.crash.history import Id, Settling
from tests.crash.ledger import Delivery, Ledger, Left

FAILING = "fails"
"""An entry of this value is never acknowledged by anybody."""


def violations(ledger: Ledger, left: Left, *, max_deliveries: int) -> list[str]:
    """Return what is wrong; nothing, if every entry was looked after.

    An ack or nack whose answer was lost may have had its effect or not.

    The end

    1. Every appended entry is acknowledged once or a dead letter once, and never both: an
       `acked` was answered once at most, and is missing only where an answer was lost.
    2. What always fails is a dead letter. Every dead letter was delivered `max_deliveries` times
       or more, and holds what was sent.
    3. Nothing is pending, the lag is 0, no read is blocked, no connection is counted, and no
       consumer made for a connection has outlived it.

    On the way

    4. An entry whose ack was answered is not delivered by anything the gateway sent after that.
    5. A delivery is counted: an entry comes with the same count again only if the connection it
       came through before has ended, and never twice through one.
    6. One owner at a time: while somebody holds a later delivery of an entry, neither an ack nor a
       nack of an earlier owner has an effect. It may be held no more after a nack, or where any
       connection has ended since: a third may have had it, and lost it with its connection.

    Args:
        ledger: what was told.
        left: what is there in the end.
        max_deliveries: as the group's policy has it.
    """
    return [
        *_not_settled_once(ledger, left),
        *_dead_letters(ledger, left, max_deliveries),
        *_left_behind(left),
        *_delivered_after_ack(ledger),
        *_not_counted(ledger),
        *_two_owners(ledger),
    ]


def violations_on_receipt(ledger: Ledger) -> list[str]:
    """Return what is wrong with entries that are done with as they are sent: at most once.

    What a connection was sent before something else is acknowledged: once, and rules 4 and 5 hold.
    The last part of a connection that broke may be lost, and may come again.
    """
    acked = Counter(entry_id for each in ledger.settlings for entry_id in _effective(each, "acked"))
    twice = [
        f"1: {entry_id}: acked {count} times" for entry_id, count in acked.items() if count > 1
    ]
    return [*twice, *_delivered_after_ack(ledger), *_not_counted(ledger)]


def violations_on_reconnect(ledger: Ledger) -> list[str]:
    """Return what is wrong with entries that the next connection acknowledges: at least once.

    None is done with that nobody has seen; and rule 5 holds.
    """
    unseen = ledger.appended.keys() - {delivery.entry_id for delivery in ledger.deliveries}
    return [
        *(f"1: nobody has seen {entry_id}" for entry_id in sorted(unseen)),
        *_not_counted(ledger),
    ]


def _not_settled_once(ledger: Ledger, left: Left) -> Iterator[str]:
    acked = Counter(entry_id for each in ledger.settlings for entry_id in _effective(each, "acked"))
    dead = Counter(dead_letter.entry_id for dead_letter in left.dead_letters)
    unknown = {
        entry_id
        for settling in ledger.settlings
        if settling.kind == "ack" and settling.answered_at is None
        for entry_id in settling.ids
    }
    for entry_id in ledger.appended.keys() | acked.keys() | dead.keys():
        count = acked[entry_id] + dead[entry_id]
        if entry_id not in ledger.appended:
            yield f"1: {entry_id} was never appended"
        elif count > 1 or (count == 0 and entry_id not in unknown):
            yield f"1: {entry_id}: acked {acked[entry_id]} times, {dead[entry_id]} dead letters"


def _dead_letters(ledger: Ledger, left: Left, max_deliveries: int) -> Iterator[str]:
    dead = {dead_letter.entry_id for dead_letter in left.dead_letters}
    for entry_id, value in ledger.appended.items():
        if value.startswith(FAILING) and entry_id not in dead:
            yield f"2: {entry_id} always fails, and is no dead letter"
    for dead_letter in left.dead_letters:
        if dead_letter.delivery_count < max_deliveries:
            yield f"2: {dead_letter} was given up too early"
        if ledger.appended.get(dead_letter.entry_id) != dead_letter.value:
            yield f"2: {dead_letter} holds something else"
    for entry_id in ledger.wrong_values:
        yield f"2: {entry_id} was delivered with something else in it"


def _left_behind(left: Left) -> Iterator[str]:
    if left._replace(dead_letters=[]) != Left(0, 0, 0, 0, [], []):
        yield f"3: {left._replace(dead_letters=[])}"


def _delivered_after_ack(ledger: Ledger) -> Iterator[str]:
    acked_at = {
        entry_id: each.answered_at
        for each in ledger.settlings
        for entry_id in _effective(each, "acked")
    }
    for delivery in ledger.deliveries:
        at = acked_at.get(delivery.entry_id)
        if at is not None and at < delivery.sent_after:
            yield f"4: {delivery}, and it was acknowledged at {at}"


def _not_counted(ledger: Ledger) -> Iterator[str]:
    first: dict[tuple[Id, int], Delivery] = {}
    for delivery in ledger.deliveries:
        known = first.setdefault((delivery.entry_id, delivery.delivery_count), delivery)
        if known is delivery:
            continue
        if known.channel is delivery.channel:
            yield f"5: {delivery} came twice"
        elif known.channel.ended_at is None and delivery.channel.ended_at is None:
            yield f"5: {delivery} and {known}"
        if delivery.channel.ended_at is None:
            first[delivery.entry_id, delivery.delivery_count] = delivery


def _two_owners(ledger: Ledger) -> Iterator[str]:
    deliveries: dict[Id, list[Delivery]] = defaultdict(list)
    for delivery in ledger.deliveries:
        deliveries[delivery.entry_id].append(delivery)
    nacked: dict[tuple[str, Id], list[int]] = defaultdict(list)
    for settling in ledger.settlings:
        for entry_id in settling.ids if settling.kind == "nack" else ():
            nacked[settling.consumer, entry_id].append(settling.sent_at)
    ends = sorted(
        [channel.ended_at for channel in ledger.channels if channel.ended_at] + ledger.restarts
    )
    for settling in ledger.settlings:
        for entry_id in _effective(settling, "acked", "released"):
            own = [
                delivery for delivery in deliveries[entry_id] if _is_to(delivery, settling.consumer)
            ]
            count = max(delivery.delivery_count for delivery in own)
            for other in deliveries[entry_id]:
                if (
                    not _is_to(other, settling.consumer)
                    and other.delivery_count > count
                    and _lasts(other.at, settling, ends)
                    and _lasts(other.at, settling, nacked[other.channel.consumer, entry_id])
                ):
                    yield f"6: {settling.consumer} settled {entry_id}, which {other} held"


def _lasts(at: int, settling: Settling, ends: list[int]) -> bool:
    """Tell whether what began before a settling was sent had not ended when it was answered."""
    following = bisect_right(ends, at)
    assert settling.answered_at is not None
    is_over = following < len(ends) and ends[following] < settling.answered_at
    return at < settling.sent_at and not is_over


def _effective(settling: Settling, *outcomes: str) -> list[Id]:
    return [entry_id for entry_id, outcome in settling.outcomes.items() if outcome in outcomes]


def _is_to(delivery: Delivery, consumer: str) -> bool:
    return delivery.channel.consumer == consumer
