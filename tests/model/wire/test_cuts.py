"""The answer to malformed bytes is the same however they are cut in two.

The port is in this process, so it is known when the first piece has been read. A few cuts of each
case are picked; HEADGATE_TEST_WIRE=long tries all of them.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

import pytest

from headgate.engine.engine import Engine
from headgate.engine.journal.storage import MemoryStorage
from tests.model.wire.exchange import exchanged
from tests.model.wire.malformed import CASES, LONG, READS, is_cut_off_suddenly
from tests.model.wire.own_port import OwnPort, own_port

IS_LONG = os.environ.get("HEADGATE_TEST_WIRE") == "long"
SENT_BYTES = 3_000_000 if IS_LONG else 0
"""Bytes sent of a case that is so long that most cuts are like those beside them."""

PATIENCE_S = 60.0
"""Some cases are many thousand commands."""

NEXT = b"\r\nECHO next\r\n"
"""Commands behind a case. Their answers show whether the connection has ended or waits."""


@pytest.fixture
async def port() -> AsyncIterator[OwnPort]:
    async with own_port(Engine(MemoryStorage(0))) as port:
        yield port


@pytest.mark.parametrize("following", [b"", NEXT])
async def test_cuts_change_no_answer(port: OwnPort, following: bytes) -> None:
    differing = []
    # To end one's side ends a read that waits: only what is heard before can be compared.
    before = await asyncio.gather(*(exchanged(port.number, [case + following]) for case in READS))
    lengths = {case: len(heard.output) for case, heard in zip(READS, before, strict=True)}
    for seed, case in enumerate(CASES):
        data, length = case + following, lengths.get(case, 0)
        if cuts := places(case, len(data), random.Random(seed)):
            whole = await answer(port, [data], length)
            for at in cuts:
                cut = await answer(port, [data[:at], data[at:]], length)
                if cut != whole:
                    differing.append((data[:at][-200:], data[at:][:200], cut[-200:], whole[-200:]))
    assert not differing, differing


def places(case: bytes, size_bytes: int, pick: random.Random) -> Sequence[int]:
    """Return the places of cuts in a case and its end."""
    everywhere = range(1, size_bytes)
    if is_cut_off_suddenly(case):
        return []
    if case in LONG:
        return pick.sample(everywhere, SENT_BYTES // size_bytes)
    return everywhere if IS_LONG else pick.sample(everywhere, min(2, len(everywhere)))


async def answer(port: OwnPort, pieces: Sequence[bytes], length: int) -> bytes:
    """Return the output to a client whose pieces are read one by one.

    Args:
        port: where it connects.
        pieces: what it sends.
        length: how much it hears before it ends its side.
    """
    output = bytearray()
    reader, writer = await asyncio.open_connection("127.0.0.1", port.number)
    async with asyncio.timeout(PATIENCE_S):
        hearing = asyncio.create_task(hear(reader, output))
        for piece in pieces:
            until_bytes = port.clients.input_bytes + len(piece)
            writer.write(piece)
            while port.clients.input_bytes < until_bytes and not hearing.done():
                await asyncio.sleep(0)
        while len(output) < length and not hearing.done():
            await asyncio.sleep(0)
        if not hearing.done():
            writer.write_eof()
        await hearing
    writer.transport.abort()
    return bytes(output)


async def hear(reader: asyncio.StreamReader, output: bytearray) -> None:
    with suppress(ConnectionError):
        while part := await reader.read(2**16):
            output += part
