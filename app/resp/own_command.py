"""Own commands: about the connection itself, and not about streams."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from headgate.app.backends.port import Reply
from headgate.app.redis_syntax.words import wrong_arity

if TYPE_CHECKING:
    from headgate.app.resp.session import RespSession


class OwnCommand(NamedTuple):
    """A command, and how many words it has, its name included; negative: at least so many."""

    arity: int
    carry_out: Callable[[RespSession, Sequence[bytes]], Awaitable[Reply]]
    for_strangers: bool = False  # also before the client has said who it is
    at_once: bool = False  # also while a transaction is put together

    async def run(self, session: RespSession, words: Sequence[bytes]) -> Reply:
        """Carry out a command, and return its reply.

        Raises:
            StreamError, GatewayError: it failed.
        """
        self.check_arity(words)
        return await self.carry_out(session, words)

    def check_arity(self, words: Sequence[bytes]) -> None:
        """Raise `CommandError` if a command has a wrong number of words."""
        if len(words) != self.arity if self.arity > 0 else len(words) < -self.arity:
            raise wrong_arity(words[0].decode("latin-1").lower())


OwnCommands = Mapping[bytes, OwnCommand]
"""Commands by their names in capitals."""
