"""Aspects of requests about deliveries: read as a group, settle, claim, list what is pending."""

from collections.abc import Collection

from headgate.app.auth.aspects.aspects import (
    Aspects,
    MessagingOperation,
    Table,
    on_consumer,
    on_group,
)
from headgate.app.auth.grants import Verb
from headgate.app.auth.principal import Need
from headgate.engine.entry import MIN_ID
from headgate.engine.requests import deliveries

_OWN = on_consumer(Verb.CONSUME)


def _read_group(request: deliveries.ReadGroup) -> Collection[Need]:
    return [
        Need((Verb.CONSUME,), cursor.stream, request.group, request.consumer)
        for cursor in request.cursors
    ]


def _ack_and_delete(request: deliveries.AckAndDelete) -> Collection[Need]:
    consume = Need((Verb.CONSUME,), request.stream, request.group)
    return consume, Need((Verb.MANAGE,), request.stream)


def _claim(request: deliveries.Claim) -> Collection[Need]:
    if request.last_id == MIN_ID:
        return _OWN(request)
    # It moves the group's position.
    return *_OWN(request), Need((Verb.MANAGE,), request.stream, request.group)


ASPECTS: Table = {
    deliveries.ReadGroup: Aspects(
        needs=_read_group,
        delivered=lambda reads: sum(len(read.deliveries) for read in reads),
        span=MessagingOperation("read", "receive"),
    ),
    deliveries.GiveBack: Aspects(needs=_OWN),
    deliveries.Ack: Aspects(needs=_OWN, span=MessagingOperation("ack", "settle")),
    deliveries.AckThrough: Aspects(needs=_OWN, span=MessagingOperation("ack", "settle")),
    deliveries.AckAndDelete: Aspects(needs=_ack_and_delete, is_act=True),
    deliveries.Nack: Aspects(needs=_OWN, span=MessagingOperation("nack", "settle")),
    deliveries.Extend: Aspects(needs=_OWN, span=MessagingOperation("extend", "settle")),
    deliveries.Claim: Aspects(
        needs=_claim,
        delivered=lambda claimed: len(claimed.deliveries),
        span=MessagingOperation("claim", "receive"),
    ),
    deliveries.Autoclaim: Aspects(
        needs=_OWN,
        delivered=lambda claimed: len(claimed.deliveries),
        span=MessagingOperation("autoclaim", "receive"),
    ),
    deliveries.ListPending: Aspects(needs=_OWN),
    deliveries.SumPending: Aspects(needs=on_group(Verb.CONSUME)),
    deliveries.Redrive: Aspects(needs=on_group(Verb.MANAGE), is_act=True),
}
