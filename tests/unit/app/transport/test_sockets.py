"""Shared bounds of all connections: refusals, and ends that make room."""

import asyncio

import pytest

from headgate.app.transport.sockets import Peer, Sockets
from headgate.app.wire.problems import GatewayError


class Transport(asyncio.Transport):
    """A client that has not taken so much."""

    def __init__(self, unsent_bytes: int) -> None:
        super().__init__()
        self._unsent_bytes = unsent_bytes
        self.is_cut_off = False

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


class Closable(Transport):
    """A transport as that of uvloop, to which nothing may be written once it has ended."""

    def __init__(self, *, is_closed: bool) -> None:
        super().__init__(0)
        self.written = b""
        self._is_closed = is_closed

    def is_closing(self) -> bool:
        return self._is_closed

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closed:
            raise RuntimeError("the handler is closed")
        self.written += data


def test_a_connection_that_has_ended_does_not_hinder_the_stop() -> None:
    for is_closed, farewell in ((False, b"farewell"), (True, b"")):
        guest = Guest()
        guest.transport = transport = Closable(is_closed=is_closed)
        guest.shutdown()
        assert transport.written == farewell
