"""Worked examples over the wire: what comes back has the bytes that Redis's replies have.

The examples are those of `tests.unit.app.redis_syntax`, where the contents of replies are compared.
Here they go over the port, by RESP2 and by RESP3. Most are newer than redis-server 7.0; Valkey 9
gets those of which it knows all words, and which need no clock that is set by hand.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from itertools import chain, groupby
from typing import Any

import pytest

from deploy.local_cluster.server import Server
from tests.api.resp.talk import Talk
from tests.conditions import until
from tests.model.wire.compared import comparable
from tests.model.wire.exchange import PATIENCE_S, exchanged
from tests.model.wire.expected import RESP2, RESP3, expected_bytes, expected_map
from tests.model.wire.own_port import own_port
from tests.model.wire.replies import parts_of, split_replies, tree_of, written
from tests.unit.app.redis_syntax.console import TWO, Case, Console, claimed, typed
from tests.unit.app.redis_syntax.examples.in_full import HANDED_OUT, IN_FULL
from tests.unit.app.redis_syntax.examples.table import EXAMPLES

CASES: list[Case] = [*chain.from_iterable(EXAMPLES.values())]

UNKNOWN_TO_VALKEY = {
    *(b"KEEPREF", b"DELREF", b"ACKED", b"XDELEX", b"XACKDEL"),  # Redis 8.2
    b"CLAIM",  # 8.4
    *(b"IDMP", b"IDMPAUTO", b"XCFGSET", b"XIDMPRECORD"),  # 8.6
    *(b"stream-idmp-duration", b"stream-idmp-maxsize"),
    b"XNACK",  # 8.8
    *(b"MAXCOUNT", b"MAXSIZE"),  # 8.10
}
"""Words that Valkey 9 refuses, with the version of Redis that has them."""

OTHERWISE_IN_VALKEY = {
    "+ is the last live one": "it looks at the last id, whose entry is gone",
    "10 told too much": "ENTRIESREAD is not cut to the entries added, as in Redis since 8.2",
}


@pytest.mark.parametrize("protocol", [RESP2, RESP3])
async def test_the_last_reply_has_the_bytes_of_redis(protocol: int) -> None:
    differing = []
    for name, lines, reply in CASES:
        answer = await answer_of_gateway(lines, protocol)
        expected = expected_bytes(lines[-1], reply, protocol)
        if answer != expected:
            differing.append((name, answer, expected))
    assert not differing, differing


@pytest.mark.parametrize("protocol", [RESP2, RESP3])
async def test_in_full_each_part_of_a_stream_is_a_map(protocol: int) -> None:
    answer = await answer_of_gateway([*HANDED_OUT, "XINFO STREAM s FULL"], protocol)
    assert answer == expected_map(IN_FULL, protocol)


@pytest.mark.parametrize("protocol", [RESP2, RESP3])
async def test_a_nack_wakes_a_reader_that_claims(protocol: int) -> None:
    console, line = Console(), "XREADGROUP GROUP g d BLOCK 0 CLAIM 1000 STREAMS s >"
    async with own_port(console.engine) as port:
        await answers(port.number, TWO, protocol)
        reader = await Talk.open(port.number)
        reader.send(b"HELLO %d\r\n%b\r\n" % (protocol, line.encode()))
        await until(lambda: console.engine.waiter_count == 1)
        assert await answers(port.number, ["XNACK s g FAIL IDS 1 2"], protocol) == [b":1\r\n"]
        while await reader.line() != b"*0":  # the modules that HELLO tells
            pass
        await reader.hear(expected_bytes(line, [["s", [claimed(2, 0, 1)]]], protocol))
        await reader.close()


@pytest.mark.parametrize("protocol", [RESP2, RESP3])
async def test_valkey_says_the_same_if_it_knows_all_words(valkey_port: int, protocol: int) -> None:
    differing = set()
    for name, lines, reply in CASES:
        if UNKNOWN_TO_VALKEY.isdisjoint(words_of(lines)) and not needs_clock(lines):
            *before, answer = await answers_of_valkey(valkey_port, lines, protocol)
            assert not any(map(is_error, before)), name
            expected = expected_bytes(lines[-1], reply, protocol)
            if without_idle(lines[-1], answer) != without_idle(lines[-1], expected):
                differing.add(name)
    assert differing == OTHERWISE_IN_VALKEY.keys()


@pytest.fixture
async def valkey_port(valkey_9: Server) -> AsyncIterator[int]:
    """Yield the port of Valkey, and leave Valkey as it was."""
    yield valkey_9.port
    reset = ["CONFIG SET stream-node-max-entries 100", "FLUSHALL"]
    assert await answers(valkey_9.port, reset, RESP2) == [b"+OK\r\n"] * 2


async def answer_of_gateway(lines: Sequence[str], protocol: int) -> bytes:
    """Send an example to the port of a gateway; returns the reply to its last command."""
    console, replies = Console(), [b""]
    async with own_port(console.engine) as port:
        for is_wait, together in groupby(lines, lambda line: line.startswith("WAIT ")):
            if is_wait:
                for line in together:
                    await console.say(line)
            else:
                replies = await answers(port.number, list(together), protocol)
    return replies[-1]


async def answers_of_valkey(port: int, lines: Sequence[str], protocol: int) -> list[bytes]:
    """Send an example to a server that is as a console is: empty, with nodes of three entries."""
    reset = ["FLUSHALL", "CONFIG SET stream-node-max-entries 3"]
    return (await answers(port, [*reset, *lines], protocol))[len(reset) :]


async def answers(port: int, lines: Sequence[str], protocol: int) -> list[bytes]:
    """Send commands over a connection; returns their replies, or the fields that are shown."""
    commands = [typed(line.partition(" | ")[0]) for line in lines]
    data = b"".join(map(written, [[b"HELLO", b"%d" % protocol], *commands]))
    answer = await exchanged(port, [data], half_closes=True, quiet_s=PATIENCE_S)
    _, *replies = split_replies(answer.output)
    return [picked(line, reply) for line, reply in zip(lines, replies, strict=True)]


def picked(line: str, reply: bytes) -> bytes:
    """Return the fields that an example shows of a reply, as an array."""
    names = line.partition(" | ")[2].split()
    if not names or is_error(reply):
        return reply
    parts = parts_of(reply)
    if parts[0][:1] in (b"*", b"%"):  # the first of several
        parts = parts_of(parts[0])
    fields = dict(zip(parts[::2], parts[1::2], strict=True))
    values = [fields[b"$%d\r\n%b\r\n" % (len(name), name.encode())] for name in names]
    return b"*%d\r\n%b" % (len(values), b"".join(values))


def without_idle(line: str, reply: bytes) -> Any:
    """Return the comparable part of a reply if time passes."""
    return comparable(typed(line), tree_of(reply)) if line.startswith("XPENDING") else reply


def needs_clock(lines: Sequence[str]) -> bool:
    """Tell whether time must pass, or an id is made of it."""
    return any(line.startswith("WAIT ") or b"*" in typed(line)[2:] for line in lines)


def words_of(lines: Sequence[str]) -> set[bytes]:
    return {word for line in lines for word in typed(line)}


def is_error(reply: bytes) -> bool:
    return reply.startswith(b"-")
