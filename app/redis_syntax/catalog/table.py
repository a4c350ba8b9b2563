"""The table of descriptions: all there are, by name."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.app.redis_syntax.catalog import (
    connection,
    diagnosis,
    groups,
    keys,
    server,
    streams,
)
from headgate.app.redis_syntax.catalog.description import Catalog, Description
from headgate.app.redis_syntax.command import CommandTable, SubcommandTable

DESCRIBED: Catalog = {
    **streams.CATALOG,
    **groups.CATALOG,
    **keys.CATALOG,
    **connection.CATALOG,
    **server.CATALOG,
    **diagnosis.CATALOG,
}
"""Descriptions of commands that anybody can send."""

OF_CONNECTIONS: Catalog = connection.OF_CONNECTIONS
"""Descriptions of commands that only connections can send."""

_CONTAINER_ARITY = -2


class DescribedCommand:
    """A command that exists, with its description, its number of words and its subcommands."""

    def __init__(self, name: str, description: Description, arity: int) -> None:
        """Begin without subcommands.

        Args:
            name: in lower case, a subcommand as `container|subcommand`.
            description: what it is.
            arity: how many words it has, its name included; negative: at least so many.
        """
        self.name = name
        self.description = description
        self.arity = arity
        self.subcommands: list[DescribedCommand] = []

    def find(self, name: str) -> DescribedCommand | None:
        """Return it, or its subcommand, that has a name."""
        return next((each for each in self.walk() if each.name == name), None)

    def walk(self) -> Iterator[DescribedCommand]:
        """Yield it and its subcommands."""
        yield self
        yield from self.subcommands


def described_commands(
    commands: CommandTable, subcommands: SubcommandTable, of_connections: Catalog
) -> dict[str, DescribedCommand]:
    """Return all commands that there are, without their subcommands, by name.

    Args:
        commands: the table of those that are run here.
        subcommands: likewise.
        of_connections: what only connections have; empty if there are none.

    Raises:
        KeyError: a command is not described.
    """
    arities = {name.decode().lower(): entry.arity for name, entry in commands.items()}
    for container, entries in subcommands.items():
        arities.setdefault(container.decode().lower(), _CONTAINER_ARITY)
        for name, entry in entries.items():
            arities[f"{container.decode()}|{name.decode()}".lower()] = entry.arity
    for full_name, description in of_connections.items():
        arities[full_name] = _CONTAINER_ARITY if description.arity is None else description.arity
    catalog = DESCRIBED | of_connections
    described: dict[str, DescribedCommand] = {}
    for full_name in sorted(arities):
        command = DescribedCommand(full_name, catalog[full_name], arities[full_name])
        parent, _, sub = full_name.partition("|")
        if sub:
            described[parent].subcommands.append(command)
        else:
            described[full_name] = command
    return described
