"""A connection's memory for its client: it counts, it has a bound, and it is given back."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable, Sequence

import pytest

from headgate.app.settings import Settings
from tests.api.conftest import Live
from tests.api.resp.talk import Talk, command
from tests.conditions import until

MULTI, QUEUED = command("MULTI"), b"+QUEUED\r\n"
ECHO = command("ECHO", "e" * 200_000)
KEYS = [b"w%d" % at + b"w" * 200_000 for at in range(20)]


@pytest.fixture
def settings() -> Settings:
    return Settings(redis_port=0, body_bytes_max=1_000_000, arriving_bytes_max=2**20)


def kept_bytes(live: Live) -> int:
    return live.gateway.sockets._arriving_bytes


def unread_bytes(live: Live) -> int:
    return live.gateway.sockets._unread_bytes


async def queue_one(talk: Talk) -> None:
    await talk.say(MULTI, b"+OK\r\n")
    await talk.say(ECHO, QUEUED)


async def watch_one(talk: Talk) -> None:
    await talk.say(command("WATCH", KEYS[0]), b"+OK\r\n")


WAYS_OUT: Sequence[tuple[bytes, bytes]] = [
    (b"EXEC\r\n", b"*1\r\n$200000\r\n%b\r\n" % (b"e" * 200_000)),
    (b"DISCARD\r\n", b"+OK\r\n"),
    (b"RESET\r\n", b"+RESET\r\n"),
    (command("NOSUCH", "x"), b"-ERR unknown command 'NOSUCH', with args beginning with: 'x' \r\n"),
]


@pytest.mark.parametrize(("way", "reply"), WAYS_OUT, ids=["exec", "discard", "reset", "broken"])
async def test_queued_commands_count_until_they_go(
    live: Live, talk: Talk, way: bytes, reply: bytes
) -> None:
    await queue_one(talk)
    assert 200_000 < kept_bytes(live) < 210_000
    await talk.say(way, reply)
    assert kept_bytes(live) == 0


@pytest.mark.parametrize("way", [b"UNWATCH\r\n", b"RESET\r\n", b"MULTI\r\nEXEC\r\n"])
async def test_watched_keys_count_until_they_go(live: Live, talk: Talk, way: bytes) -> None:
    await watch_one(talk)
    assert 200_000 < kept_bytes(live) < 210_000
    talk.send(way)
    await talk.line()
    await until(lambda: kept_bytes(live) == 0)


@pytest.mark.parametrize("keep", [queue_one, watch_one])
async def test_what_is_kept_goes_with_its_connection(live: Live, keep: object) -> None:
    talk = await Talk.open(live.redis_port)
    await (queue_one if keep is queue_one else watch_one)(talk)
    await talk.close()
    await until(lambda: kept_bytes(live) == 0)


BLOCKED = command("XREAD", "BLOCK", "60000", "STREAMS", "orders", "$")


async def wait_with_words(talk: Talk) -> None:
    talk.send(command("XREAD", *(["BLOCK", "60000"] * 2_000), "STREAMS", "orders", "$"))


async def send_behind_a_read(talk: Talk) -> None:
    talk.send(BLOCKED + command("ECHO", "e" * 300_000))


async def send_a_part(talk: Talk) -> None:
    talk.send(ECHO[:-1_000])


@pytest.mark.parametrize("keep", [wait_with_words, send_behind_a_read, send_a_part])
async def test_what_waits_counts_until_its_connection_ends(
    live: Live, keep: Callable[[Talk], Awaitable[None]]
) -> None:
    talk = await Talk.open(live.redis_port)
    await keep(talk)
    await until(lambda: kept_bytes(live) + unread_bytes(live) > 150_000)
    await talk.close()
    await until(lambda: kept_bytes(live) + unread_bytes(live) == 0)


async def test_what_is_sent_behind_a_read_waits_for_room_and_is_run(live: Live, talk: Talk) -> None:
    other = await Talk.open(live.redis_port)
    other.send(BLOCKED + command("ECHO", "e" * 500_000))
    await until(lambda: unread_bytes(live) > 400_000)
    talk.send(BLOCKED + command("ECHO", "f" * 500_000))
    await until(lambda: live.waiter_count == 2)
    assert unread_bytes(live) <= 2**19
    await live.append("orders", "v")
    for each, text in ((other, b"e"), (talk, b"f")):
        while not (await each.line()).startswith(b"$500000"):
            pass
        await each.hear(text * 500_000 + b"\r\n")
    await until(lambda: kept_bytes(live) + unread_bytes(live) == 0)
    await other.close()


async def test_what_is_too_much_breaks_the_transaction_and_nothing_else(
    live: Live, talk: Talk
) -> None:
    await talk.say(MULTI, b"+OK\r\n")
    for _ in range(5):
        await talk.say(ECHO, QUEUED)
    other = await Talk.open(live.redis_port)
    await other.say(MULTI, b"+OK\r\n")
    other.send(ECHO)
    assert (await other.line()).startswith(b"-ERR too much is arriving or queued at once")
    await other.say(ECHO, QUEUED)
    await other.say(
        b"EXEC\r\n", b"-EXECABORT Transaction discarded because of previous errors.\r\n"
    )
    await talk.say(b"DISCARD\r\n", b"+OK\r\n")
    await other.say(ECHO, b"$200000\r\n%b\r\n" % (b"e" * 200_000))
    assert kept_bytes(live) == 0
    await other.close()


async def test_who_watches_too_much_watches_nothing(live: Live, talk: Talk) -> None:
    for key in KEYS[:5]:
        await talk.say(command("WATCH", key), b"+OK\r\n")
    talk.send(command("WATCH", KEYS[5]))
    assert (await talk.line()).startswith(b"-ERR too much is arriving or queued at once")
    assert kept_bytes(live) == 0
    await talk.say(command("PING"), b"+PONG\r\n")


@pytest.mark.parametrize(
    "words",
    [
        ("CLIENT", "SETNAME"),
        ("CLIENT", "SETINFO", "LIB-NAME"),
        ("CLIENT", "SETINFO", "LIB-VER"),
        ("HELLO", "2", "SETNAME"),
    ],
    ids=" ".join,
)
async def test_what_a_client_is_called_has_a_bound(talk: Talk, words: Sequence[str]) -> None:
    talk.send(command(*words, "n" * 1025))
    assert b"cannot have more than 1024 bytes" in await talk.line()
    talk.send(command(*words, "n" * 1024))
    assert (await talk.line())[:1] in (b"+", b"*")


async def test_an_unknown_command_is_kept_by_its_beginning(talk: Talk) -> None:
    talk.send(command("u" * 300_000))
    await talk.line()
    gc.collect()
    assert not [each for each in gc.get_objects() if isinstance(each, bytes) and len(each) > 2e5]
