"""A conversation of a Redis client and the gateway, to the byte."""

import asyncio
import gc
import time
from contextlib import suppress

import pytest

from headgate.app.resp.session import RespSession
from headgate.app.settings import Settings
from tests.api.conftest import Live
from tests.api.resp.talk import Talk, command
from tests.conditions import eventually, moment, until


@pytest.fixture
def settings() -> Settings:
    return Settings(redis_port=0, body_bytes_max=100_000)


async def test_a_word_above_the_bound_ends_the_connection(talk: Talk) -> None:
    error = b"-ERR Protocol error: invalid bulk length\r\n"
    await talk.say(b"PING\r\n*1\r\n$100001\r\n", b"+PONG\r\n" + error)
    await talk.hear_end()


async def test_a_read_that_blocks_is_answered_by_an_append(live: Live, talk: Talk) -> None:
    talk.send(b"XREAD BLOCK 0 STREAMS s $\r\nPING\r\n")
    await until(lambda: live.waiter_count == 1)
    await live.append("s", "x")
    assert await talk.line() == b"*1"
    await talk.hear(b"*2\r\n$1\r\ns\r\n*1\r\n*2\r\n")


async def test_a_read_that_blocks_ends_with_its_connection(live: Live, talk: Talk) -> None:
    other = await Talk.open(live.redis_port)
    other.send(b"XREAD BLOCK 0 STREAMS s $\r\n")
    await until(lambda: live.waiter_count == 1)
    await other.close()
    await until(lambda: live.waiter_count == 0)
    await talk.say(b"PING\r\n", b"+PONG\r\n")


@pytest.mark.parametrize(
    ("how", "reply"),
    [("", b"*-1\r\n"), (" ERROR", b"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n")],
)
async def test_a_client_can_be_unblocked(live: Live, talk: Talk, how: str, reply: bytes) -> None:
    other = await Talk.open(live.redis_port)
    await other.say(b"CLIENT ID\r\n", b":2\r\n")
    other.send(b"XREAD BLOCK 0 STREAMS s $\r\nPING\r\n")
    await until(lambda: live.waiter_count == 1)
    await talk.say(f"CLIENT UNBLOCK 2{how}\r\n".encode(), b":1\r\n")
    await other.hear(reply + b"+PONG\r\n")
    await other.close()


async def test_a_map_of_resp3_is_an_array_of_resp2(talk: Talk) -> None:
    await talk.say(b"XADD s 1-1 a b\r\n", b"$3\r\n1-1\r\n")
    entries = b"*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n"
    await talk.say(b"XREAD STREAMS s 0\r\n", b"*1\r\n*2\r\n$1\r\ns\r\n" + entries)
    talk.send(b"HELLO 3\r\n")
    assert await talk.line() == b"%7"
    while await talk.line() != b"*0":
        pass
    await talk.say(b"XREAD STREAMS s 0\r\n", b"%1\r\n$1\r\ns\r\n" + entries)
    await talk.say(b"XREAD STREAMS s $\r\nCLIENT GETNAME\r\n", b"_\r\n_\r\n")
    await talk.say(b"RESET\r\nCLIENT GETNAME\r\n", b"+RESET\r\n$-1\r\n")


async def test_a_page_that_sends_commands_is_cut_off(talk: Talk) -> None:
    talk.send(b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nFLUSHALL\r\n")
    with pytest.raises((ConnectionError, AssertionError)):
        await talk.hear(b"+")


@pytest.mark.long  # it goes by the time of the processor
@pytest.mark.parametrize(
    "line", [b"PING\r\n", b"FOO a b\r\n", b"MULTI\r\n", b"\r\n", b"CLIENT ID\r\n"]
)
async def test_a_long_pipeline_lets_others_have_their_turn(talk: Talk, line: bytes) -> None:
    gc.disable()  # it would look through all that other tests have left
    try:
        talk.send(line * 20_000 + b"ECHO end\r\n")
        longest_s, before_s = 0.0, time.thread_time()
        heard = asyncio.create_task(until_end(talk))
        while not heard.done():
            await asyncio.sleep(0)
            now_s = time.thread_time()
            longest_s, before_s = max(longest_s, now_s - before_s), now_s
    finally:
        gc.enable()
    assert longest_s < 0.3


async def until_end(talk: Talk) -> None:
    while await talk.line() not in (b"end", b"+QUEUED"):
        await asyncio.sleep(0)


class TestSlowClients:
    """Clients that take their replies slowly, or never."""

    @pytest.fixture
    def settings(self) -> Settings:
        return Settings(redis_port=0, send_ms_max=300)

    async def test_a_client_that_takes_nothing_is_cut_off(self, live: Live, talk: Talk) -> None:
        await live.append("s", "x" * 1_000_000)
        client = await Talk.open(live.redis_port)
        client.send(b"XRANGE s - +\r\n" * 40)
        await until(lambda: live.gateway.sockets.count() == 3)
        await until(lambda: live.gateway.sockets.count() == 2)
        await talk.say(b"PING\r\n", b"+PONG\r\n")
        await client.close()

    async def test_a_client_that_takes_little_at_a_time_gets_all(self, live: Live) -> None:
        await live.append("s", "x" * 1_000_000)
        client = await Talk.open(live.redis_port)
        client.send(b"XRANGE s - +\r\n" * 40)
        size_bytes = 0
        for _ in range(40):
            size_bytes += await client.take(1_000_000)
            await moment()  # slower than the gateway sends, and never still for long
        while size_bytes < 40 * 1_000_000:
            size_bytes += await client.take(1_000_000)
        await client.close()


async def test_nobody_waits_for_a_client_that_sends_no_more(live: Live, talk: Talk) -> None:
    await live.append("s", "1")
    other = await Talk.open(live.redis_port)
    other.send(b"XREAD BLOCK 0 STREAMS s $\r\n")
    await until(lambda: live.waiter_count == 1)
    other.send(b"XREAD BLOCK 0 STREAMS s $\r\nXADD t 1-1 a b\r\n")
    other.end()
    await other.hear_end()
    assert live.waiter_count == 0
    await talk.say(b"EXISTS t\r\n", b":0\r\n")


async def test_nobody_waits_for_a_reply_that_a_defect_takes(
    live: Live, talk: Talk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: object) -> None:
        raise ValueError("a defect")

    with monkeypatch.context() as patch:
        patch.setattr(RespSession, "run", fail)
        talk.send(command("PING"))
        with suppress(ConnectionError):
            await talk.hear_end()
    assert "a defect" in caplog.text
    other = await Talk.open(live.redis_port)
    await other.say(command("PING"), b"+PONG\r\n")
    await other.close()


async def test_a_pause_holds_who_writes_and_lets_others_go_on(live: Live, talk: Talk) -> None:
    other = await Talk.open(live.redis_port)
    await talk.say(command("CLIENT", "PAUSE", "3600000", "WRITE"), b"+OK\r\n")
    other.send(command("XADD", "s", "1-1", "a", "b"))

    async def clients() -> bytes:
        talk.send(command("CLIENT", "LIST"))
        return await talk.bulk()

    listed = await eventually(clients, lambda lines: b"cmd=xadd" in lines)
    assert listed.count(b" flags=N ") == 2
    await talk.say(command("EXISTS", "s"), b":0\r\n")
    await talk.say(command("CLIENT", "UNPAUSE"), b"+OK\r\n")
    await other.hear(b"$3\r\n1-1\r\n")
    await other.close()
