"""Carry out the requests of a pipeline for a backend whose streams are in another process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from itertools import takewhile
from typing import Any

from headgate.app.backends.port import Perform
from headgate.engine.errors import StreamError
from headgate.engine.limits import APPENDED_AT_ONCE_MAX
from headgate.engine.requests import Request


async def perform_in_order(
    perform: Perform, requests: Sequence[Request[Any]], together: AbstractSet[object]
) -> list[Any | StreamError]:
    """Carry out the first requests of a pipeline and return their replies or errors.

    Kinds in `together` have small replies and keep their order when they are sent together.
    """
    first = requests[:APPENDED_AT_ONCE_MAX]
    count = sum(1 for _ in takewhile(lambda request: type(request) in together, first))
    outcomes = await asyncio.gather(
        *map(perform, requests[: max(count, 1)]), return_exceptions=True
    )
    for outcome in outcomes:
        if isinstance(outcome, BaseException) and not isinstance(outcome, StreamError):
            raise outcome
    return outcomes
