"""Server: all commands that there are, and those about the server, with what they count."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from headgate.app.auth.grants import Verb
from headgate.app.backends.port import Backend
from headgate.app.redis_syntax import table
from headgate.app.redis_syntax.administration import constants
from headgate.app.redis_syntax.administration.about_commands import AboutCommands
from headgate.app.redis_syntax.administration.config import Configuration
from headgate.app.redis_syntax.administration.counters import Counters
from headgate.app.redis_syntax.administration.diagnosis import Diagnosis
from headgate.app.redis_syntax.administration.durability import Waiting
from headgate.app.redis_syntax.administration.information import SPOKEN_VERSION, Information
from headgate.app.redis_syntax.administration.saving import Saving
from headgate.app.redis_syntax.catalog.table import (
    OF_CONNECTIONS,
    DescribedCommand,
    described_commands,
)
from headgate.app.redis_syntax.command import (
    ANY_RIGHT,
    CommandTable,
    SmallReply,
    SubcommandTable,
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
        self._has_connections = False
        self._information = Information(backend, self, clock)
        self._about_commands = AboutCommands(self._described)
        self.commands_by_name = self._commands(backend)
        self.subcommands_by_name = self._subcommands()

    def attach(
        self,
        settings: ServerSettings | None = None,
        connections: Callable[[], ConnectionFacts] | None = None,
    ) -> None:
        """Let commands show how the server is set, and its connections. See `CommandRunner`."""
        if settings is not None:
            self._information.settings = settings
        if connections is not None:
            self._has_connections = True
            self._information.connections = connections
        self.__dict__.pop("_described_commands", None)

    def info(self, words: Sequence[bytes]) -> AnyPlan:
        """INFO [section ...]."""
        return self._information.plan(words)

    def _commands(self, backend: Backend) -> CommandTable:
        return {
            **table.COMMANDS,
            **Saving(backend, self._information).table,
            **Waiting(backend).table,
            b"INFO": SmallReply(-1, {Verb.READ, Verb.ADMIN}, self.info, only_reads=True),
            b"COMMAND": SmallReply(-1, ANY_RIGHT, self._about_commands.info, only_reads=True),
        }

    def _subcommands(self) -> SubcommandTable:
        tables: SubcommandTable = {
            **constants.SUBCOMMANDS,
            **Diagnosis(self.slow_log).tables,
            b"CONFIG": Configuration(self._information, self).table,
            b"COMMAND": self._about_commands.table,
        }
        for name, of_streams in table.SUBCOMMANDS.items():
            tables[name] = {**tables.get(name, {}), **of_streams}
        return tables

    @cached_property
    def _described_commands(self) -> Mapping[str, DescribedCommand]:
        of_connections = OF_CONNECTIONS if self._has_connections else {}
        return described_commands(self.commands_by_name, self.subcommands_by_name, of_connections)

    def _described(self) -> Mapping[str, DescribedCommand]:
        return self._described_commands
