"""Own commands: about the connection itself, and not about streams."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from headgate.app.redis_syntax.replies import Reply
from headgate.app.redis_syntax.words import has_arity, wrong_arity

S = TypeVar("S")


class OwnCommand(NamedTuple, Generic[S]):
    """A command of sessions, and how many words it has; see `has_arity`."""

    arity: int
    carry_out: Callable[[S, Sequence[bytes]], Awaitable[Reply]]
    for_strangers: bool = False  # also before the client has said who it is
    at_once: bool = False  # also while a transaction is put together
    check_more: Callable[[Sequence[bytes]], object] | None = None  # refuses wrong words

    async def run(self, session: S, words: Sequence[bytes]) -> Reply:
        """Carry out a command, and return its reply.

        Raises:
            StreamError, GatewayError: it failed.
        """
        self.check(words)
        return await self.carry_out(session, words)

    def check(self, words: Sequence[bytes]) -> None:
        """Raise `CommandError` if there is no such subcommand, or a wrong number of words."""
        if self.check_more is not None:
            self.check_more(words)
        if not has_arity(words, self.arity):
            raise wrong_arity(words[0].decode("latin-1").lower())


OwnCommands = Mapping[bytes, OwnCommand[S]]
"""Commands by their names in capitals."""
