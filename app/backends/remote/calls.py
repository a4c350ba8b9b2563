"""Calls: requests as the engine's process carries them out, whatever becomes of the connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from headgate.app.backends.remote.connection import ConnectionLost, Link, OnLate
from headgate.app.backends.remote.messages import (
    REPLY_TYPES,
    PerformedRequest,
    Transaction,
    error_of,
)
from headgate.app.backends.remote.portions import in_portions
from headgate.engine.errors import AnswerLost, StreamError
from headgate.engine.requests import Request
from headgate.engine.requests.attributes import GetAttributes
from headgate.engine.requests.bulk import LastCommit, PlanRead, SplitRange
from headgate.engine.requests.deliveries import GiveBack, ListPending, SumPending
from headgate.engine.requests.dumps import DumpStream, MeasureStream
from headgate.engine.requests.entries import Range, RangeMatching, RangePacked, Read
from headgate.engine.requests.groups import (
    DescribeConsumer,
    DescribeGroup,
    ListConsumers,
    ListGroups,
)
from headgate.engine.requests.histogram import CountByTime
from headgate.engine.requests.keyspace import (
    CountStreams,
    DescribeKeyspace,
    GetDefaults,
    GetExpiry,
    GetRevisions,
    IfUnchanged,
    InspectStream,
    ListNames,
    PickName,
    RequireGroups,
    ScanNames,
    TellTime,
    TimeToLive,
)
from headgate.engine.requests.streams import DescribeStream, DetailStream, ListStreams

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
        ListNames,
        ListPending,
        ListStreams,
        MeasureStream,
        PlanRead,
        Range,
        RangeMatching,
        RangePacked,
        Read,
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
    """Sends requests over the connection that there is."""

    def __init__(self, link: Link) -> None:
        """Use a link."""
        self._link = link

    async def perform(
        self, request: Request[T], on_late: OnLate | None = None, *, waits: bool = False
    ) -> T:
        """Carry out a request, and return its reply.

        A request that only reads is sent again if the connection ends.

        Args:
            request: what is asked for.
            on_late: is called with a reply that comes after the caller was cancelled.
            waits: the request may wait for something to read. It also waits for a connection,
                however long that takes, and ends with `Draining` when the gateway is to stop.

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
        """Carry out requests with nothing in between, and return their replies or errors.

        Raises:
            StreamsChanged: the first of them is `IfUnchanged`, and does not hold.
            Unavailable: as for `perform`.
        """
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
