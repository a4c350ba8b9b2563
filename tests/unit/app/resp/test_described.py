"""COMMAND describes the commands that connections have, and no others."""

from __future__ import annotations

from headgate.app.redis_syntax.catalog.table import OF_CONNECTIONS
from headgate.app.resp.client_commands import _SUBCOMMANDS
from headgate.app.resp.commands import OWN


def test_commands_of_connections_are_described_with_their_words() -> None:
    arities = {name.decode().lower(): own.arity for name, own in OWN.items()}
    arities |= {f"client|{n.decode().lower()}": each.arity for n, each in _SUBCOMMANDS.items()}
    described = {
        name: -2 if description.arity is None else description.arity
        for name, description in OF_CONNECTIONS.items()
    }
    assert described == arities
