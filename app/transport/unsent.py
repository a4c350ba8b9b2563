"""The bytes sent on a connection that its client has not read."""

from starlette.types import Receive

from headgate.app.transport.exchange import exchange_of


def unsent_bytes(receive: Receive) -> int:
    """Return the bytes that a client has not read; `receive` identifies its connection."""
    connection = getattr(receive, "__self__", None)
    transport = getattr(connection, "transport", None)
    return 0 if transport is None else int(transport.get_write_buffer_size())


def hold(receive: Receive, size_bytes: int) -> None:
    """Count a part of an answer that is created but not sent yet as unsent."""
    exchange = exchange_of(receive)
    if exchange is not None:
        exchange.held_bytes = size_bytes
