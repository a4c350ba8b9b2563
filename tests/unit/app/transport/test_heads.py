"""Heads that came before: a request is answered as it was the first time, whatever is known."""

import pytest
from starlette.types import Receive, Scope, Send

from headgate.app.transport.heads import HEADS_MAX, Heads
from tests.unit.app.transport.test_exchange import GET, POST, Client, received, send_whole, serving

_OF_CONNECTION = frozenset({"app", "client", "head", "request_id", "server", "state", "status"})


async def tell(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with all that the app is told of a request, but for what differs each time."""
    told = {name: value for name, value in scope.items() if name not in _OF_CONNECTION}
    body = repr((sorted(told.items()), await received(receive))).encode()
    is_known = (b"known", b"yes" if "head" in scope else b"no")
    await send_whole(send, body, headers=[is_known])


async def asked(client: Client, request: bytes) -> tuple[str, bool]:
    """Return what the app was told, and whether the head was known."""
    client.writer.write(request)
    head, body = await client.answer()
    return body.decode(), b"known: yes" in head


REPEATED = {
    "GET": GET % b"a",
    "encoded path and query": GET % b"a%20%C3%A4/b?x=%20&x=2",
    "POST": POST % (b"a", 4, b"body"),
    "POST without a body": POST % (b"a", 0, b""),
    "repeated headers": b"GET / HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nx-a: 2\r\n\r\n",
    "kept alive": b"GET / HTTP/1.1\r\nhost: h\r\nConnection: keep-alive\r\n\r\n",
    "line end before": b"\r\n" + GET % b"a",
}

PARSED = {
    "an id of its own": b"GET / HTTP/1.1\r\nhost: h\r\nX-Request-Id: mine\r\n\r\n",
    "chunks": b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
    "an offer": b"GET / HTTP/1.1\r\nhost: h\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n",
}


@pytest.mark.parametrize("request_", REPEATED.values(), ids=REPEATED)
async def test_a_head_that_came_before_says_the_same_again(request_: bytes) -> None:
    async with serving(tell) as client:
        first, is_known = await asked(client, request_)
        assert not is_known
        assert await asked(client, request_) == (first, False)  # most never come again
        assert await asked(client, request_) == (first, True)
        assert await asked(client, request_) == (first, True)


@pytest.mark.parametrize("request_", PARSED.values(), ids=PARSED)
async def test_a_head_that_says_how_to_go_on_is_parsed_each_time(request_: bytes) -> None:
    async with serving(tell) as client:
        first = await asked(client, request_)
        for _ in range(3):
            assert await asked(client, request_) == first == (first[0], False)


async def test_a_known_head_with_another_body_is_answered_with_that() -> None:
    async with serving(tell) as client:
        for body in (b"one.", b"two.", b"and.", b"last"):
            told, _ = await asked(client, POST % (b"a", 4, body))
            assert repr(body) in told


async def test_a_body_may_come_later_though_its_head_is_known() -> None:
    async with serving(tell) as client:
        whole = POST % (b"a", 4, b"body")
        first, _ = await asked(client, whole)
        await asked(client, whole)
        [connection] = client.state.connections
        connection.data_received(whole[:-2])
        assert await asked(client, whole[-2:]) == (first, False)
        assert await asked(client, whole) == (first, True)


async def test_requests_that_come_together_are_answered_in_order_though_heads_are_known() -> None:
    async with serving(tell) as client:
        requests = [POST % (b"a", 4, b"body"), GET % b"b", GET % b"c"]
        first = [(await asked(client, request))[0] for request in requests * 2][:3]
        client.writer.write(b"".join(requests))
        assert [(await client.body()).decode() for _ in requests] == first


async def test_what_follows_a_last_request_is_not_answered_though_its_head_is_known() -> None:
    async with serving(tell) as client:
        for _ in range(2):
            await asked(client, GET % b"a")
        last = b"GET /b HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n"
        client.writer.write(last + GET % b"a")
        assert b"connection: close" in (await client.answer())[0]
        assert await client.reader.read() == b""


_SCOPE = {
    **dict.fromkeys(("http_version", "method", "raw_path", "path", "query_string"), b""),
    "headers": [(b"host", b"h")],
}


def test_the_oldest_head_is_forgotten() -> None:
    heads = Heads()
    texts = [GET % b"%d" % number for number in range(HEADS_MAX + 1)]
    for text in texts:
        heads.learn(text, _SCOPE)
        heads.learn(text, _SCOPE)
    assert [text for text in texts if heads.known(text) is None] == texts[:1]


def test_heads_that_come_once_drive_out_none() -> None:
    heads = Heads()
    for _ in range(2):
        heads.learn(GET % b"again", _SCOPE)
    for number in range(10 * HEADS_MAX):
        heads.learn(GET % b"%d" % number, _SCOPE)
    assert heads.known(GET % b"again") is not None
