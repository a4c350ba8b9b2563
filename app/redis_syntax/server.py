"""Server: all commands that there are, and those about the server, with what they count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from headgate.app.auth.grants import Verb
from headgate.app.backends.port import Backend
from headgate.app.redis_syntax import table
from headgate.app.redis_syntax.administration import (
    about_commands,
    config,
    constants,
    diagnosis,
    durability,
    information,
)
from headgate.app.redis_syntax.administration.information import SPOKEN_VERSION, Counters
from headgate.app.redis_syntax.catalog import Described, described_commands
from headgate.app.redis_syntax.command import (
    ANY_RIGHT,
    CommandTable,
    SmallReply,
    SubcommandTable,
    with_help,
)
from headgate.app.redis_syntax.words import AnyPlan
from headgate.app.runtime.server_facts import ConnectionFacts, ServerSettings
from headgate.engine.clock import Clock, SystemClock

__all__ = ["SPOKEN_VERSION", "ServerCommands"]


_CLOCK = SystemClock()


class ServerCommands(Counters):
    """Counts commands, and has the tables of all of them."""

    def __init__(self, backend: Backend, clock: Clock = _CLOCK) -> None:
        """Start with all counters at 0.

        Args:
            backend: keeps the streams.
            clock: tells the time.
        """
        super().__init__(clock)
        self._of_connections: Described = {}
        self._information = information.Information(backend, self, clock)
        self._about_commands = about_commands.AboutCommands(lambda: self._described)
        self.commands_by_name = self._commands(backend)
        self.subcommands_by_name = self._subcommands()

    def attach(
        self,
        settings: ServerSettings | None = None,
        connections: Callable[[], ConnectionFacts] | None = None,
        of_connections: Described | None = None,
    ) -> None:
        """Let commands show how the server is set, and its connections. See `CommandRunner`."""
        if settings is not None:
            self._information.settings = settings
        if connections is not None:
            self._information.connections = connections
        if of_connections is not None:
            self._of_connections = of_connections
        self.__dict__.pop("_described", None)

    def info(self, words: Sequence[bytes]) -> AnyPlan:
        """INFO [section ...]."""
        return self._information.plan(words)

    def _commands(self, backend: Backend) -> CommandTable:
        return {
            **table.COMMANDS,
            **durability.Saving(backend, self._information).table,
            **durability.Waiting(backend).table,
            b"INFO": SmallReply(-1, {Verb.READ, Verb.ADMIN}, self.info, only_reads=True),
            b"COMMAND": SmallReply(-1, ANY_RIGHT, self._about_commands.info, only_reads=True),
        }

    def _subcommands(self) -> SubcommandTable:
        return {
            **table.SUBCOMMANDS,
            **with_help(
                {
                    **constants.SUBCOMMANDS,
                    **diagnosis.Diagnosis(self.slow_log).tables,
                    b"CONFIG": config.Configuration(self._information, self).table,
                    b"COMMAND": self._about_commands.table,
                }
            ),
        }

    @cached_property
    def _described(self) -> Described:
        here = described_commands(self.commands_by_name, self.subcommands_by_name)
        return dict(sorted({**here, **self._of_connections}.items()))
