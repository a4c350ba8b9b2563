"""Described commands: those that exist, with their descriptions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Protocol

from headgate.app.redis_syntax.catalog.description import Catalog, Description

_CONTAINER_ARITY = -2


class HasArity(Protocol):
    """An entry of a table of commands."""

    @property
    def arity(self) -> int:
        """Return the number of words, the name included; negative: at least so many."""


@dataclass(frozen=True)
class DescribedCommand:
    """A command that exists, with its description, its number of words and its subcommands."""

    name: str  # in lower case, a subcommand as `container|subcommand`
    description: Description
    arity: int
    subcommands: Sequence[DescribedCommand] = ()

    def find(self, name: str) -> DescribedCommand | None:
        """Return it, or its subcommand, that has a name."""
        return next((each for each in self.walk() if each.name == name), None)

    def walk(self) -> Iterator[DescribedCommand]:
        """Yield it and its subcommands."""
        yield self
        yield from self.subcommands


Described = Mapping[str, DescribedCommand]
"""Commands by name, without their subcommands."""


def described_commands(
    commands: Mapping[bytes, HasArity],
    subcommands: Mapping[bytes, Mapping[bytes, HasArity]],
    catalog: Catalog,
) -> Described:
    """Return the commands of some tables with their descriptions, in the order of their names.

    Raises:
        KeyError: a command is not described.
    """
    described: dict[str, DescribedCommand] = {}
    for word in sorted(commands.keys() | subcommands.keys()):
        name = word.decode().lower()
        arity = commands[word].arity if word in commands else _CONTAINER_ARITY
        below = [
            DescribedCommand(full_name, catalog[full_name], entry.arity)
            for sub, entry in sorted(subcommands.get(word, {}).items(), key=itemgetter(0))
            for full_name in [f"{name}|{sub.decode().lower()}"]
        ]
        described[name] = DescribedCommand(name, catalog[name], arity, below)
    return described
