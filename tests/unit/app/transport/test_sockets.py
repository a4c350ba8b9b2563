"""Connections: their shared bounds, their ports and ids, and proxies that say whose they are."""

import asyncio
import socket
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from headgate.app.transport import listening
from headgate.app.transport.proxies import Proxies, base_url, client_address
from headgate.app.transport.scopes import id_of, new_id, sane_or_new
from headgate.app.transport.sockets import Peer, Sockets
from headgate.app.wire.problems import GatewayError


class Transport(asyncio.Transport):
    """As that of uvloop, to which nothing may be written once it has ended."""

    def __init__(self, unsent_bytes: int = 0, *, is_closed: bool = False) -> None:
        super().__init__()
        self._unsent_bytes, self._is_closed = unsent_bytes, is_closed
        self.is_cut_off, self.written = False, b""

    def is_closing(self) -> bool:
        return self._is_closed

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closed:
            raise RuntimeError("the handler is closed")
        self.written += data

    def get_write_buffer_size(self) -> int:
        return self._unsent_bytes

    def abort(self) -> None:
        self.is_cut_off = True


def sockets() -> Sockets:
    return Sockets(10, arriving_bytes_max=100, unsent_bytes_max=100)


def test_who_has_taken_nothing_for_longest_makes_room() -> None:
    shared = sockets()
    first, second, third = Transport(60), Transport(30), Transport(50)
    for transport in (first, second, third):
        shared.stuck(transport)
    assert [transport.is_cut_off for transport in (first, second, third)] == [True, False, False]


def test_bodies_that_are_on_their_way_have_a_bound_together() -> None:
    shared = sockets()
    shared.arrive(60)
    with pytest.raises(GatewayError) as refused:
        shared.arrive(41)
    assert refused.value.code == "overloaded"
    shared.arrived(60)
    shared.arrive(100)


class Farewell(asyncio.Protocol):
    """Says something at the end, as a WebSocket does."""

    transport: asyncio.WriteTransport

    def shutdown(self) -> None:
        self.transport.write(b"farewell")


class Guest(Peer, Farewell):
    """A connection that counts."""

    transport: asyncio.Transport


def test_a_connection_that_has_ended_does_not_hinder_the_stop() -> None:
    for is_closed, farewell in ((False, b"farewell"), (True, b"")):
        guest = Guest()
        guest.transport = transport = Transport(is_closed=is_closed)
        guest.shutdown()
        assert transport.written == farewell


@contextmanager
def bound(host: str, port: int) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        yield [stack.enter_context(each) for each in listening.bind(host, port)]


def test_all_addresses_of_a_host_have_the_same_port() -> None:
    with bound("localhost", 0) as sockets:
        assert len({each.getsockname()[1] for each in sockets}) == 1
        assert any(each.getsockname()[0] == "127.0.0.1" for each in sockets)


def test_a_connection_is_refused_until_they_listen() -> None:
    with bound("127.0.0.1", 0) as [only]:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(only.getsockname()).close()
        only.listen()
        socket.create_connection(only.getsockname()).close()


def test_a_port_that_another_listens_to_is_taken() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as other,
        pytest.raises(OSError, match="in use"),
        bound(*other.getsockname()),
    ):
        pass


def test_a_host_without_an_address_is_told() -> None:
    with pytest.raises(socket.gaierror):
        listening.bind("nowhere.invalid", 0)


def test_new_ids_are_uuids_that_ascend() -> None:
    ids = [new_id() for _ in range(1000)]

    assert sorted(set(ids)) == ids
    assert {(each.version, each.variant) for each in map(uuid.UUID, ids)} == {(7, uuid.RFC_4122)}


def test_a_client_may_choose_an_id() -> None:
    assert id_of([(b"accept", b"*/*"), (b"x-request-id", b"checkout/42")]) == "checkout/42"


@pytest.mark.parametrize("chosen", [b"", b"a b", b"a\x1b[31m", b"\xe9", b"x" * 129])
def test_what_is_no_sane_id_is_replaced(chosen: bytes) -> None:
    assert uuid.UUID(sane_or_new(chosen)).version == 7


FORWARDED = {"Host": "gw", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "gw.example"}
NAMED = ("10.0.0.0/8", "2001:db8::/32", "192.0.2.1")


def scope(
    peer: str | None, *headers: tuple[str, str], named: tuple[str, ...] = NAMED, **others: Any
) -> dict[str, Any]:
    return {
        "type": "http",
        "scheme": "http",
        "client": peer and (peer, 1234),
        "server": ("127.0.0.1", 8080),
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers],
        "state": {"proxies": Proxies(named)},
        **others,
    }


