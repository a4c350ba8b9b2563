"""A port is taken before anything is loaded, and nobody is let in before it is."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from headgate.app.transport import listening


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
