"""The tables of all commands, and the commands about the server with their counters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final

from headgate.app.auth.grants import Verb
from headgate.app.backends.port import Backend
from headgate.app.channels.channels import Channels
from headgate.app.redis_syntax.administration import about_commands, config, durability, information
from headgate.app.redis_syntax.administration.information import (
    SPOKEN_VERSION,
    ConnectionFacts,
    Counters,
    ServerSettings,
)
from headgate.app.redis_syntax.catalog import Described, described_commands
from headgate.app.redis_syntax.command import (
    ANY_RIGHT,
    AnyCommand,
    CommandTable,
    SmallReply,
    SubcommandTable,
    with_help,
)
from headgate.app.redis_syntax.commands import (
    appends,
    deliveries,
    dumps,
    groups,
    info,
    keys,
    pending,
    reads,
    streams,
)
from headgate.app.redis_syntax.commands.channels import ChannelCommands
from headgate.app.redis_syntax.words import (
    OK,
    SHOWN_BYTES_MAX,
    AnyPlan,
    CommandError,
    beginning,
    saying,
    shown,
    wrong_arity,
)
from headgate.engine.clock import Clock, SystemClock

__all__ = ["SPOKEN_VERSION", "ServerCommands"]


_MODES: Final = frozenset({b"ASYNC", b"SYNC"})


def who_is(user: str) -> SmallReply:
    """Return the command ACL WHOAMI for a user."""
    return SmallReply(ANY_RIGHT, lambda _: saying(user.encode()), only_reads=True)


WHO_AM_I = who_is("default")
"""For everybody; whoever runs commands in the name of a caller has another one for it."""


def _flush(fault: str) -> SmallReply:
    """Return a command that removes nothing, as there is nothing: FLUSH [ASYNC | SYNC]."""

    def plan(words: Sequence[bytes]) -> AnyPlan:
        if not {word.upper() for word in words[2:]} <= _MODES or len(words) > 3:
            raise CommandError(f"ERR {fault} SYNC|ASYNC option")
        return saying(OK)

    return SmallReply({Verb.ADMIN}, plan)


_CONSTANTS: SubcommandTable = {
    b"ACL": {b"WHOAMI": WHO_AM_I},
    b"FUNCTION": {b"FLUSH": _flush("FUNCTION FLUSH only supports")},
    b"SCRIPT": {b"FLUSH": _flush("SCRIPT FLUSH only support")},
}
"""Redis's own test suite begins with FUNCTION FLUSH and SCRIPT FLUSH."""


COMMANDS: CommandTable = {
    **appends.COMMANDS,
    **reads.COMMANDS,
    **streams.COMMANDS,
    **deliveries.COMMANDS,
    **pending.COMMANDS,
    **keys.COMMANDS,
    **dumps.COMMANDS,
}

SUBCOMMANDS: SubcommandTable = with_help(
    {**groups.SUBCOMMANDS, **info.SUBCOMMANDS, **dumps.SUBCOMMANDS}
)


def find(
    words: Sequence[bytes], commands: CommandTable, subcommands: SubcommandTable = SUBCOMMANDS
) -> tuple[AnyCommand, str]:
    """Return a command and its full name.

    Args:
        words: the name, for some commands a subcommand, and the arguments.
        commands: all commands that are one without a subcommand.
        subcommands: all subcommands.

    Raises:
        CommandError: the command or the subcommand does not exist.
    """
    name = words[0].upper() if words else b""
    if name in subcommands and (len(words) > 1 or name not in commands):
        lower = name.decode().lower()
        if len(words) < 2:
            raise wrong_arity(lower)
        entry = subcommands[name].get(words[1].upper())
        if entry is None:
            text = f"unknown subcommand '{beginning(words[1])}'. Try {name.decode()} HELP."
            raise CommandError(f"ERR {text}")
        return entry, f"{lower}|{words[1].decode().lower()}"
    if name not in commands:
        raise CommandError(f"ERR {_unknown(words)}")
    return commands[name], name.decode().lower()


def _unknown(words: Sequence[bytes]) -> str:
    """Say that a command is unknown, with the beginning of its arguments."""
    name, args = beginning(words[0]) if words else "", b""
    for word in words[1:]:
        if len(args) >= SHOWN_BYTES_MAX:
            break
        args += b"'%b' " % word.partition(b"\0")[0][: SHOWN_BYTES_MAX - len(args)]
    return f"unknown command '{name}', with args beginning with: {shown(args)}"


_CLOCK = SystemClock()


class ServerCommands(Counters):
    def __init__(self, backend: Backend, clock: Clock = _CLOCK) -> None:
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
        channels: Channels | None = None,
    ) -> None:
        if settings is not None:
            self._information.settings = settings
        if connections is not None:
            self._information.connections = connections
        if of_connections is not None:
            self._of_connections = of_connections
        if channels is not None:
            about = ChannelCommands(channels)
            self.commands_by_name |= about.commands
            self.subcommands_by_name |= with_help({b"PUBSUB": about.subcommands})
        self.__dict__.pop("_described", None)

    def info(self, words: Sequence[bytes]) -> AnyPlan:
        return self._information.plan(words)

    def _commands(self, backend: Backend) -> CommandTable:
        return {
            **COMMANDS,
            **durability.Safekeeping(backend, self._information).table,
            b"INFO": SmallReply({Verb.READ, Verb.ADMIN}, self.info, only_reads=True),
            b"COMMAND": SmallReply(ANY_RIGHT, self._about_commands.info, only_reads=True),
        }

    def _subcommands(self) -> SubcommandTable:
        return {
            **SUBCOMMANDS,
            **with_help(
                {
                    **_CONSTANTS,
                    **information.Diagnosis(self.slow_log).tables,
                    b"CONFIG": config.Configuration(self._information, self).table,
                    b"COMMAND": self._about_commands.table,
                }
            ),
        }

    @cached_property
    def _described(self) -> Described:
        here = described_commands(self.commands_by_name, self.subcommands_by_name)
        return dict(sorted({**here, **self._of_connections}.items()))
