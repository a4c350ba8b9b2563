"""Unsent: the bytes sent to a connection's client that it has not taken."""

from starlette.types import Receive

from headgate.app.transport.exchange import Exchange


def unsent_bytes(receive: Receive) -> int:
    """Return the bytes that the client of a connection has not taken.

    Args:
        receive: what the server has given to the app to receive by; it belongs to the connection.
    """
    connection = getattr(receive, "__self__", None)
    transport = getattr(connection, "transport", None)
    return 0 if transport is None else int(transport.get_write_buffer_size())


def hold(receive: Receive, size_bytes: int) -> None:
    """Let a part of an answer that is made and not sent count as unsent.

    Args:
        receive: as above.
        size_bytes: what is made now.
    """
    exchange = getattr(receive, "__self__", None)
    if isinstance(exchange, Exchange):
        exchange.held_bytes = size_bytes
