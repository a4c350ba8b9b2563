"""A worker's requests, as the engine's process carries them out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from headgate.app.backends.remote.connection import ConnectionLost, Link, OnLate
from headgate.app.backends.remote.messages import (
    REPLY_TYPES,
    Call,
    DraftPortion,
    PerformedRequest,
    Transaction,
    error_of,
)
from headgate.engine.entry import Draft
from headgate.engine.errors import AnswerLost, Invalid, StreamError
from headgate.engine.requests import Request
from headgate.engine.requests.bulk import CommitBatch, LastCommit, PlanRead, SplitRange
from headgate.engine.requests.deliveries import GiveBack, ListPending, SumPending
from headgate.engine.requests.entries import (
    Add,
    CountByTime,
    Range,
    RangeMatching,
    RangePacked,
    Read,
)
from headgate.engine.requests.groups import (
    DescribeConsumer,
    DescribeGroup,
    ListConsumers,
    ListGroups,
    ListKeys,
)
from headgate.engine.requests.keyspace import (
    CountStreams,
    DescribeKeyspace,
    DumpStream,
    GetDefaults,
    GetExpiry,
    GetRevisions,
    IfUnchanged,
    InspectStream,
    ListNames,
    MeasureStream,
    PickName,
    RequireGroups,
    ScanNames,
    TellTime,
    TimeToLive,
)
from headgate.engine.requests.streams import (
    DescribeStream,
    DetailStream,
    GetAttributes,
    ListStreams,
)
from headgate.engine.requests.tables import ReadRow, ReadTable

# Portions: the entries of a long request cross before it, some at a time.
#
# To decode 100,000 entries takes 100 ms, and nothing else runs meanwhile. So each message has a
# thousand at most, and the other side does other things in between.

_DRAFTS_MAX = 1_000

_MISSING = "some of the entries did not arrive"


def in_portions(number: int, request: Request[Any]) -> list[DraftPortion | Call]:
    portions: list[DraftPortion | Call] = []
    if isinstance(request, Add) and len(request.drafts) > _DRAFTS_MAX:
        portions += _portions(number, request.stream, request.drafts)
        request = replace(request, drafts=())
    elif isinstance(request, CommitBatch) and _is_long(request.drafts):
        for stream, drafts in request.drafts.items():
            portions += _portions(number, stream, drafts)
        request = replace(request, drafts=dict.fromkeys(request.drafts, ()))
    return [*portions, Call(number, request, len(portions))]


def put_together(call: Call, portions: Sequence[DraftPortion]) -> Request[Any]:
    """Return the request of a call; raises Invalid if a portion could not be sent."""
    request: Request[Any] = call.request
    if len(portions) != call.portion_count:
        raise Invalid(_MISSING)
    if isinstance(request, Add):
        return replace(request, drafts=[draft for each in portions for draft in each.drafts])
    assert isinstance(request, CommitBatch)
    drafts: dict[bytes, list[Draft]] = {stream: [] for stream in request.drafts}
    for each in portions:
        drafts[each.stream] += each.drafts
    return replace(request, drafts=drafts)


def _is_long(drafts: Mapping[bytes, Sequence[Draft]]) -> bool:
    return sum(map(len, drafts.values())) > _DRAFTS_MAX


def _portions(number: int, stream: bytes, drafts: Sequence[Draft]) -> Iterator[DraftPortion]:
    for at in range(0, len(drafts), _DRAFTS_MAX):
        yield DraftPortion(number, stream, list(drafts[at : at + _DRAFTS_MAX]))


T = TypeVar("T")

_LOST = "the connection to the engine has ended"

_REPEATABLE: frozenset[type[Request[Any]]] = frozenset(
    {
        CountByTime,
        CountStreams,
        DescribeConsumer,
        DescribeGroup,
        DescribeKeyspace,
        DescribeStream,
        DetailStream,
        DumpStream,
        GetAttributes,
        GetDefaults,
        GetExpiry,
        PickName,
        GetRevisions,
        GiveBack,  # what was given back once stays as it is
        IfUnchanged,
        InspectStream,
        LastCommit,
        ListConsumers,
        ListGroups,
        ListKeys,
        ListNames,
        ListPending,
        ListStreams,
        MeasureStream,
        PlanRead,
        Range,
        RangeMatching,
        RangePacked,
        Read,
        ReadRow,
        ReadTable,
        RequireGroups,
        ScanNames,
        SplitRange,
        SumPending,
        TellTime,
        TimeToLive,
    }
)
"""Requests that may be sent again, as they change nothing the second time."""

_DECODE: Mapping[type[Request[Any]], Callable[[msgspec.Raw], Any]] = {
    kind: msgspec.msgpack.Decoder(reply_type).decode for kind, reply_type in REPLY_TYPES.items()
}

_decode_outcomes = msgspec.msgpack.Decoder(list[PerformedRequest[msgspec.Raw]]).decode


class Calls:
    def __init__(self, link: Link) -> None:
        self._link = link

    async def perform(
        self, request: Request[T], on_late: OnLate | None = None, *, waits: bool = False
    ) -> T:
        """Carry out a request; one that only reads is sent again if the connection ends.

        `on_late` gets a reply that comes after the caller was cancelled. `waits`: the request may
        wait for something to read; it also waits for a connection, however long that takes, and
        ends with `Draining` when the gateway stops.

        Raises:
            StreamError: one of the errors that the request lists.
            Disconnected: the engine is not there.
            AnswerLost: it has gone, and may have carried out the request.
        """
        kind = type(request)
        decode = _DECODE[kind]
        while True:
            connection = self._link.current
            if connection is None:
                connection = await self._link.connection(is_patient=waits)
            number = connection.next_number()
            try:
                reply: T = await connection.ask(
                    number, in_portions(number, request), decode, on_late, waits=waits
                )
            except ConnectionLost:
                if kind not in _REPEATABLE:
                    raise AnswerLost(_LOST) from None
            else:
                return reply

    async def perform_all(self, requests: Sequence[Request[Any]]) -> list[Any | StreamError]:
        """Carry out requests with nothing in between, and return their replies or errors."""
        connection = await self._link.connection()
        number = connection.next_number()
        try:
            outcomes: list[PerformedRequest[Any]] = await connection.ask(
                number, [Transaction(number, list(requests))], _decode_outcomes
            )
        except ConnectionLost:
            raise AnswerLost(_LOST) from None
        return [
            error_of(outcome.error)
            if outcome.error is not None
            else _DECODE[type(request)](outcome.reply)
            for request, outcome in zip(requests, outcomes, strict=True)
        ]
