"""Exchanges: what an app of ours receives and sends, over real connections without its layers."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from headgate.app.transport.requests import in_time
from headgate.app.transport.sockets import Sockets
from headgate.engine.eager import Completion
from tests.conditions import until

Headers = list[tuple[bytes, bytes]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

GET = b"GET /%b HTTP/1.1\r\nhost: h\r\n\r\n"
POST = b"POST /%b HTTP/1.1\r\nhost: h\r\ncontent-length: %d\r\n\r\n%b"


class Client:
    """A connection to a server that runs nothing but the app."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        state: ServerState,
        address: tuple[str, int],
    ) -> None:
        self.address = address  # of the server
        self.reader = reader
        self.writer = writer
        self.state = state
        self.head = b""  # of the last answer, if a test keeps it

    async def answer(self) -> tuple[bytes, bytes]:
        """Return the head and the body of the next answer, whose length its head says."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        return head, await self.reader.readexactly(int(length or 0))

    async def body(self) -> bytes:
        """Return the body of the next answer."""
        return (await self.answer())[1]


@asynccontextmanager
async def serving(
    app: App, *, idle_s: float = 5, connections_max: int = 100
) -> AsyncIterator[Client]:
    config = uvicorn.Config(app, log_config=None, lifespan="off", access_log=False)
    config.load()
    config.timeout_keep_alive = idle_s  # type: ignore[assignment]  # less than a second
    state = ServerState()
    sockets = Sockets(connections_max, arriving_bytes_max=2**20, unsent_bytes_max=2**20)
    shared = {"gateway": SimpleNamespace(sockets=sockets)}
    loop, http = asyncio.get_running_loop(), in_time(10_000)
    server = await loop.create_server(lambda: http(config, state, shared), "127.0.0.1", 0)
    sockets.idle_s_min = 0
    sockets.count = lambda: len(state.connections)
    address = server.sockets[0].getsockname()[:2]
    reader, writer = await asyncio.open_connection(*address)
    try:
        yield Client(reader, writer, state, address)
    finally:
        writer.close()
        server.close()
        for connection in list(state.connections):
            connection.shutdown()
        await until(lambda: not state.tasks and not state.connections)


async def send_whole(
    send: Send, body: bytes, *, status: int = 200, headers: Headers | None = None
) -> None:
    length = (b"content-length", b"%d" % len(body))
    head = {"status": status, "headers": [length, *(headers or [])]}
    await send({"type": "http.response.start", **head})
    await send({"type": "http.response.body", "body": body})


async def received(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        assert message["type"] == "http.request"
        body += message["body"]
        more = message["more_body"]
    return body


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    await send_whole(send, scope["raw_path"] + b" " + await received(receive))


async def test_what_comes_together_is_answered_in_order() -> None:
    async with serving(echo) as client:
        requests = [
            POST % (b"%d" % number, 4, b"body") if number % 3 else GET % (b"%d" % number)
            for number in range(300)
        ]
        client.writer.write(b"".join(requests))
        for number in range(300):
            body = b"body" if number % 3 else b""
            assert await client.body() == b"/%d %b" % (number, body)


async def test_a_client_that_waits_for_a_word_gets_it() -> None:
    async with serving(echo) as client:
        head = b"POST /a HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n"
        client.writer.write(head)
        word = await client.reader.readuntil(b"\r\n\r\n")
        assert word == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.writer.write(b"ok")
        assert await client.body() == b"/a ok"


async def test_an_answer_of_unknown_length_is_chunked_and_its_head_comes_at_once() -> None:
    begun = asyncio.Event()

    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        await send({"type": "http.response.start", "status": 200})
        await begun.wait()
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        await send({"type": "http.response.body"})

    async with serving(stream) as client:
        client.writer.write(GET % b"")
        head = await client.reader.readuntil(b"\r\n\r\n")
        assert b"transfer-encoding: chunked\r\n" in head
        begun.set()
        assert await client.reader.readuntil(b"0\r\n\r\n") == b"3\r\none\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    "header", [(b"x", b"a\r\nb: c"), (b"x", b"a\0"), (b"x y", b"a"), (b"x\r\ny", b"a"), (b"", b"a")]
)
async def test_a_header_cannot_end_its_line(
    header: tuple[bytes, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        await send_whole(send, b"body", headers=[header, (header[0], b"harmless")])

    with caplog.at_level(logging.CRITICAL, "uvicorn.error"):
        async with serving(answer) as client:
            client.writer.write(GET % b"")
            assert await client.reader.read() == b""


async def test_an_app_that_fails_before_it_answers_is_answered_for() -> None:
    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError

    async def say_nothing(scope: Scope, receive: Receive, send: Send) -> None:
        pass

    for app in (fail, say_nothing):
        async with serving(app) as client:
            client.writer.write(GET % b"")
            head, body = await client.answer()
            assert head.startswith(b"HTTP/1.1 500 ")
            assert b"connection: close" in head
            assert body == b"Internal Server Error"
            assert await client.reader.read() == b""


@pytest.mark.parametrize("error", [None, RuntimeError])
async def test_half_an_answer_is_not_taken_for_the_whole(error: type[Exception] | None) -> None:
    async def give_up(scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        if error is not None:
            raise error

    async with serving(give_up) as client:
        client.writer.write(GET % b"")
        try:
            whole = await client.reader.read()
        except ConnectionResetError:
            whole = b""
        assert b"0\r\n\r\n" not in whole


async def test_a_connection_without_a_request_for_long_is_closed() -> None:
    async with serving(echo, idle_s=0.02) as client:
        client.writer.write(GET % b"a" + GET % b"b")
        assert [await client.body() for _ in range(2)] == [b"/a ", b"/b "]
        assert await client.reader.read() == b""


async def test_a_connection_is_not_idle_while_a_request_is_answered() -> None:
    completion, begun = Completion[None](), asyncio.Event()

    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/slow":
            begun.set()
            await completion
        await echo(scope, receive, send)

    async with serving(wait, idle_s=0.02) as client:
        client.writer.write(GET % b"quick" + GET % b"slow")
        assert await client.body() == b"/quick "
        await begun.wait()
        loop = asyncio.get_running_loop()
        loop.call_later(0.06, completion.succeed, None)
        assert await client.body() == b"/slow "
        assert await client.reader.read() == b""


async def test_the_connection_that_is_idle_for_longest_makes_room_for_another() -> None:
    async with serving(echo, idle_s=60, connections_max=2) as client:
        client.writer.write(GET % b"a")
        assert await client.body() == b"/a "
        later = [await asyncio.open_connection(*client.address) for _ in range(2)]
        assert await client.reader.read() == b""
        for reader, writer in later:
            writer.write(GET % b"b")
            await reader.readuntil(b"/b ")
            writer.close()


async def test_a_connection_with_a_request_makes_no_room() -> None:
    completion, begun = Completion[None](), asyncio.Event()

    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        await completion
        await echo(scope, receive, send)

    async with serving(wait, connections_max=1) as client:
        client.writer.write(GET % b"slow")
        await begun.wait()
        reader, writer = await asyncio.open_connection(*client.address)
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        completion.succeed(None)
        assert await client.body() == b"/slow "


async def in_two_parts(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"one", "more_body": True})
    if scope["path"] == "/fails":
        raise ValueError
    await send({"type": "http.response.body", "body": b"two"})


async def test_a_streamed_body_for_http_1_0_ends_with_the_connection_and_half_of_one_badly() -> (
    None
):
    async with serving(in_two_parts) as client:
        client.writer.write(
            b"GET / HTTP/1.0\r\nconnection: keep-alive\r\nexpect: 100-continue\r\n\r\n"
        )
        head, _, body = (await client.reader.read()).partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head.lower()
    assert b"connection: close" in head
    assert body == b"onetwo"
    async with serving(in_two_parts) as client:
        client.writer.write(b"GET /fails HTTP/1.0\r\n\r\n")
        with pytest.raises(ConnectionResetError):
            await client.reader.read()
