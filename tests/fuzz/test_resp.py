"""Redis clients that send anything: each is answered or cut off, and the gateway stands."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conditions import eventually
from tests.fuzz import grammar, served
from tests.model.wire.exchange import exchanged
from tests.model.wire.malformed import CASES
from tests.model.wire.replies import written
from tests.processes.gateway import Gateway

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")

CLIENTS_AT_ONCE = 4
LISTENED_S_MAX = 0.3
TAKEN_BYTES_MAX = 2**22
"""Of all replies to a client, which then leaves: it may ask for a range of large entries often."""

ABOUT_CONNECTIONS = [
    *["HELLO 3", "HELLO 2", "HELLO", "HELLO 3 AUTH a b", "AUTH a", "AUTH a b", "SELECT 0", "RESET"],
    *["MULTI", "EXEC", "DISCARD", "WATCH s", "WATCH s t u", "UNWATCH", "QUIT", "CLIENT ID"],
    *["CLIENT SETNAME a", "CLIENT LIST", "CLIENT INFO", "CLIENT KILL TYPE normal"],
    *["CLIENT KILL ID 5", "CLIENT KILL MAXAGE 0", "CLIENT UNBLOCK 7", "CLIENT UNBLOCK 8 ERROR"],
    *["CLIENT PAUSE 5", "CLIENT PAUSE 20 WRITE", "CLIENT UNPAUSE", "CLIENT REPLY OFF"],
    *["CLIENT REPLY SKIP", "CLIENT REPLY ON", "CLIENT NO-EVICT ON", "CLIENT TRACKING ON"],
    *["SUBSCRIBE a", "MONITOR", "SYNC", "PSYNC ? -1", "DEBUG SLEEP 9", "EVAL x 0", "SHUTDOWN"],
    *["COMMAND", "COMMAND DOCS", "INFO everything", "CONFIG GET *", "WAIT 1 5", "SCRIPT FLUSH"],
    *["XREAD BLOCK 0 STREAMS s $", "XREADGROUP GROUP g c BLOCK 0 STREAMS s >", "XRANGE s - +"],
]


def commands(pick: random.Random, count: int) -> bytes:
    """Return commands one behind the other."""
    parts = []
    for _ in range(count):
        if pick.random() < 0.3:
            parts.append(pick.choice(ABOUT_CONNECTIONS).encode() + b"\r\n")
        else:
            parts.append(written(grammar.command(pick)))
    return b"".join(parts)


def damaged(pick: random.Random, data: bytes) -> bytes:
    """Return bytes with some of them changed, left out, repeated, or cut off."""
    changed = bytearray(data)
    for _ in range(pick.randint(1, 5)):
        at = pick.randrange(len(changed) + 1)
        end = at + pick.choice([0, 1, 1, 2, 20])
        other = pick.choice([b"", b"\r\n", b"*", b"$", b"-1", b"\0", b"9" * 20, changed[at:] * 2])
        changed[at:end] = other
        del changed[2**18 :]
    return bytes(changed) or b"*"


def transaction(pick: random.Random) -> bytes:
    watched = b"".join(b" %d" % pick.randrange(100) for _ in range(pick.randint(1, 900)))
    queued = commands(pick, pick.choice([0, 3, 300]))
    return b"WATCH%b\r\nMULTI\r\n%b" % (watched, queued) + pick.choice([b"", b"EXEC\r\n"])


KINDS: list[Callable[[random.Random], bytes]] = [
    lambda pick: commands(pick, pick.randint(1, 30)),
    lambda pick: commands(pick, pick.randint(1, 30)),
    lambda pick: damaged(pick, commands(pick, pick.randint(1, 20))),
    lambda pick: damaged(pick, pick.choice(CASES)),
    lambda pick: pick.choice(CASES),
    transaction,
    lambda pick: commands(pick, 1) * pick.choice([10, 1_000]),
    lambda pick: b"MULTI\r\n" * 500 + b"PING\r\n" * 2_000,
    lambda pick: written([b"ECHO", b"x" * 2**20])[: pick.randrange(2**20)],
    lambda pick: pick.randbytes(pick.choice([1, 100, 10_000])),
    lambda pick: written([b"XADD", b"s", b"*"] + [b"a"] * pick.choice([2, 20_000])),
    lambda pick: b"XRANGE s - +\r\n" * 300,
]


async def attacked(port: int, pick: random.Random) -> None:
    """Say something, listen for a moment or not, and leave."""
    data = pick.choice(KINDS)(pick)
    cuts = sorted(pick.randrange(len(data)) for _ in range(pick.choice([0, 0, 1, 5])))
    pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    if pick.random() < 0.5:
        with suppress(ConnectionError):
            await exchanged(
                port, pieces, half_closes=pick.random() < 0.3, length_max=TAKEN_BYTES_MAX
            )
        return
    with suppress(ConnectionError, TimeoutError):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            async with asyncio.timeout(LISTENED_S_MAX):
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
        finally:
            writer.transport.abort()


async def none_are_left(port: int) -> None:
    """Return once there is no other client, and no read that waits."""

    async def is_alone() -> bool:
        output = (await exchanged(port, [b"INFO clients\r\n"])).output
        return b"connected_clients:1\r\n" in output and b"blocked_clients:0\r\n" in output

    await eventually(is_alone, bool)


async def test_clients_that_send_anything(tmp_path: Path) -> None:
    async def attack(gateway: Gateway, seed: int) -> None:
        pick = random.Random(seed)
        await asyncio.gather(*(attacked(gateway.redis_port, pick) for _ in range(CLIENTS_AT_ONCE)))

    async with served.gateway(tmp_path, redis_port=0) as gateway:
        await served.withstand(gateway, attack, 60)
        await none_are_left(gateway.redis_port)
