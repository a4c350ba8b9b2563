"""Replies on their way to a client, and the list of clients."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.app.redis_syntax.replies import Status
from headgate.app.redis_syntax.words import CommandError
from headgate.app.resp.clients import ClientFacts, ClientFilter, Clients
from headgate.app.resp.encoder import Replies


class Client:
    """Takes writes."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.taken_count = 0
        self.replies = Replies(self.writes.append, self.until_taken)

    async def until_taken(self, size_bytes: int) -> None:
        self.taken_count += size_bytes > 0


async def test_replies_are_one_write_in_their_order() -> None:
    client = Client()
    await client.replies.add(Status("OK"))
    client.replies.add_texts([b"1-1", b"2-1"])
    await client.replies.add(CommandError("ERR no\nway"))
    client.replies.flush()
    assert client.writes == [b"+OK\r\n$3\r\n1-1\r\n$3\r\n2-1\r\n-ERR no way\r\n"]
    client.replies.flush()
    assert len(client.writes) == 1


async def test_large_replies_want_to_be_sent() -> None:
    client = Client()
    client.replies.add_texts([b"x" * 2**20])
    assert client.replies.are_large
    client.replies.flush()
    assert not client.replies.are_large


async def test_an_array_of_large_items_is_sent_while_it_is_encoded() -> None:
    client = Client()
    await client.replies.add([b"x" * 2**20, [b"y" * 2**20], 7, b"z" * 2**20])
    client.replies.flush()
    assert max(map(len, client.writes)) < 2**20 + 300_000
    assert client.taken_count == 3
    xs, ys, zs = (b"$1048576\r\n" + each * 2**20 for each in (b"x", b"y", b"z"))
    assert b"".join(client.writes) == b"*4\r\n%b\r\n*1\r\n%b\r\n:7\r\n%b\r\n" % (xs, ys, zs)


@pytest.mark.parametrize(
    ("mode", "sent"), [(b"ON", b"+OK\r\n:1\r\n:2\r\n"), (b"OFF", b""), (b"SKIP", b":2\r\n")]
)
async def test_a_client_may_want_no_replies(mode: bytes, sent: bytes) -> None:
    client = Client()
    for outcome in (client.replies.change(mode), 1, 2):
        await client.replies.add(outcome)
    client.replies.flush()
    assert b"".join(client.writes) == sent


async def test_a_large_value_is_sent_without_a_copy() -> None:
    client, value = Client(), b"v" * 2**20
    await client.replies.add([[b"1-1", [b"f", value]], value])
    await client.replies.add(value)
    client.replies.flush()
    assert sum(each is value for each in client.writes) == 3
    entry = b"*2\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nf\r\n"
    assert b"".join(client.writes) == entry + b"$1048576\r\n%b\r\n" % value * 3


async def test_who_goes_while_clients_are_listed_is_left_out() -> None:
    clients, going = Clients(), list[Any]()

    def add(on_line: Callable[[], object] = lambda: None) -> Any:
        client = SimpleNamespace(id=clients.next_id())
        facts = ClientFacts(client.id, "127.0.0.1:1", "127.0.0.1:2", "default", 0, "normal")
        client.facts = lambda: facts
        client.line = lambda: on_line() or f"id={client.id}"
        clients.add(client)
        return client

    def go() -> None:  # like a connection it has no number any more once it has gone
        clients.remove(going[0])
        del going[0].id

    add(go)
    going.append(add())
    add()
    assert await clients.lines(ClientFilter()) == ["id=1", "id=3"]
