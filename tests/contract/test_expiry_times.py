"""Streams that expire at a time, and the name of some stream."""

from __future__ import annotations

from headgate.app.backends.port import Backend
from headgate.engine.requests.keyspace import (
    CountStreams,
    ExpireStream,
    GetExpiry,
    PersistStream,
    PickName,
)
from tests.contract.calls import S, filled

FAR_MS = 40_000_000_000_123


async def test_a_stream_expires_at_a_time(backend: Backend) -> None:
    await filled(backend, 1)
    assert await backend.perform(GetExpiry(S)) is None
    assert await backend.perform(ExpireStream(S, 0, at_ms=FAR_MS))
    assert await backend.perform(GetExpiry(S)) == FAR_MS
    assert await backend.perform(PersistStream(S))
    assert await backend.perform(GetExpiry(S)) is None
    assert await backend.perform(ExpireStream(S, 0, at_ms=1))
    assert await backend.perform(CountStreams([S])) == 0


async def test_some_name_is_picked(backend: Backend) -> None:
    assert await backend.perform(PickName(5)) is None
    await filled(backend, 1)
    assert await backend.perform(PickName(5)) == S
