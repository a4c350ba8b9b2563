"""Checker: whether every entry of a group was settled once, by one owner at a time."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.processes.ledger import Delivery, Id, Ledger, Left, Settling

FAILING = "fails"
"""An entry of this value is never acknowledged by anybody."""


def violations(ledger: Ledger, left: Left, *, max_deliveries: int) -> list[str]:
    """Return the violations of the rules; none, if every entry was looked after.

    All moments are counts of what was noted (`Ledger.tick`), and no times. An ack or nack whose
    answer was lost may have had its effect or not.

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
       nack of an earlier owner has an effect. It may be held no more after a nack of whoever has
       been given it since, or where any connection has ended since: a third may have had it, and
       lost it with its connection. While servers fail, gateways end connections, and those who
       hold it notice that later. Nor may anybody else hold it where the earlier owner has been
       given it again, and that is unread. An ack by Redis's words, which name nobody, is excepted.

    The stream

    7. It holds what was answered as appended, with these values, and nothing else; and nothing else
       is delivered.

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
        *not_kept(ledger, left.kept),
        *delivered_from_nowhere(ledger, left.kept),
    ]


def violations_on_receipt(ledger: Ledger, kept: dict[Id, str]) -> list[str]:
    """Return the violations with entries that are settled as they are sent: at most once.

    What a connection was sent before something else is acknowledged: once, and rules 4 and 5 hold.
    The last part of a connection that broke may be lost, and may come again.
    """
    return [
        *_acked_again(ledger),
        *_delivered_after_ack(ledger),
        *_not_counted(ledger),
        *delivered_from_nowhere(ledger, kept),
    ]


def violations_on_reconnect(ledger: Ledger, kept: dict[Id, str]) -> list[str]:
    """Return the violations with entries that the next connection acknowledges: at least once.

    None is done with that nobody has seen; and rule 5 holds.
    """
    unseen = kept.keys() - {delivery.entry_id for delivery in ledger.deliveries}
    return [
        *(f"1: nobody has seen {entry_id}" for entry_id in sorted(unseen)),
        *_not_counted(ledger),
        *delivered_from_nowhere(ledger, kept),
    ]


def _not_settled_once(ledger: Ledger, left: Left) -> Iterator[str]:
    acks, dead = _acks(ledger), Counter(each.entry_id for each in left.dead_letters)
    unknown = {
        entry_id
        for settling in ledger.settlings
        if settling.kind == "ack" and settling.answered_at is None
        for entry_id in settling.ids
    }
    for entry_id in ledger.appended.keys() | acks.keys() | dead.keys():
        count = len(acks.get(entry_id, ())) + dead[entry_id]
        if entry_id not in ledger.appended:
            yield f"1: {entry_id} was never appended"
        elif count > 1 or (not count and entry_id in left.kept and entry_id not in unknown):
            yield f"1: {entry_id}: acked {len(acks.get(entry_id, ()))} times, {dead[entry_id]} dead"
        if count and entry_id not in left.kept:
            yield f"7: {entry_id} is not there, and was settled"


def _acked_again(ledger: Ledger) -> Iterator[str]:
    for entry_id, acks in _acks(ledger).items():
        if len(acks) > 1:
            yield f"1: {entry_id}: acked {len(acks)} times"


def _dead_letters(ledger: Ledger, left: Left, max_deliveries: int) -> Iterator[str]:
    dead = {dead_letter.entry_id for dead_letter in left.dead_letters}
    for entry_id, value in ledger.appended.items():
        if value.startswith(FAILING) and entry_id in left.kept and entry_id not in dead:
            yield f"2: {entry_id} always fails, and is no dead letter"
    for dead_letter in left.dead_letters:
        if dead_letter.delivery_count < max_deliveries:
            yield f"2: {dead_letter} was given up too early"
        value = ledger.appended.get(dead_letter.entry_id, dead_letter.value)
        if value != dead_letter.value:
            yield f"2: {dead_letter} holds something else"
    for entry_id in ledger.wrong_values:
        yield f"2: {entry_id} was delivered with something else in it"


def _left_behind(left: Left) -> Iterator[str]:
    behind = left._replace(dead_letters=[], kept={})
    if behind != Left(0, 0, 0, 0, [], [], {}):
        yield f"3: {behind}"


