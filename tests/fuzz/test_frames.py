"""Random frames on a WebSocket, whole and damaged: each is answered or refused."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import served
from tests.processes.gateway import Gateway
from tests.processes.raw_socket import BINARY, CLOSE, CONT, PING, PONG, TEXT, deflated, frame

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")

HANDSHAKE = (
    "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
)
PATHS = ["/v1/ws"] * 4 + ["/v1/streams/s/ws?after=0", "/v1/streams/s/groups/g/ws?consumer=c"]
PATHS += ["/v1/streams/none/ws", "/v1/streams/s/ws?after=x", "/nothing", "/v1/streams/%ff/ws"]
TYPES = ["subscribe", "unsubscribe", "append", "ack", "nack", "extend", "credit", "ping", "dance"]
MEMBERS: dict[str, list[Any]] = {
    "rid": ["1", None, 7, "r" * 300],
    "sub": ["a", "b", "0", None, [], "s" * 300],
    "stream": ["s", "none", "", "\ud800", 5, "n" * 3000],
    "group": ["g", "none", None, ""],
    "consumer": ["c", "d", None, "\0"],
    "after": ["0", "$", "1-1", "x", None],
    "credit": [1, 64, 65_536, 65_537, 0, -1, 1e300, "1"],
    "entries": [1, [{"fields": {"v": "1"}}], [], [{"fields": {}}], [{}], [{"id": "0-0"}], 2**70],
    "ids": [["1-1"], [], ["x"], None, ["1-1"] * 2000],
    "up_to": ["1-1", "x", None],
    "mode": ["fail", "release", "fatal", "dance"],
    "delay_ms": [0, 5, -1, 2**64],
    "error": ["timeout", "", "\0", "\ud800", "x" * 1001, 5],
    "claim_idle_ms": [0, 1000, -1],
    "on_disconnect": ["release", "keep", "explode"],
    "auto_credit": [True, False, "yes"],
    "ack": ["explicit", "none"],
    "surplus": [1],
}
LIKELY = {
    "subscribe": ["sub", "stream", "after", "credit"],
    "append": ["stream", "entries", "rid"],
    "ack": ["sub", "ids"],
    "nack": ["sub", "ids", "mode"],
    "extend": ["sub", "ids"],
    "credit": ["sub", "entries"],
    "unsubscribe": ["sub"],
}


def conversation(rng: random.Random) -> bytes:
    """Return a handshake and what a client says behind it."""
    handshake = HANDSHAKE.format(path=rng.choice(PATHS)).encode()
    frames = b"".join(_frame(rng) for _ in range(rng.choice([1, 5, 20, 200])))
    if rng.random() < 0.3:
        data = bytearray(frames)
        for _ in range(rng.choice([1, 5])):
            data[rng.randrange(len(data))] = rng.randrange(256)
        frames = bytes(data)
    return handshake + frames


def _frame(rng: random.Random) -> bytes:
    kind = rng.random()
    if kind < 0.75:
        text = json.dumps(_message(rng)).encode()
        if rng.random() < 0.1:
            return frame(TEXT, deflated(text), is_small=True)
        if rng.random() < 0.1:
            middle = rng.randrange(len(text))
            return frame(TEXT, text[:middle], is_last=False) + frame(CONT, text[middle:])
        return frame(TEXT, text)
    if kind < 0.9:
        return frame(rng.choice([PING, PONG]), rng.randbytes(rng.choice([0, 4, 125])))
    data = rng.choice([b"", b"{", b"[]", b"\xff", b"\x03\xe8bye", rng.randbytes(300)])
    opcode = rng.choice([TEXT, BINARY, CONT, CLOSE, 3, 11, PING])
    return frame(opcode, data, is_last=rng.random() < 0.8, is_small=rng.random() < 0.2)


def _message(rng: random.Random) -> Any:
    kind = rng.choice(TYPES)
    names = list(LIKELY.get(kind, []))
    names += rng.sample(sorted(MEMBERS), rng.choice([0, 0, 1, 3]))
    likely = rng.random() < 0.7
    return {
        "type": kind,
        **{name: MEMBERS[name][0] if likely else rng.choice(MEMBERS[name]) for name in names},
    }


async def converse(gateway: Gateway, seed: int) -> None:
    rng = random.Random(seed)
    sent = conversation(rng)
    head = sent.index(b"\r\n\r\n") + 4
    leaves_at_once = rng.random() < 0.2
    await served.exchanged(gateway.url, sent[:head], sent[head:], leaves_at_once=leaves_at_once)


async def test_frames_of_any_kind_are_answered_or_refused(tmp_path: Path) -> None:
    async with served.gateway(tmp_path) as gateway:
        await served.withstand(gateway, converse, 200)
