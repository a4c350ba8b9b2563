"""Perform requests of a principal within its limits of use.

A request that exceeds them is refused, or waits if the client has a connection that stays open.
Appended entries are known before, read ones only afterwards. So a read passes unless something is
still owed, and the next one waits until its entries are paid.
"""

import asyncio
from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from headgate.app.auth.aspects import aspects_of
from headgate.app.auth.usage import Usage
from headgate.app.backends.port import Perform
from headgate.engine.requests import Request
from headgate.engine.requests.bulk import PlanRead
from headgate.engine.requests.deliveries import ReadGroup, ReadGroups
from headgate.engine.requests.entries import Range, RangeMatching, RangePacked, Read

T = TypeVar("T")

_WAITING = (Read, ReadGroup, ReadGroups, PlanRead)

_LIMITED = (Read, ReadGroup, ReadGroups, Range, RangeMatching, RangePacked)
"""Requests that say how many entries they want."""


def charge(requests: Iterable[Request[Any]], usage: Usage) -> None:
    """Charge requests that are about to be performed, all or none; raises RateLimited."""
    counts: list[int] = []
    for request in requests:
        appended = appended_in(request)
        if appended is not None:
            counts.append(appended)
        elif aspects_of(request).delivered is not None:
            counts.append(0)
    if counts:
        usage.charge(entries=sum(counts))


def settle(request: Request[Any], reply: Any, usage: Usage) -> None:
    count = aspects_of(request).delivered
    if count is not None:
        usage.spend(entries=0 if isinstance(reply, Exception) else count(reply))


def appended_in(request: Request[Any]) -> int | None:
    """Return how many entries a request appends; None: it is not for appending."""
    count = aspects_of(request).appended
    return None if count is None else count(request)


def delivered_in(request: Request[Any], reply: Any) -> int:
    """Return how many entries are in the reply to a request; an error has none."""
    count = aspects_of(request).delivered
    return 0 if count is None or isinstance(reply, Exception) else count(reply)


async def performed(request: Request[T], perform: Perform, usage: Usage) -> T:
    """Perform a request within the limits; raises RateLimited, or GatewayError for waiters."""
    charge((request,), usage)
    is_waiting = isinstance(request, _WAITING) and request.wait_ms != 0
    with usage.waiters.held() if is_waiting else nullcontext():
        reply = await perform(request)
    settle(request, reply, usage)
    return reply


async def slowly_performed(request: Request[T], perform: Perform, usage: Usage) -> T:
    """Perform a request of a connection that stays open; a read waits until all is paid.

    A batch has at most the entries of one second, so that none waits for long. The reader of the
    connection's frames charges the entries that they append.
    """
    if aspects_of(request).delivered is not None:
        delay_s = usage.delay_s(entries=0)
        if delay_s:
            await asyncio.sleep(delay_s)
        request = _bounded(request, usage.limits.entries_per_s_max)
    reply = await perform(request)
    settle(request, reply, usage)
    return reply


def _bounded(request: Request[T], entries_max: int | None) -> Request[T]:
    if entries_max is None or not isinstance(request, _LIMITED):
        return request
    if request.limit is not None and request.limit <= entries_max:
        return cast("Request[T]", request)
    return cast("Request[T]", replace(request, limit=entries_max))
