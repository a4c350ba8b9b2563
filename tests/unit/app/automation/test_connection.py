"""Whatever a receiver sends is an answer within bounds, or an error; one is never another's."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.app.automation import webhooks as module
from headgate.app.automation.webhooks import (
    ANSWER_BYTES_MAX,
    RECEIVED_BYTES_MAX,
    TargetAnswer,
    TargetConnections,
)
from tests.conditions import WITHIN_S, until
from tests.unit.app.automation.host import LOCAL, OK, Host

EMPTY = b"HTTP/1.1 204 Done\r\n\r\n"
BY_CHUNKS = b"Transfer-Encoding: chunked\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\n" + BY_CHUNKS + b"\r\n"
PIECES = st.sampled_from(
    [
        *(b"HTTP/1.1 ", b"HTTP/1.0 ", b"200", b" 100 Continue", b"101", b"Upgrade", b"upgrade"),
        *(b"Content-Length", b"Transfer-Encoding", b"chunked", b"Connection", b"close"),
        *(b"Retry-After", b"\r\n", b"\r", b"\n", b": ", b";", b" ", b"\0", b"\xff"),
        *(b"0", b"5", b"-1", b"9" * 30, OK, EMPTY),
    ]
)


async def post(connections: TargetConnections, host: Host, body: bytes = b"{}") -> TargetAnswer:
    async with asyncio.timeout(WITHIN_S):
        return await connections.post(host.url, body, {"X-Own": "1"})


async def ended(connections: TargetConnections) -> None:
    """Return once there is no connection."""
    await until(lambda: not connections._origins)


def chunk(body: bytes, extension: bytes = b"") -> bytes:
    return b"%x%b\r\n%b\r\n" % (len(body), extension, body)


def later(retry_after: bytes) -> bytes:
    return b"HTTP/1.1 503 \r\nContent-Length: 0\r\nRetry-After: %b\r\n\r\n" % retry_after


def with_length(*lengths: int, more: bytes = b"") -> bytes:
    lines = b"".join(b"Content-Length: %d\r\n" % length for length in lengths)
    return b"HTTP/1.1 200 OK\r\n%b%b\r\n" % (lines, more)


CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nRetry-After: 9\r\nContent-Length: 9\r\n\r\n"
SHORT = b"Content-Length: 2\r\n\r\nok"
NOT_MODIFIED = b"HTTP/1.1 304 No\r\nContent-Length: 9\r\n\r\n"
LATER = b"HTTP/1.1 429 Later\r\nRETRY-AFTER:  7 \r\nContent-Length: 0\r\n\r\n"
UPGRADE = b"HTTP/1.1 101 Yes\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n..."
LAST_DAY = b"Fri, 31 Dec 1999 23:59:59 GMT"
WHOLE = TargetAnswer(200, b"ok")
KEPT = {
    "with a length": (OK, WHOLE),
    "nothing": (EMPTY, TargetAnswer(204, b"")),
    "nothing, with a length": (NOT_MODIFIED, TargetAnswer(304, b"")),
    "in chunks": (CHUNKED + chunk(b"o", b";a=b") + chunk(b"k") + b"0\r\nTrailer: 1\r\n\r\n", WHOLE),
    "behind others": (CONTINUE + HINTS + CONTINUE + OK, WHOLE),
    "to come again": (LATER, TargetAnswer(429, b"", 7)),
    **{
        f"to come again {when}": (later(text), TargetAnswer(503, b"", retry_after_s))
        for when, text, retry_after_s in [
            ("at a date", LAST_DAY + b"\r\nDate: Fri, 31 Dec 1999 23:58:17 GMT", 102),
            ("at a date by our clock", b"Fri, 31 Dec 9999 23:59:59 GMT", 3600),
            ("at a date that is over", b"Friday, 31-Dec-99 23:59:59 GMT", 0),
            ("at no date", b"tomorrow\xff", None),
            ("at a date beyond all numbers", b"1 Jan 2020 00:00:00 +99999999999999999999", None),
            ("after years", b"99999999999999", 3600),
        ]
    },
}
ENDING = {
    "the last one": (b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + SHORT, WHOLE),
    "of HTTP/1.0": (b"HTTP/1.0 200 OK\r\n" + SHORT, WHOLE),
    "two": (OK + OK, WHOLE),
    "one, and nonsense": (OK + b"HTTP", WHOLE),
    "of another protocol": (UPGRADE, TargetAnswer(101, b"")),
    "too long": (
        with_length(99999999) + b"x" * 400_000,
        TargetAnswer(200, b"x" * ANSWER_BYTES_MAX),
    ),
    "in too many chunks": (CHUNKED + chunk(b"x") * 100_000, TargetAnswer(200, b"x" * 10_915)),
    "in a chunk whose size is long": (CHUNKED + chunk(b"ok") + b"2;" + b"x" * 400_000, WHOLE),
}
GOOD = KEPT | ENDING


@pytest.mark.parametrize("size", [0, 1, 7])
@pytest.mark.parametrize("name", GOOD)
async def test_an_answer_is_understood_in_whatever_pieces_it_comes(name: str, size: int) -> None:
    answer, expected = GOOD[name]
    is_kept = name in KEPT
    if size and len(answer) > RECEIVED_BYTES_MAX:
        size *= 1_000
    host = Host(answer, OK, size=size)
    async with host.open() as connections:
        outcome = await post(connections, host)
        if "too many" in name:
            assert expected.body.startswith(outcome.body)
            assert len(outcome.body) > ANSWER_BYTES_MAX / 2
        else:
            assert outcome == expected
        if not is_kept:
            await ended(connections)
        host.answers = [OK]
        assert await post(connections, host) == WHOLE
    assert host.connections == (1 if is_kept else 2)
    assert host.received[0].startswith(b"POST /x?a=1 HTTP/1.1\r\nHost: 127.0.0.1:")
    assert host.received[0].endswith(b"X-Own: 1\r\nContent-Length: 2\r\n\r\n{}")


BAD = {
    "nothing": (b"", "the host closed the connection"),
    "the start of a head": (b"HTTP/1.1 20", "the answer ended too early"),
    "the start of a body": (OK[:-1], "the answer ended too early"),
    "no last chunk": (CHUNKED + chunk(b"ok"), "the answer ended too early"),
    "another protocol": (b"SSH-2.0-OpenSSH_9.6\r\n", "the answer is not HTTP"),
    "a request": (b"GET / HTTP/1.1\r\n\r\n", "the answer is not HTTP"),
    "two lengths": (with_length(2, 3) + b"ok", "the answer is not HTTP"),
    "a length beside chunks": (with_length(2, more=BY_CHUNKS) + b"ok", "the answer is not HTTP"),
    "a status that is none": (OK.replace(b"200", b"099") + OK, "the answer is not HTTP"),
    "a size that is none": (CHUNKED + b"zz\r\nok\r\n", "the answer is not HTTP"),
    "a long head": (b"HTTP/1.1 200 OK\r\nA: " + b"x" * 400_000, "the answer has more than"),
    "many heads": (CONTINUE * 10_000, "the answer has more than"),
    "many headers": (b"HTTP/1.1 200 OK\r\n" + b"a:b\r\n" * 50_000, "the answer has more than"),
}


@pytest.mark.parametrize("size", [0, 1_000])
@pytest.mark.parametrize("name", BAD)
async def test_what_is_no_answer_is_an_error_that_does_not_have_the_url(
    name: str, size: int
) -> None:
    answer, text = BAD[name]
    host = Host(answer, size=size, ends=True)
    async with host.open() as connections:
        with pytest.raises(OSError, match=text) as raised:
            await post(connections, host)
        assert "/x" not in str(raised.value)
        host.answers = [OK]
        assert await post(connections, host) == WHOLE


@given(pieces=st.lists(PIECES, max_size=12), size=st.sampled_from([0, 0, 1, 3]))
@settings(max_examples=50, deadline=None)
def test_whatever_comes_the_next_request_has_its_own_answer(
    pieces: Sequence[bytes], size: int
) -> None:
    async def run() -> None:
        host = Host(b"".join(pieces), size=size, ends=True)
        async with host.open() as connections:
            with suppress(OSError):
                await post(connections, host)
            if size:  # what still comes could be taken for the answer to the next request
                await ended(connections)
            host.answers, host.ends = [b"HTTP/1.1 201 Mine\r\nContent-Length: 0\r\n\r\n"], False
            with suppress(OSError):  # the host may have ended the connection just now
                assert await post(connections, host) == TargetAnswer(201, b"")

    asyncio.run(run())


async def test_a_kept_connection_ends_with_its_host_and_with_what_nobody_has_asked_for() -> None:
    host = Host(OK, OK, OK)
    async with host.open() as connections:
        await post(connections, host)
        [kept] = connections._origins
        kept.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")
        assert await post(connections, host) == WHOLE
        [kept] = connections._kept_until_s
        kept.eof_received()
        assert await post(connections, host) == WHOLE
    assert host.connections == 3


async def test_a_large_body_is_sent_and_an_early_answer_ends_it() -> None:
    large = b"x" * 5_000_000
    host = Host(OK, OK)
    async with host.open() as connections:
        assert await post(connections, host, large) == WHOLE
        assert await post(connections, host) == WHOLE
    assert (len(host.received[0]) > len(large), host.connections) == (True, 1)

    refusing = Host(b"HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n", reads=False)
    async with refusing.open() as connections:
        assert await post(connections, refusing, b"x" * 50_000_000) == TargetAnswer(413, b"")
        assert not connections._kept


async def test_a_header_with_a_line_break_is_never_sent() -> None:
    host = Host(OK)
    async with host.open() as connections:
        for text in ("a\r\nX: b", "a\nX: b", "a\rX: b"):
            with pytest.raises(ValueError, match="line break"):
                await connections.post(host.url, b"", {"X-Own": text})
    assert host.received == []


async def test_a_request_that_is_cancelled_leaves_no_connection() -> None:
    host = Host(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no")
    async with host.open() as connections:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await connections.post(host.url, b"", {})
        await ended(connections)
        host.answers = [OK]
        assert await post(connections, host) == WHOLE


async def test_nothing_piles_up_for_a_host_that_answers_and_reads_nothing() -> None:
    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(OK)
        await ends.wait()
        writer.close()

    ends, connections = asyncio.Event(), TargetConnections(LOCAL, None)
    async with (
        await asyncio.start_server(take, "127.0.0.1", 0) as server,
        asyncio.timeout(WITHIN_S),
    ):
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        await connections.post(url, b"", {})
        while True:  # until the system takes no more of what is sent
            [connection] = connections._origins
            posting = asyncio.create_task(connections.post(url, b"x" * 60_000, {}))
            await asyncio.sleep(0)
            connection.data_received(OK)
            assert await posting == WHOLE
            if not connection.is_reusable:
                break
            transport = connection._transport
            assert transport is not None
            assert transport.get_write_buffer_size() == 0
        await ended(connections)
        ends.set()
        await connections.close()
        await asyncio.sleep(0)


async def test_what_is_being_connected_ends_with_the_others() -> None:
    async def look_up(name: str) -> list[str]:
        asked.set()
        await answers.wait()
        return ["127.0.0.1"]

    asked, answers, host = asyncio.Event(), asyncio.Event(), Host(OK)
    async with host.open():
        connections = TargetConnections(LOCAL, look_up)
        url = host.url.replace("127.0.0.1", "slow.example")
        posting = asyncio.create_task(connections.post(url, b"", {}))
        await asked.wait()
        await connections.close()
        answers.set()
        with pytest.raises(OSError, match="closed"):
            await posting
        await ended(connections)


async def test_the_version_6_of_addresses_works_and_names_have_several() -> None:
    async def look_up(name: str) -> list[str]:
        return ["127.0.0.3", "::1", "10.0.0.1"]  # nobody, then somebody, then one not allowed

    host = Host(OK, OK)
    async with host.open("::1") as connections:
        assert await post(connections, host) == WHOLE
        assert b"\r\nHost: [::1]:" in host.received[0]
        named = TargetConnections(LOCAL, look_up)
        url = host.url.replace("[::1]", "Several.Example.")
        assert await named.post(url, b"", {}) == WHOLE
        assert b"\r\nHost: several.example:" in host.received[1]
        await named.close()


async def test_so_many_connections_are_kept_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KEPT_MAX", 5)
    host = Host(*[OK] * 40)
    async with host.open() as connections:
        await asyncio.gather(*(post(connections, host) for _ in range(40)))
        assert len(connections._kept_until_s) == 5
        await until(lambda: len(connections._origins) <= 5)
