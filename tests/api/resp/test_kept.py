"""A connection's memory for its client: it counts, it has a bound, and it is given back."""

import gc

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


QUEUE = [(MULTI, b"+OK\r\n"), (ECHO, QUEUED)]
WATCH = [(command("WATCH", KEYS[0]), b"+OK\r\n")]
UNKNOWN = b"-ERR unknown command 'NOSUCH', with args beginning with: 'x' \r\n"


@pytest.mark.parametrize(
    ("kept", "way", "reply"),
    [
        pytest.param(QUEUE, b"EXEC\r\n", b"*1\r\n$200000\r\n%b\r\n" % (b"e" * 200_000), id="exec"),
        pytest.param(QUEUE, b"DISCARD\r\n", b"+OK\r\n", id="discard"),
        pytest.param(QUEUE, b"RESET\r\n", b"+RESET\r\n", id="reset"),
        pytest.param(QUEUE, command("NOSUCH", "x"), UNKNOWN, id="broken"),
        pytest.param(QUEUE, b"", b"", id="queued and gone"),
        pytest.param(WATCH, b"UNWATCH\r\n", b"+OK\r\n", id="unwatch"),
        pytest.param(WATCH, b"RESET\r\n", b"+RESET\r\n", id="watch and reset"),
        pytest.param(WATCH, b"MULTI\r\nEXEC\r\n", b"+OK\r\n*0\r\n", id="watch and exec"),
        pytest.param(WATCH, b"", b"", id="watched and gone"),
    ],
)
async def test_what_is_kept_counts_until_it_goes(
    live: Live, kept: list[tuple[bytes, bytes]], way: bytes, reply: bytes
) -> None:
    talk = await Talk.open(live.redis_port)
    for sent, heard in kept:
        await talk.say(sent, heard)
    assert 200_000 < kept_bytes(live) < 210_000
    if way:
        await talk.say(way, reply)
        assert kept_bytes(live) == 0
    await talk.close()
    await until(lambda: kept_bytes(live) == 0)


BLOCKED = command("XREAD", "BLOCK", "60000", "STREAMS", "orders", "$")


WAITING = {
    "the words of a read": command("XREAD", *["BLOCK", "60000"] * 2_000, "STREAMS", "orders", "$"),
    "what is behind a read": BLOCKED + command("ECHO", "e" * 300_000),
    "a part": ECHO[:-1_000],
}


@pytest.mark.parametrize("what", WAITING)
async def test_what_waits_counts_until_its_connection_ends(live: Live, what: str) -> None:
    talk = await Talk.open(live.redis_port)
    talk.send(WAITING[what])
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
    assert (await other.line()).startswith(b"-ERR too much data is arriving or queued")
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
    assert (await talk.line()).startswith(b"-ERR too much data is arriving or queued")
    assert kept_bytes(live) == 0
    await talk.say(command("PING"), b"+PONG\r\n")


async def test_what_a_client_is_called_has_a_bound(talk: Talk) -> None:
    names = ("LIB-NAME", "LIB-VER")
    for words in (
        *(("CLIENT", "SETNAME"), ("HELLO", "2", "SETNAME")),
        *(("CLIENT", "SETINFO", name) for name in names),
    ):
        await talk.say(command("RESET"), b"+RESET\r\n")
        talk.send(command(*words, "n" * 1025) + command("ECHO", "end"))
        assert b"cannot have more than 1024 bytes" in await talk.line()
        await talk.hear(b"$3\r\nend\r\n")
        talk.send(command(*words, "n" * 1024) + command("ECHO", "end"))
        assert (await talk.line())[:1] in (b"+", b"*")
        while await talk.line() != b"end":
            pass


async def test_an_unknown_command_is_kept_by_its_beginning(talk: Talk) -> None:
    talk.send(command("u" * 300_000))
    await talk.line()
    gc.collect()
    assert not [each for each in gc.get_objects() if isinstance(each, bytes) and len(each) > 2e5]
