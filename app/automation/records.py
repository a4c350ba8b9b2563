"""What automations share: how they wait for streams, and what they keep in some of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from headgate.app.backends.port import Perform
from headgate.engine.entry import MIN_ID
from headgate.engine.errors import IdsExhausted, LimitReached, StreamNotFound, Unavailable
from headgate.engine.periodic import Round
from headgate.engine.requests.entries import Add, Trim, TrimTo
from headgate.engine.requests.keyspace import SetCounters
from headgate.engine.requests.streams import (
    AttributeChange,
    ChangeAttributes,
    CreateStream,
    GetAttributes,
)

PAUSE_S = 1.0
"""Pause while nothing can be read or noted."""


async def patiently(work: Round) -> None:
    """Do some work; while the streams are not available, pause instead."""
    try:
        await work()
    except Unavailable:
        await asyncio.sleep(PAUSE_S)


async def attributes_of(
    perform: Perform, stream: bytes, names: Sequence[bytes] | None = None
) -> Mapping[bytes, bytes]:
    """Return attributes of a stream; there are none if it does not exist."""
    try:
        return await perform(GetAttributes(stream, names))
    except StreamNotFound:
        return {}


async def create_with(perform: Perform, stream: bytes, attributes: AttributeChange) -> None:
    """Set attributes of a stream, which is created if it does not exist.

    Raises StreamsChanged if an attribute differs from what is expected, StreamExists if the stream
    has other settings than new ones have, and StreamNotFound if it was deleted meanwhile.
    """
    if not (await perform(CreateStream(stream, attributes=attributes))).is_new:
        await perform(ChangeAttributes(stream, attributes))


async def append_newest(perform: Perform, append: Add) -> None:
    """Append entries, even if the greatest possible id is taken.

    Ids come from the clock, so such an id was set by hand, or by a client of a Redis server or of
    an earlier version. Whether or not others have read these entries, the ids start over.

    Raises StreamNotFound if the stream does not exist and is not to be created, and StreamsChanged
    if an attribute differs from what the append expects.
    """
    try:
        await perform(append)
    except IdsExhausted:
        await perform(Trim(append.stream, TrimTo(max_length=0)))
        await perform(SetCounters(append.stream, MIN_ID))
        await perform(append)


async def check_share(
    what: str, limit: int, count: int, maker: str | None, makers: Callable[[], AsyncIterator[str]]
) -> None:
    """Raise LimitReached if a principal may not create another one.

    Principals leave a tenth of the room to operators, and each takes at most half of it. `maker`
    None is an operator; `makers` yields the creator of each existing one.
    """
    if count >= (limit if maker is None else limit - limit // 10):
        raise LimitReached(what, limit)
    share = limit // 2
    if maker is None or count < share:
        return
    own_count = 0
    async for other in makers():
        own_count += other == maker
    if own_count >= share:
        raise LimitReached(f"{what} of one principal", share)