def _delivered_after_ack(ledger: Ledger) -> Iterator[str]:
    acks = _acks(ledger)
    for delivery in ledger.deliveries:
        for ack in acks.get(delivery.entry_id, ()):
            if _answered_at(ack) < delivery.sent_after:
                yield f"4: {delivery}, and it was acknowledged at {ack.answered_at}"


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
    counts: dict[tuple[str, Id], int] = defaultdict(int)  # of the last delivery to a consumer
    for delivery in ledger.deliveries:
        deliveries[delivery.entry_id].append(delivery)
        to = delivery.channel.consumer, delivery.entry_id
        counts[to] = max(counts[to], delivery.delivery_count)
    nacks: dict[Id, list[Settling]] = defaultdict(list)
    for settling in ledger.settlings:
        for entry_id in settling.ids if settling.kind == "nack" else ():
            nacks[entry_id].append(settling)
    ends = sorted(
        [channel.ended_at for channel in ledger.channels if channel.ended_at] + ledger.restarts
    )
    for settling in ledger.settlings:
        for entry_id in _effective(settling, "acked", "released") if settling.consumer else ():
            count = counts[settling.consumer, entry_id]
            for other in deliveries[entry_id]:
                if other.delivery_count <= count:
                    continue
                nacked = [
                    nack.sent_at
                    for nack in nacks[entry_id]
                    if other.delivery_count <= counts[nack.consumer, entry_id]
                ]
                if (
                    _lasts(other.at, settling, ends)
                    and _lasts(other.at, settling, nacked)
                    and not _may_be_cut_off(ledger, other, settling)
                    and not _may_have_it_again(ledger, other, settling)
                ):
                    yield f"6: {settling.consumer} settled {entry_id}, which {other} held"


def _may_be_cut_off(ledger: Ledger, delivery: Delivery, settling: Settling) -> bool:
    """Tell whether the connection may have ended between the two moments, as servers failed."""
    return delivery.channel.ended_at is not None and any(
        first < _answered_at(settling) and delivery.at < last for first, last in ledger.failures
    )


def _may_have_it_again(ledger: Ledger, delivery: Delivery, settling: Settling) -> bool:
    """Tell whether the consumer may own the entry again, by a later delivery.

    A slow reader has not read it yet, and never does if its connection ends. What it has read last
    shows how far it came.
    """
    answered_at = _answered_at(settling)
    return any(
        channel.consumer == settling.consumer
        and not channel.is_read
        and channel.opened_at < answered_at
        and (channel.ended_at is None or delivery.sent_after < channel.ended_at)
        and not any(
            read.channel is channel and _appended_after(ledger, read.entry_id, answered_at)
            for read in ledger.deliveries
        )
        for channel in ledger.channels
    )


def _appended_after(ledger: Ledger, entry_id: Id, at: int) -> bool:
    sent_at, _ = ledger.append_spans.get(entry_id, (0, 0))
    return at < sent_at


def _acks(ledger: Ledger) -> dict[Id, list[Settling]]:
    """Return the acks of each entry that had an effect, in the order of their answers."""
    acks: dict[Id, list[Settling]] = defaultdict(list)
    answered = [each for each in ledger.settlings if each.answered_at is not None]
    for settling in sorted(answered, key=_answered_at):
        for entry_id in _effective(settling, "acked"):
            acks[entry_id].append(settling)
    return acks


def _answered_at(settling: Settling) -> int:
    assert settling.answered_at is not None
    return settling.answered_at


def _lasts(at: int, settling: Settling, ends: list[int]) -> bool:
    """Tell whether something begun at a time still lasted when the settling was answered."""
    following = bisect_right(ends, at)
    is_over = following < len(ends) and ends[following] < _answered_at(settling)
    return at < settling.sent_at and not is_over


def _effective(settling: Settling, *outcomes: str) -> list[Id]:
    return [entry_id for entry_id, outcome in settling.outcomes.items() if outcome in outcomes]


def not_kept(ledger: Ledger, kept: dict[Id, str]) -> Iterator[str]:
    """Yield the entries that a stream lacks and should hold, or holds and should not."""
    for entry_id, value in kept.items():
        if ledger.appended.get(entry_id) != value:
            yield f"7: {entry_id} holds {value}, and nobody was told so"
    for entry_id in ledger.appended.keys() - kept.keys():
        yield f"7: {entry_id} is not there, and was appended"


def delivered_from_nowhere(ledger: Ledger, kept: dict[Id, str]) -> Iterator[str]:
    """Yield deliveries of what is not there."""
    for delivery in ledger.deliveries:
        if delivery.entry_id not in kept:
            yield f"7: {delivery}, and it is not there"
