"""Heads that came before: a request is answered as it was the first time, whatever is known."""

from operator import itemgetter

import pytest
from starlette.types import Receive, Scope, Send

from headgate.app.transport.heads import HEADS_MAX, Heads
from tests.unit.app.transport.test_exchange import GET, POST, Client, received, send_whole, serving

_OF_CONNECTION = {"app", "client", "head", "request_id", "server", "state", "status", "varied"}


_SCOPE = {"headers": [(b"host", b"h")]}


async def tell(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with all that the app is told of a request, but for what differs each time."""
    told = {name: value for name, value in scope.items() if name not in _OF_CONNECTION}
    told["headers"] = sorted(scope["headers"], key=itemgetter(0))
    body = repr((sorted(told.items()), await received(receive))).encode()
    is_known = (b"known", b"yes" if "head" in scope else b"no")
    await send_whole(send, body, headers=[is_known])


async def asked(client: Client, request: bytes) -> tuple[str, bool]:
    """Return what the app was told, and whether the head was known."""
    client.writer.write(request)
    client.head, body = await client.answer()
    return body.decode(), b"known: yes" in client.head


REPEATED = {
    "GET": GET % b"a",
    "encoded path and query": GET % b"a%20%C3%A4/b?x=%20&x=2",
    "POST": POST % (b"a", 4, b"body"),
    "POST without a body": POST % (b"a", 0, b""),
    "repeated headers": b"GET / HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nx-a: 2\r\n\r\n",
    "kept alive": b"GET / HTTP/1.1\r\nhost: h\r\nConnection: keep-alive\r\n\r\n",
    "line end before": b"\r\n" + GET % b"a",
}

VARYING = {
    "a key": b"POST / HTTP/1.1\r\nIdempotency-Key: %d\r\ncontent-length: 1\r\nhost: h\r\n\r\na",
    "an id": b"GET / HTTP/1.1\r\nhost: h\r\nX-Request-Id: %d\r\n\r\n",
    "a trace and a key": b"GET / HTTP/1.1\r\ntraceparent: 0\r\nidempotency-key: %d\r\n\r\n",
}

PARSED = {
    "a key with a space": b"GET / HTTP/1.1\r\nIdempotency-Key: a b\r\nExpect: a\r\n\r\n",
    "a key twice": b"GET / HTTP/1.1\r\nx-request-id: a\r\nx-request-id: b\r\n\r\n",
    "an odd id": b"GET / HTTP/1.1\r\nX-Request-Id:  a\r\n\r\n",
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


@pytest.mark.parametrize("request_", VARYING.values(), ids=VARYING)
async def test_a_head_is_known_whatever_clients_make_up_for_each_request(request_: bytes) -> None:
    async with serving(tell) as client:
        first, _ = await asked(client, request_ % 1000)
        for number, is_known in ((1001, False), (1002, True), (1003, True)):
            told = first.replace("1000", str(number))
            assert await asked(client, request_ % number) == (told, is_known)
            if b"X-Request-Id" in request_:
                assert b"x-request-id: %d\r\n" % number in client.head


async def test_of_a_repeated_header_the_first_counts_though_the_rest_of_the_head_is_known() -> None:
    async with serving(tell) as client:
        odd = b"GET / HTTP/1.1\r\nidempotency-key: a b\r\n\r\n"
        for _ in range(3):
            await asked(client, odd)
        _, is_known = await asked(client, odd[:-2] + b"idempotency-key: c\r\n\r\n")
        assert not is_known


async def test_a_header_of_two_spellings_is_not_lost_where_one_comes_alone() -> None:
    async with serving(tell) as client:
        odd = b"GET / HTTP/1.1\r\nIdempotency-Key:  a\r\n"  # two spaces: it does not vary
        for _ in range(3):
            await asked(client, odd + b"Idempotency-Key: a\r\n\r\n")
        told, _ = await asked(client, odd + b"\r\n")
        assert "(b'idempotency-key', b'a')" in told


def test_a_known_head_that_is_parsed_all_the_same_drives_out_none() -> None:
    heads = Heads()
    texts = [GET % b"%d" % number for number in range(HEADS_MAX)]
    for text in texts * 2:
        heads.learn(text, _SCOPE)
    for _ in range(3):
        heads.learn(texts[-1], _SCOPE)
    assert [text for text in texts if heads.known(text) is None] == []


async def test_what_is_no_request_is_refused_though_the_rest_of_it_is_known() -> None:
    async with serving(tell) as client:
        for _ in range(3):
            await asked(client, b"\r\n" + GET % b"a")
        client.writer.write(b"\r\nidempotency-key: a\r\n" + GET % b"a")
        assert b" 400 " in (await client.answer())[0]


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
