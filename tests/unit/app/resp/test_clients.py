"""Clients are listed while some of them go."""

from collections.abc import Callable

from headgate.app.resp.client_filter import ClientFacts, ClientFilter
from headgate.app.resp.clients import Clients


class Connected:
    """A client; like a connection it has no number any more once it has gone."""

    def __init__(self, clients: Clients, on_line: Callable[[], None] = lambda: None) -> None:
        self.id = clients.next_id()
        self._clients = clients
        self._on_line = on_line
        clients.add(self)

    def go(self) -> None:
        self._clients.remove(self)
        del self.id

    def facts(self) -> ClientFacts:
        return ClientFacts(self.id, "127.0.0.1:1", "127.0.0.1:2", "default", 0)

    def line(self) -> str:
        self._on_line()
        return f"id={self.id}"

    def drain(self) -> None:
        self.go()

    def cut_off(self) -> None:
        self.go()

    def unblock(self, how: bytes) -> bool:
        return how == b"TIMEOUT"


async def test_who_goes_while_clients_are_listed_is_left_out() -> None:
    clients = Clients()
    going: list[Connected] = []
    Connected(clients, lambda: going.pop().go())
    going.append(Connected(clients))
    Connected(clients)
    assert await clients.lines(ClientFilter()) == ["id=1", "id=3"]
