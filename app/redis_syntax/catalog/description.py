"""Descriptions: COMMAND's facts about a command, beside its number of words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final

from headgate.app.redis_syntax.catalog.usage import Argument, arguments_of


@dataclass(frozen=True)
class KeyPlaces:
    """The places of a command's keys, and its use of them.

    The keys begin at a word, or behind a keyword that is searched from a place on. From there they
    go on to the last one, in steps.
    """

    flags: str  # RO, RW, OW or RM, and access, update, insert or delete
    begin: int = 1  # the place of the first one; with `keyword` where the search begins
    keyword: str | None = None
    last: int = 0  # counted from the first one; negative: from the end
    step: int = 1
    limit: int = 0  # with `last` -1: the keys end where 1/limit of the words is over


CATEGORIES = (
    *("keyspace", "read", "write", "stream", "admin", "fast", "slow", "blocking", "dangerous"),
    *("connection", "transaction", "scripting"),
)
"""All categories of commands that there are here, in the order of Redis."""

ONE_READ = (KeyPlaces("RO access"),)
ONE_UPDATED = (KeyPlaces("RW update"),)
ONE_OF_TWO_WORDS = (KeyPlaces("RO access", 2),)

CHANGING: Final = "nondeterministic_output"
"""A tip."""


@dataclass(frozen=True)
class Description:
    """The description of a command."""

    summary: str
    since: str  # the version of Redis that has it first
    group: str
    usage: str = ""  # see `usage`
    flags: str = ""
    keys: tuple[KeyPlaces, ...] = ()
    categories: str = ""  # besides those that follow from the flags
    tips: str = ""
    complexity: str = "O(1)"

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """Return the arguments."""
        return arguments_of(self.usage)

    @cached_property
    def all_flags(self) -> list[str]:
        """Return the flags, also the one that follows from where the keys are."""
        are_movable = any(keys.keyword is not None for keys in self.keys)
        return [*self.flags.split(), *(["movablekeys"] if are_movable else [])]

    @cached_property
    def all_categories(self) -> list[str]:
        """Return the categories of access lists."""
        flags = self.flags.split()
        of_flags = {
            "write": "write" in flags,
            "read": "readonly" in flags,
            "admin": "admin" in flags,
            "dangerous": "admin" in flags,
            "fast": "fast" in flags,
            "slow": "fast" not in flags,
            "blocking": "blocking" in flags,
        }
        names = {*self.categories.split(), *(name for name, has in of_flags.items() if has)}
        return [f"@{name}" for name in CATEGORIES if name in names]

    @property
    def place(self) -> tuple[int, int, int]:
        """Return the first key, the last key and the step, as clients of old want them."""
        placed = [keys for keys in self.keys if keys.keyword is None]
        if not placed:
            return 0, 0, 0
        first = min(keys.begin for keys in placed)
        last = max(keys.last if keys.last < 0 else keys.begin + keys.last for keys in placed)
        if any(keys.last < 0 for keys in placed):
            last = min(keys.last for keys in placed)
        return first, last, placed[0].step


Catalog = dict[str, Description]
"""Descriptions by name: in lower case, a subcommand as `container|subcommand`."""

stream_command = partial(Description, group="stream", categories="stream")
key_command = partial(Description, group="generic", categories="keyspace")
server_command = partial(Description, group="server")
server_operation = partial(Description, group="server", flags="admin noscript loading stale")


def container(of: str, since: str, group: str) -> Description:
    """Return the description of a command that has subcommands only."""
    return Description(
        f"Holds the commands {of}.", since, group, complexity="That of the subcommand."
    )


def help_of(of: str, since: str, group: str, categories: str = "") -> Description:
    """Return the description of a subcommand that lists the others."""
    return Description(
        f"List the subcommands of {of}.", since, group, "", "loading stale", categories=categories
    )
