"""Commands: how many words each has, and who reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headgate.app.redis_syntax.words import AnyPlan, Bounds, wrong_arity


@dataclass(frozen=True)
class Command:
    """A command, and how many words it has, its name included.

    A negative number means at least so many.
    """

    arity: int

    def check_arity(self, words: Sequence[bytes], name: str) -> None:
        """Raise `CommandError` if a command has a wrong number of words."""
        if len(words) != self.arity if self.arity > 0 else len(words) < -self.arity:
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
