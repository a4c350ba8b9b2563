"""Lifetime: streams that go after a time without a read or a write, or at a time."""

import re
from contextlib import suppress

from headgate.app.auth.access import Access
from headgate.app.durable_streams.configuration import (
    CONFIGURATION,
    DurableStream,
    instant_ms,
)
from headgate.app.wire.problems import GatewayError
from headgate.engine.errors import StreamNotFound
from headgate.engine.requests.attributes import GetAttributes
from headgate.engine.requests.keyspace import ExpireStream, TimeToLive

_TTL = re.compile(r"0|[1-9][0-9]{0,9}")

_LATE_SHARE = 20
"""An idle stream goes up to a twentieth of its time late, so that not each read sets its expiry."""


def parse_lifetime(ttl: str | None, expires_at: str | None) -> tuple[int | None, str | None]:
    """Read the headers that say when a stream goes: seconds without use, and a timestamp.

    Raises:
        GatewayError: one of them makes no sense, or there are both.
    """
    if ttl is not None and expires_at is not None:
        text = "a stream goes after a time without use, or at a time, not both"
        raise GatewayError("malformed", text, pointer="/header/Stream-Expires-At")
    if ttl is not None and _TTL.fullmatch(ttl) is None:
        text = "should be whole seconds, in plain decimal"
        raise GatewayError("malformed", text, pointer="/header/Stream-TTL")
    if expires_at is not None and instant_ms(expires_at) is None:
        text = "should be a timestamp of RFC 3339, such as 2030-01-31T12:00:00Z"
        raise GatewayError("malformed", text, pointer="/header/Stream-Expires-At")
    return None if ttl is None else int(ttl), expires_at


async def begin_life(access: Access, stream: bytes, configuration: DurableStream) -> None:
    """Let a new stream go in its time. No right is needed: whoever made it has said so."""
    at_ms = configuration.expires_at_ms
    if at_ms is not None:
        with suppress(StreamNotFound):
            await access.backend.perform(ExpireStream(stream, 0, at_ms=at_ms))
    await prolong_life(access, stream, configuration)


async def prolong_life(access: Access, stream: bytes, configuration: DurableStream) -> None:
    """Let a stream that is used go later. No right is needed: the stream itself says so."""
    if configuration.ttl_s is None:
        return
    ttl_ms, perform = configuration.ttl_s * 1000, access.backend.perform
    with suppress(StreamNotFound):
        left_ms = await perform(TimeToLive(stream))
        known = await perform(GetAttributes(stream, [CONFIGURATION]))
        is_same = known.get(CONFIGURATION) == configuration.encoded()  # or it is made anew, or gone
        if is_same and (left_ms is None or left_ms < ttl_ms):
            await perform(ExpireStream(stream, ttl_ms + ttl_ms // _LATE_SHARE))
