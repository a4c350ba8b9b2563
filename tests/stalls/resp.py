"""RESP: commands on a connection of their own to the port for Redis clients."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from tests.stalls.case import Target

Words = Sequence[str | bytes]


def written(commands: Sequence[Words]) -> bytes:
    """Return commands as bytes."""
    parts: list[bytes] = []
    for words in commands:
        parts.append(b"*%d\r\n" % len(words))
        for word in words:
            data = word if isinstance(word, bytes) else word.encode()
            parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)


async def exchange(target: Target, commands: Sequence[Words]) -> list[Any]:
    """Send commands while their replies are read, and return these; an error is a text."""
    reader, writer = await target.open_redis()
    try:
        writer.write(written(commands))
        return [await _reply(reader) for _ in commands]
    finally:
        writer.transport.abort()


async def _reply(reader: asyncio.StreamReader) -> Any:
    kind, text = (line := await reader.readuntil(b"\r\n"))[:1], line[1:-2]
    if kind in b"+-":
        return text.decode()
    if kind == b":":
        return int(text)
    if int(text) < 0:
        return None
    if kind == b"*":
        return [await _reply(reader) for _ in range(int(text))]
    return (await reader.readexactly(int(text) + 2))[:-2]
