"""Commands: the number of words of each, its right, and its reader.

The rights here are told to clients and refuse early. The exact ones follow from the request that a
command makes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from headgate.app.auth.grants import Verb
from headgate.app.redis_syntax.words import AnyPlan, Bounds, has_arity, wrong_arity

ANY_RIGHT: AbstractSet[Verb] = frozenset()
"""Of commands for everybody who has any right at all."""


@dataclass(frozen=True)
class Command:
    """A command, and how many words it has; see `has_arity`."""

    arity: int
    verbs: AbstractSet[Verb]  # one of them is needed, on whatever stream; none: any right will do

    def check_arity(self, words: Sequence[bytes], name: str) -> None:
        """Raise `CommandError` if a command has a wrong number of words."""
        if not has_arity(words, self.arity):
            raise wrong_arity(name)


@dataclass(frozen=True)
class SmallReply(Command):
    """A command whose reply is always small, with the function that parses its words."""

    plan: Callable[[Sequence[bytes]], AnyPlan]
    only_reads: bool = False

    def read(self, words: Sequence[bytes], bounds: Bounds) -> AnyPlan:
        """Return the plan of a command."""
        del bounds
        return self.plan(words)


@dataclass(frozen=True)
class LargeReply(Command):
    """A command whose reply may be large, with the function that parses its words."""

    plan: Callable[[Sequence[bytes], Bounds], AnyPlan]
    only_reads: bool = False

    def read(self, words: Sequence[bytes], bounds: Bounds) -> AnyPlan:
        """Return the plan of a command. Its reply keeps within the bounds."""
        return self.plan(words, bounds)


AnyCommand = SmallReply | LargeReply

CommandTable = dict[bytes, AnyCommand]
"""Commands by their names."""

SubcommandTable = dict[bytes, CommandTable]
"""Commands by the two words of their names."""