def forwarded(peer: str, *values: str, named: tuple[str, ...] = NAMED) -> str:
    headers = [("X-Forwarded-For", value) for value in values]
    return client_address(scope(peer, *headers, named=named))


@pytest.mark.parametrize(
    ("peer", "values", "client"),
    [
        ("10.0.0.1", ["203.0.113.7"], "203.0.113.7"),
        ("192.0.2.1", ["203.0.113.7"], "203.0.113.7"),
        ("2001:db8::1", ["2001:db9::7"], "2001:db9::7"),
        ("::ffff:10.0.0.1", ["203.0.113.7"], "203.0.113.7"),
        # what stands to the left of the first stranger is made up
        ("10.0.0.1", ["1.1.1.1, 203.0.113.7"], "203.0.113.7"),
        ("10.0.0.1", ["1.1.1.1", "203.0.113.7"], "203.0.113.7"),
        ("10.0.0.1", ["1.1.1.1, 203.0.113.7, 10.0.0.9, 10.2.3.4"], "203.0.113.7"),
        ("10.0.0.1", ["10.0.0.9"], "10.0.0.9"),
        # ports, brackets, zones
        ("10.0.0.1", ["203.0.113.7:4711"], "203.0.113.7"),
        ("10.0.0.1", ["[2001:db9::7]:4711"], "2001:db9::7"),
        ("10.0.0.1", ["[2001:db9::7]"], "2001:db9::7"),
        ("10.0.0.1", ["fe80::1%eth0"], "fe80::1"),
        ("10.0.0.1", ["::ffff:203.0.113.7"], "203.0.113.7"),
        ("10.0.0.1", [" 203.0.113.7 ,\t10.0.0.2"], "203.0.113.7"),
        # garbage ends the way: the last one known is a proxy
        ("10.0.0.1", ["203.0.113.7, unknown"], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.7, garbage, 10.0.0.2"], "10.0.0.2"),
        *(("10.0.0.1", [""], "10.0.0.1"), ("10.0.0.1", [], "10.0.0.1")),
        *(("10.0.0.1", [",,,"], "10.0.0.1"), ("10.0.0.1", ["\xff\n\0"], "10.0.0.1")),
        *(("10.0.0.1", ["203.0.113.07"], "10.0.0.1"), ("10.0.0.1", ["999.1.1.1"], "10.0.0.1")),
        ("10.0.0.1", ["[::1", "]"], "10.0.0.1"),
        # a stranger may say what it likes
        *(("203.0.113.9", ["1.1.1.1"], "203.0.113.9"), ("11.0.0.1", ["10.0.0.1"], "11.0.0.1")),
        ("not an address", ["1.1.1.1"], "not an address"),
    ],
)
def test_the_client_is_the_first_stranger_from_the_right(
    peer: str, values: list[str], client: str
) -> None:
    assert forwarded(peer, *values) == client


def test_nobody_is_trusted_unless_named_and_no_other_header_is() -> None:
    for peer in ("127.0.0.1", "::1", "10.0.0.1"):
        assert forwarded(peer, "203.0.113.7", named=()) == peer
    others = [("Forwarded", "for=1.1.1.1"), ("X-Real-IP", "1.1.1.1"), ("Client-IP", "1.1.1.1")]
    assert client_address(scope("10.0.0.1", *others, ("True-Client-IP", "1.1.1.1"))) == "10.0.0.1"


@pytest.mark.parametrize(
    ("peer", "headers", "url"),
    [
        ("203.0.113.9", {"Host": "gw.example:8080"}, "http://gw.example:8080"),
        ("203.0.113.9", {"Host": "[::1]:8080"}, "http://[::1]:8080"),
        ("203.0.113.9", {}, "http://127.0.0.1:8080"),
        ("203.0.113.9", {"Host": "a b'$(x)"}, "http://127.0.0.1:8080"),
        *(("203.0.113.9", FORWARDED, "http://gw"), ("10.0.0.1", FORWARDED, "https://gw.example")),
        ("10.0.0.1", {"Host": "gw", "X-Forwarded-Proto": "HTTPS"}, "https://gw"),
        ("10.0.0.1", {"Host": "gw", "X-Forwarded-Proto": "http, https"}, "https://gw"),
        ("10.0.0.1", {"Host": "gw", "X-Forwarded-Proto": "javascript"}, "http://gw"),
    ],
)
def test_the_url_is_that_which_the_client_sees(
    peer: str, headers: dict[str, str], url: str
) -> None:
    assert base_url(scope(peer, *headers.items())) == url
    assert base_url(scope(peer, *headers.items(), root_path="/streams")) == f"{url}/streams"
