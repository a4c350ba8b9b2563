"""Exchange: what a server says to some bytes, and whether it ends the connection."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from tests.conditions import moment

QUIET_S = 0.1
"""A server that has said nothing for so long has nothing to say."""

PATIENCE_S = 3.0


class Answer(NamedTuple):
    """The answer of a server."""

    output: bytes
    is_over: bool  # it has ended the connection


async def exchanged(
    port: int,
    pieces: Sequence[bytes],
    *,
    half_closes: bool = False,
    length: int | None = None,
    quiet_s: float = QUIET_S,
    length_max: int = sys.maxsize,
) -> Answer:
    """Send bytes, and return what comes back.

    Args:
        port: where the server is.
        pieces: what is sent, one after the other.
        half_closes: say at the end that nothing more will be sent.
        length: how many bytes are expected; None: as many as come before it is quiet.
        quiet_s: how long it says nothing if it has nothing to say.
        length_max: leave once so many bytes have come.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    sent = asyncio.Event()
    hearing = asyncio.create_task(_heard(reader, length, sent, quiet_s, length_max))
    hearing.add_done_callback(lambda _: writer.transport.abort())  # also while it still sends
    with suppress(OSError):  # it has ended the connection
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await moment()
        if half_closes:
            writer.write_eof()
    sent.set()
    return await hearing


async def _heard(
    reader: asyncio.StreamReader,
    length: int | None,
    sent: asyncio.Event,
    quiet_s: float,
    length_max: int,
) -> Answer:
    output = bytearray()
    while len(output) < length_max:
        is_short = length is not None and len(output) < length
        try:
            async with asyncio.timeout(PATIENCE_S if is_short else quiet_s):
                part = await reader.read(2**16)
        except TimeoutError:
            if sent.is_set():
                break
            await sent.wait()
            continue
        except ConnectionError:
            part = b""
        if not part:
            return Answer(bytes(output), is_over=True)
        output += part
    return Answer(bytes(output), is_over=False)
