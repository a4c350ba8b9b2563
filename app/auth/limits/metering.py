"""Metering: performs requests of a principal within its limits of use.

A request that would be too much is refused; or, where the client has a connection that stays open,
it waits. Entries that are appended are known before, those that are read only afterwards. So a read
passes unless something is still owed, and the next one waits until its entries are paid.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import nullcontext
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from headgate.app.auth.limits.usage import Usage
from headgate.engine.requests import Request
from headgate.engine.requests.bulk import CommitBatch, PlanRead
from headgate.engine.requests.deliveries import Autoclaim, Claim, ReadGroup
from headgate.engine.requests.dumps import DumpStream, RestoreStream
from headgate.engine.requests.entries import Add, Range, RangePacked, Read
from headgate.engine.requests.keyspace import InspectStream
from headgate.engine.requests.ranges import OpenRanges, ReadOn
from headgate.engine.requests.streams import DetailStream

T = TypeVar("T")

Perform = Callable[[Request[T]], Coroutine[Any, Any, T]]

_WAITING = (Read, ReadGroup, PlanRead)

_APPENDED: Mapping[type[Request[Any]], Callable[[Any], int]] = {
    Add: lambda request: len(request.drafts),
    CommitBatch: lambda request: sum(map(len, request.drafts.values())),
    RestoreStream: lambda request: request.image.length,
}

_DELIVERED: Mapping[type[Request[Any]], Callable[[Any], int]] = {
    Read: lambda reads: sum(len(read.entries) for read in reads),
    Range: len,
    OpenRanges: lambda opened: sum(len(each.entries) for each in opened),
    ReadOn: len,
    RangePacked: lambda page: sum(run.entry_count for run in page.runs),
    ReadGroup: lambda reads: sum(len(read.deliveries) for read in reads),
    Claim: lambda claimed: len(claimed.deliveries),
    Autoclaim: lambda claimed: len(claimed.deliveries),
    DetailStream: lambda detail: len(detail.entries),
    InspectStream: lambda inspection: len(inspection.entries),
    DumpStream: lambda image: image.length,
}
"""Functions for the number of entries in the reply to a request."""


def charge(requests: Iterable[Request[Any]], usage: Usage) -> None:
    """Take account of requests that are about to be performed, all or none.

    Raises:
        RateLimited: they have to come later.
    """
    counts = [
        appended(request) if appended is not None else 0
        for request in requests
        if (appended := _APPENDED.get(type(request))) is not None or type(request) in _DELIVERED
    ]
    if counts:
        usage.charge(entries=sum(counts))


def settle(request: Request[Any], reply: Any, usage: Usage) -> None:
    """Take account of the entries in the reply to a request."""
    if type(request) in _DELIVERED:
        usage.spend(entries=delivered_in(request, reply))


def delivered_in(request: Request[Any], reply: Any) -> int:
    """Return how many entries are in the reply to a request; none are in an error."""
    count = _DELIVERED.get(type(request))
    return 0 if count is None or isinstance(reply, Exception) else count(reply)


async def performed(request: Request[T], perform: Perform[T], usage: Usage) -> T:
    """Perform a request, unless it is too much.

    Raises:
        RateLimited: it has to come later.
        GatewayError: the principal has too many blocked reads.
    """
    charge((request,), usage)
    is_waiting = isinstance(request, _WAITING) and request.wait_ms != 0
    with usage.waiters.held() if is_waiting else nullcontext():
        reply = await perform(request)
    settle(request, reply, usage)
    return reply


async def slowly_performed(request: Request[T], perform: Perform[T], usage: Usage) -> T:
    """Perform a request of a connection that stays open; a read waits until all is paid.

    A batch has the entries of one second at most, so that none waits for long. Who reads the frames
    of the connection takes account of the entries that they append.
    """
    if type(request) in _DELIVERED:
        delay_s = usage.delay_s(entries=0)
        if delay_s:
            await asyncio.sleep(delay_s)
        request = _bounded(request, usage.limits.entries_per_s_max)
    reply = await perform(request)
    settle(request, reply, usage)
    return reply


def _bounded(request: Request[T], entries_max: int | None) -> Request[T]:
    if entries_max is None or not isinstance(request, Read | ReadGroup | Range | RangePacked):
        return request
    if request.limit is not None and request.limit <= entries_max:
        return cast("Request[T]", request)
    return cast("Request[T]", replace(request, limit=entries_max))
