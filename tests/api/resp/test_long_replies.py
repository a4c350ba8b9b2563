"""Replies of any length: sent while they are read, as they were at one moment."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from headgate.app.settings import Settings
from headgate.engine.entry import Draft, EntryId
from headgate.engine.requests.entries import Add
from tests.api.conftest import Live
from tests.api.resp.talk import Talk, command
from tests.conditions import WITHIN_S, until

COUNT = 12_345


@pytest.fixture
def settings() -> Settings:
    return Settings(redis_port=0)


@pytest.fixture
async def talk(live: Live, talk: Talk) -> Talk:
    drafts = [Draft(EntryId(n, 1), (b"n", b"%d" % n)) for n in range(1, COUNT + 1)]
    await live.gateway.backend.perform(Add(b"s", drafts))
    return talk


def entries(numbers: Sequence[int]) -> bytes:
    parts = [b"*%d\r\n" % len(numbers)]
    for n in numbers:
        entry_id, value = b"%d-1" % n, b"%d" % n
        parts.append(b"*2\r\n$%d\r\n%b\r\n" % (len(entry_id), entry_id))
        parts.append(b"*2\r\n$1\r\nn\r\n$%d\r\n%b\r\n" % (len(value), value))
    return b"".join(parts)


def open_ranges(live: Live) -> int:
    engine: Any = live.gateway.backend
    return len(engine.engine._ranges)


ALL = range(1, COUNT + 1)
REPLIES = [
    ("XRANGE s - +", entries(ALL)),
    ("XREVRANGE s + -", entries(ALL[::-1])),
    ("XRANGE s 3-0 + COUNT 11000", entries(ALL[2:11_002])),
    ("XREVRANGE s 12000 3 COUNT 99999", entries(ALL[2:12_000][::-1])),
    ("XREAD STREAMS s 5-1", b"*1\r\n*2\r\n$1\r\ns\r\n" + entries(ALL[5:])),
    ("XREAD COUNT 7000 STREAMS s 0", b"*1\r\n*2\r\n$1\r\ns\r\n" + entries(ALL[:7_000])),
    ("XREAD BLOCK 1 STREAMS s 0", b"*1\r\n*2\r\n$1\r\ns\r\n" + entries(ALL)),
    (
        "XREAD STREAMS none s s s 0 12340-1 $ 1-1",
        b"*2\r\n*2\r\n$1\r\ns\r\n" + entries(ALL[-5:]) + b"*2\r\n$1\r\ns\r\n" + entries(ALL[1:]),
    ),
]


@pytest.mark.parametrize(("line", "reply"), REPLIES, ids=[line for line, _ in REPLIES])
async def test_a_reply_is_as_long_as_it_is(live: Live, talk: Talk, line: str, reply: bytes) -> None:
    await talk.say(command(*line.split()) + command("PING"), reply + b"+PONG\r\n")
    assert open_ranges(live) == 0


async def test_a_map_of_long_arrays_is_a_map(talk: Talk) -> None:
    talk.send(command("HELLO", "3"))
    while await talk.line() != b"*0":  # the value of `modules`, the last key
        pass
    reply = b"%1\r\n$1\r\ns\r\n" + entries(ALL)
    await talk.say(command("XREAD", "STREAMS", "s", "0"), reply)


async def test_a_transaction_keeps_its_bounds(talk: Talk) -> None:
    for words in (("MULTI",), ("XRANGE", "s", "-", "+")):
        talk.send(command(*words))
        await talk.line()
    talk.send(command("EXEC"))
    assert await talk.line() == b"*1"
    assert (await talk.line()).startswith(b"-ERR the reply has more than")


async def test_a_slow_reader_gets_what_there_was(live: Live, talk: Talk) -> None:
    slow, reply = await Talk.open(live.redis_port), entries(ALL)
    slow.send(command("XRANGE", "s", "-", "+") * 20)  # more than sockets take
    await slow.hear(reply)
    await until(lambda: open_ranges(live) > 0)
    await talk.say(command("XTRIM", "s", "MAXLEN", "5"), b":%d\r\n" % (COUNT - 5))
    await slow.hear(reply)
    await slow.close()
    await until(lambda: open_ranges(live) == 0)


async def test_who_has_gone_leaves_no_range_open(live: Live, talk: Talk) -> None:
    del talk
    for _ in range(3):
        gone = await Talk.open(live.redis_port)
        gone.send(command("XRANGE", "s", "-", "+") * 50)
        await until(lambda: open_ranges(live) > 0)
        await gone.close()
        await until(lambda: open_ranges(live) == 0)


async def test_a_reply_that_cannot_go_on_ends_its_connection(live: Live, talk: Talk) -> None:
    slow = await Talk.open(live.redis_port)
    slow.send(command("XRANGE", "s", "-", "+") * 20)
    await until(lambda: open_ranges(live) > 0)
    engine: Any = live.gateway.backend
    for number in list(engine.engine._ranges._open):
        engine.engine._ranges._close(number)
    taken = b""
    async with asyncio.timeout(WITHIN_S):
        while data := await slow._reader.read(2**20):
            taken += data
    assert 0 < len(taken) < 20 * len(entries(ALL))
    assert b"-" not in taken[-1:]
    await slow.close()
    await talk.say(command("PING"), b"+PONG\r\n")


async def test_a_long_reply_has_nothing_of_what_the_client_does_next(talk: Talk) -> None:
    texts = ["XRANGE s - +", "XREAD STREAMS s missing 0 0"]
    expected = [entries(ALL), b"*1\r\n*2\r\n$1\r\ns\r\n" + entries(ALL)]
    for text, reply in zip(texts, expected, strict=True):
        talk.send(command(*text.split()) + command("XADD", "missing", "7-7", "f", "v"))
        await talk.hear(reply + b"$3\r\n7-7\r\n")
        await talk.say(command("DEL", "missing"), b":1\r\n")
    talk.send(command(*texts[0].split()) + command("DEL", "s"))
    await talk.hear(expected[0] + b":1\r\n")
