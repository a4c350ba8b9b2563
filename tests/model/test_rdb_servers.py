"""Streams of Redis 7.0 and Valkey 9 are dumped there and restored here, and the other way round.

What is not compared: the shape of the radix tree, lag (which newer versions compute in another
way), and what only one of them has.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from itertools import chain
from random import Random
from typing import Any

import pytest

from deploy.local_cluster.server import Server
from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.rdb.source import checksum_of
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.engine.engine import Engine
from headgate.engine.journal.storage import MemoryStorage
from tests.model.histories import KEYS, STEPS, History, run_ours
from tests.model.redis_server import Redis, RedisError, Words, lines, words

HISTORIES = int(os.environ.get("HEADGATE_TEST_HISTORIES", "12"))
SHARED = {b"length", b"last-generated-id", b"max-deleted-entry-id", b"entries-added"}
SHARED |= {b"recorded-first-entry-id", b"entries", b"name", b"last-delivered-id", b"entries-read"}
SHARED |= {b"pel-count", b"pending", b"pel", b"seen-time"}
BINARY = [b"", b"\x00\xff", b"-0", b"1234567890123", b"x" * 70, b"y" * 5000]


class Sides:
    """A server, and our commands on an engine."""

    def __init__(self, redis: Redis, loop: asyncio.AbstractEventLoop) -> None:
        self.redis = redis
        self._loop = loop
        self.runner = CommandRunner(EmbeddedBackend(Engine(MemoryStorage(0))))

    def theirs(self, *parts: object) -> Any:
        return self.redis.run(words(*parts))

    def ours(self, *parts: object) -> Any:
        return run_ours(self._loop, self.runner, words(*parts))

    def both(self, *parts: object) -> None:
        theirs, ours = self.theirs(*parts), self.ours(*parts)
        assert ours == theirs, b" ".join(words(*parts))


@pytest.fixture(params=["redis_7", "valkey_9"])
def sides(request: pytest.FixtureRequest) -> Iterator[Sides]:
    server: Server = request.getfixturevalue(request.param)
    redis, loop = Redis(server.port), asyncio.new_event_loop()
    redis.run(words("FLUSHALL"))
    redis.run(words("CONFIG", "SET", "stream-node-max-entries", 3))
    yield Sides(redis, loop)
    redis.run(words("CONFIG", "SET", "stream-node-max-entries", 100))
    redis.run(words("FLUSHALL"))
    redis.close()
    loop.close()


def facts(reply: Any) -> Any:
    """Return the shared facts of a stream, a group or a consumer."""
    assert not isinstance(reply, RedisError), reply
    pairs = dict(zip(reply[0::2], reply[1::2], strict=True))
    known = {name: value for name, value in pairs.items() if name in SHARED}
    known[b"pending"] = known.pop(b"pel", known.get(b"pending"))
    for name in (b"groups", b"consumers"):
        known[name] = [facts(item) for item in pairs.get(name, [])]
    return known


def odd_entries(seed: int) -> Iterator[Words]:
    pick = Random(seed)
    for _ in range(20):
        fields = [pick.choice(BINARY) for _ in range(2 * pick.randint(1, 3))]
        yield words("XADD", pick.choice(KEYS), "*", *fields)


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_stream_goes_over_and_comes_back(sides: Sides, seed: int) -> None:
    history = History(seed)
    for command in chain((history.next() for _ in range(STEPS)), odd_entries(seed)):
        sides.redis.run(command)
    for key in KEYS:
        payload = sides.theirs("DUMP", key)
        if payload is None:
            assert sides.ours("DUMP", key) is None
            continue
        full = ["XINFO", "STREAM", key, "FULL", "COUNT", 0]
        before = facts(sides.theirs(*full))
        assert sides.ours("RESTORE", key, 0, payload) == "OK"
        assert facts(sides.ours(*full)) == before
        for group in before[b"groups"]:
            sides.both("XPENDING", key, group[b"name"])
        sides.both("XRANGE", key, "-", "+")
        back = sides.ours("DUMP", key)
        assert sides.theirs("RESTORE", key, 0, back, "REPLACE") == "OK"
        assert facts(sides.theirs(*full)) == before
        assert sides.ours("RESTORE", key, 0, back, "REPLACE") == "OK"
        assert facts(sides.ours(*full)) == before


def test_a_dump_tells_the_first_entry_that_is_left(sides: Sides) -> None:
    sides.ours("CONFIG", "SET", "stream-node-max-entries", 3)
    for number in range(1, 6):
        sides.ours("XADD", "s", number, "a", "b")
    assert sides.ours("XDEL", "s", 1, 2) == 2
    assert sides.theirs("RESTORE", "s", 0, sides.ours("DUMP", "s")) == "OK"
    assert facts(sides.theirs("XINFO", "STREAM", "s", "FULL"))[b"recorded-first-entry-id"] == b"3-0"


def test_a_pending_entry_that_nobody_owns_can_be_claimed_there(sides: Sides) -> None:
    for command in (
        ["XADD", "s", "1-1", "a", "b"],
        ["XGROUP", "CREATE", "s", "g", "0"],
        ["XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">"],
        ["XNACK", "s", "g", "FAIL", "IDS", 1, "1-1"],
    ):
        assert not isinstance(sides.ours(*command), RedisError), command
    payload = sides.ours("DUMP", "s")
    assert sides.theirs("RESTORE", "s", 0, payload) == "OK"
    claimed = sides.theirs("XAUTOCLAIM", "s", "g", "d", 10_000_000, "0")
    assert claimed[1] == [[b"1-1", [b"a", b"b"]]]


LINES = lines(
    "DUMP nothing / DUMP / RESTORE s 0 / RESTORE s 0 abc / RESTORE new 0 abc / "
    "RESTORE s 0 abc REPLACE / RESTORE s x abc / RESTORE new x abc / RESTORE new -1 PAYLOAD / "
    "RESTORE s -1 PAYLOAD REPLACE / RESTORE new 0 PAYLOAD FOO / RESTORE new 0 PAYLOAD IDLETIME / "
    "RESTORE new 0 PAYLOAD IDLETIME -1 / RESTORE new 0 PAYLOAD IDLETIME x / "
    "RESTORE new 0 PAYLOAD FREQ 256 / RESTORE new 0 PAYLOAD FREQ 1 IDLETIME 1 / "
    "RESTORE new 0 PAYLOAD IDLETIME 1 FREQ 1 / RESTORE new 0 DAMAGED / RESTORE s 0 DAMAGED / "
    "RESTORE new 0 PAYLOAD IDLETIME 1000 / RESTORE new 0 PAYLOAD FREQ 100 REPLACE / "
    "RESTORE new 100000 PAYLOAD / RESTORE new 9999999999999 PAYLOAD ABSTTL / "
    "RESTORE new 1 PAYLOAD ABSTTL / RESTORE s 1 PAYLOAD ABSTTL REPLACE / "
    "RESTORE s 1 PAYLOAD ABSTTL / COPY s new / COPY s t / COPY s t REPLACE / COPY nothing new / "
    "COPY nothing t REPLACE / COPY s s / COPY s s REPLACE / COPY s new DB 0 / "
    "COPY s new DB 99999 / COPY s new DB -1 / COPY s new DB x / COPY s new DB 99999999999 / "
    "COPY s new DB / COPY s new FOO / COPY s / RENAMENX s new / RENAMENX s t / RENAMENX s s / "
    "RENAMENX nothing t / RENAMENX s / OBJECT ENCODING s / OBJECT ENCODING nothing / "
    "OBJECT FREQ s / OBJECT FREQ nothing / OBJECT REFCOUNT s / OBJECT REFCOUNT nothing / "
    "OBJECT IDLETIME nothing / OBJECT / OBJECT FOO s / OBJECT ENCODING / "
    "OBJECT FREQ s t / MEMORY USAGE nothing / MEMORY USAGE / MEMORY USAGE s SAMPLES / "
    "MEMORY USAGE s SAMPLES x / MEMORY USAGE s SAMPLES -1 / MEMORY USAGE s FOO 1 / MEMORY FOO s / "
    "MEMORY"
)


def test_an_idle_time_is_a_number(sides: Sides) -> None:
    """The server looks at its clock once a second, so it may say one more."""
    sides.both("XADD", "s", "1-1", "a", "b")
    for idle_s in (sides.theirs("OBJECT", "IDLETIME", "s"), sides.ours("OBJECT", "IDLETIME", "s")):
        assert isinstance(idle_s, int)


@pytest.mark.parametrize("line", LINES)
def test_replies_and_errors_are_the_same(sides: Sides, line: str) -> None:
    for command in (
        ["XADD", "s", "1-1", "a", "b"],
        ["XADD", "t", "2-1", "c", "d"],
        ["EXPIRE", "s", 1000],
        ["XGROUP", "CREATE", "s", "g", "0"],
    ):
        sides.both(*command)
    payload = sides.ours("DUMP", "t")
    payloads = {b"PAYLOAD": payload, b"DAMAGED": damaged(payload)}
    sides.both(*(payloads.get(word, word) for word in line.encode().split()))
    for key in ("s", "t", "new"):
        sides.both("XRANGE", key, "-", "+")
        sides.both("EXISTS", key)
        theirs, ours = sides.theirs("PTTL", key), sides.ours("PTTL", key)
        assert abs(theirs - ours) < 1000
        assert (theirs < 0) == (ours < 0)
    if sides.ours("EXISTS", "new"):
        full = ["XINFO", "STREAM", "new", "FULL"]
        assert facts(sides.ours(*full)) == facts(sides.theirs(*full))


def damaged(payload: bytes) -> bytes:
    """Return a payload with a right checksum around a listpack that is none."""
    body = payload[:-8].replace(b"\xff", b"\xfe", 1)
    return body + checksum_of(body).to_bytes(8, "little")
