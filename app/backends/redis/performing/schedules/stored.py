"""Stored schedules: one hash for all of them, and a memory of what has run beside each stream.

A schedule is changed by compare and set, as its stream may be in another slot.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import msgspec

from headgate.app.backends.redis.client import Client
from headgate.app.backends.redis.library import Effect
from headgate.engine.errors import WrongSideKey
from headgate.engine.schedules.progress import ScheduleInfo

encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ScheduleInfo).decode


def readable(texts: Iterable[bytes | None]) -> list[ScheduleInfo]:
    """Return the schedules of texts, without those that another client has written there."""
    infos: list[ScheduleInfo] = []
    for text in texts:
        with suppress(msgspec.DecodeError):
            if text is not None:
                infos.append(_decode(text))
    return infos


async def find(client: Client, name: bytes) -> tuple[bytes, ScheduleInfo | None]:
    """Return a schedule as its text and as a value; none is empty text and None.

    Raises:
        WrongSideKey: another client has written something else there.
    """
    keys = client.names.of_schedules()
    [text] = await client.execute_all(keys.slot, [[b"HGET", keys.key, name]], changes=False)
    if text is None:
        return b"", None
    try:
        return text, _decode(text)
    except msgspec.DecodeError as error:
        raise WrongSideKey(keys.key, str(error)) from None


async def put(client: Client, name: bytes, before: bytes, info: ScheduleInfo | None) -> bool:
    """Put a schedule in the place of its text; tell whether that still stood there."""
    return bool(
        await call(
            client,
            Effect.WRITE if info is not None and not before else Effect.FREE,
            "put_schedule",
            schedule=name,
            before=before,
            after=b"" if info is None else encode(info),
            wake_ms=None if info is None else info.progress.wake_ms,
            schedules_max=client.options.keyspace.schedules_max,
        )
    )


async def forget(client: Client, info: ScheduleInfo) -> None:
    """Let a stream forget what a schedule has appended to it."""
    stream = info.definition.stream
    key = client.names.of(stream).side(b"scheduled")
    await client.execute(stream, b"HDEL", key, identity_of(info), changes=True)


def identity_of(info: ScheduleInfo) -> bytes:
    """Return the name under which a stream remembers a schedule."""
    return b"%d:%b" % (info.epoch, info.name)


async def call(client: Client, effect: Effect, operation: str, **facts: object) -> Any:
    """Run an operation on all schedules, and return its reply."""
    return await client.call_at(effect, operation, [client.names.of_schedules()], **facts)
