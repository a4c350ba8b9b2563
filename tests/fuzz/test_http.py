"""Random requests, pipelined and damaged: each is answered or refused, and the gateway stands."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from tests.fuzz import served
from tests.processes.gateway import Gateway

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")

METHODS = [b"GET", b"POST", b"PUT", b"PATCH", b"DELETE", b"HEAD", b"OPTIONS", b"TRACE", b"CONNECT"]
METHODS += [b"PRI", b"PURGE", b"M-SEARCH", b"get", b"DANCE"]
PATHS = [b"/", b"/healthz", b"/readyz", b"/metrics", b"/v1/limits", b"/docs", b"/openapi.json"]
PATHS += [b"/v1/streams", b"/v1/commands/XLEN/s", b"/v1/commands/PING", b"/v1/admin/journal"]
STREAM_PATHS = [b"", b"/entries", b"/entries/batch", b"/entries/1-1", b"/groups", b"/groups/g"]
STREAM_PATHS += [
    b"/groups/g/" + action for action in (b"read", b"ack", b"claim", b"pending", b"events")
]
STREAM_PATHS += [b"/events", b"/trim", b"/ws", b"/nothing"]
NAMES = [b"s", b"%00", b"%ff%fe", b"%2f", b"%", b"%zz", b"\xc3\xa9", b"%F0%9F%98%80", b"n" * 3000]
NAMES += [b"", b".", b"..", b"a%0d%0ab"]
HEADERS = [b"Content-Type", b"Accept", b"Idempotency-Key", b"Idempotency-Producer", b"If-Match"]
HEADERS += [b"If-None-Match", b"Last-Event-ID", b"Headgate-Consumer", b"Cookie", b"Host", b"Origin"]
HEADERS += [b"Upstash-Encoding", b"Upgrade", b"Connection", b"Expect", b"Sec-Fetch-Site", b"TE"]
HEADERS += [b"Range", b"Content-Encoding", b"X-Forwarded-For", b"Sec-WebSocket-Key", b"Referer"]
VALUES = [b"", b"application/json", b"text/event-stream", b"close", b"keep-alive", b"websocket"]
VALUES += [b"Upgrade", b"h2c", b"100-continue", b"\xff\xfe", "größer".encode(), b"\xe9", b'"1-1"']
VALUES += [b"0-0", b"$", b"*/*", b"localhost", b"[::1", b"bytes=0-", b"gzip", b"x" * 5000, b"\t \t"]
VALUES += [b"application/x-ndjson", b"application/vnd.apache.arrow.stream", b"http://localhost"]
QUERIES = [b"consumer", b"after", b"limit", b"wait_ms", b"start", b"end", b"credit", b"ack", b"x"]
BODIES = [b"{}", b"[]", b'{"fields":{"v":"1"}}', b'[{"fields":{"v":"1"}}]', b'["XADD","s","*","a"]']
BODIES += [b"", b"\xff\xfe", b"null", b"[" * 3000, b'{"a":' * 3000, b'{"ids":["1-1"]}', b"NaN"]
BODIES += [b'{"fields":{"v":"\\ud800"}}', b"1" * 5000, b'{"min_idle_ms":1e999}', b'{"limit":-1}']
HEADERS_COUNTS = [0] * 8 + [1] * 6 + [3, 10, 126, 200]


def message(rng: random.Random) -> bytes:
    """Return some requests one behind the other, some of them damaged."""
    text = b"".join(_request(rng) for _ in range(rng.choice([1, 1, 2, 5, 30])))
    if rng.random() < 0.3:
        text = _damaged(rng, text)
    return text


def _request(rng: random.Random) -> bytes:
    line = b"%b %b HTTP/%b\r\n" % (
        rng.choice(METHODS[:2] if rng.random() < 0.8 else METHODS),
        _target(rng),
        rng.choice([b"1.1"] * 40 + [b"1.0", b"2.0", b"0.9"]),
    )
    headers = [] if rng.random() < 0.03 else [b"Host: localhost\r\n"]
    headers += [
        b"%b: %b\r\n" % (rng.choice(HEADERS), rng.choice(VALUES))
        for _ in range(rng.choice(HEADERS_COUNTS))
    ]
    if rng.random() < 0.6:
        headers.append(b"Content-Type: application/json\r\n")
    framing, body = _framed(rng, rng.choice(BODIES))
    return line + b"".join(headers) + framing + b"\r\n" + body


def _target(rng: random.Random) -> bytes:
    path = rng.choice(PATHS)
    if rng.random() < 0.7:
        path = (
            b"/v1/streams/"
            + rng.choice([b"s", b"s", b"s", rng.choice(NAMES)])
            + rng.choice(STREAM_PATHS)
        )
    if rng.random() < 0.03:
        path = rng.choice([b"http://localhost", b"http://evil", b"*", b"//"]) + path
    if rng.random() < 0.2:
        count = rng.choice([1, 2, 5, 1000])
        pairs = (
            rng.choice(QUERIES) + b"=" + rng.choice([*NAMES, b"1", b"$"]) for _ in range(count)
        )
        path += b"?" + b"&".join(pairs)[:50_000]
    return path


def _framed(rng: random.Random, body: bytes) -> tuple[bytes, bytes]:
    """Return a body and the headers that say how long it is, true or not."""
    kind = rng.random()
    if kind < 0.1:
        return b"", b""
    if kind < 0.6:
        size = len(body) if rng.random() < 0.95 else rng.choice([0, 1, 10**30, 2**63, 2**24 + 1])
        return b"Content-Length: %d\r\n" % size, body
    size = rng.choice([1, 7, 1000])
    extension = rng.choice([b"", b";a=b", b";" + b"x" * 2000, b' ;"'])
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    chunks = b"".join(b"%x%b\r\n%b\r\n" % (len(part), extension, part) for part in parts)
    trailer = rng.choice([b"", b"", b"A: b\r\n" * 10, b"Content-Length: 5\r\n"])
    return b"Transfer-Encoding: chunked\r\n", chunks + b"0\r\n" + trailer + b"\r\n"


def _damaged(rng: random.Random, text: bytes) -> bytes:
    data = bytearray(text)
    for _ in range(rng.choice([1, 3, 20])):
        at = rng.randrange(len(data) + 1)
        kind = rng.random()
        if kind < 0.4:
            data[at : at + 1] = rng.randbytes(1)
        elif kind < 0.6:
            del data[at : at + rng.choice([1, 10, 1000])]
        elif kind < 0.8:
            data[at:at] = rng.choice([b"\r\n", b"\0", b"\xff" * 10, b"\r\n\r\n", b"A" * 70_000])
        else:
            data[at:at] = bytes(data[at : at + 500])
    return bytes(data)


async def send_some(gateway: Gateway, seed: int) -> None:
    rng = random.Random(seed)
    await served.exchanged(gateway.url, message(rng), leaves_at_once=rng.random() < 0.2)


async def test_requests_of_any_kind_are_answered_or_refused(tmp_path: Path) -> None:
    async with served.gateway(tmp_path) as gateway:
        await served.withstand(gateway, send_some, 200)
