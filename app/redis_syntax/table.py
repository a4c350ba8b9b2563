"""The table of commands: all there are, by name."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.app.redis_syntax.command import AnyCommand, CommandTable, SubcommandTable, with_help
from headgate.app.redis_syntax.commands import (
    appends,
    deletions,
    deliveries,
    dumps,
    expiry,
    groups,
    info,
    keys,
    pending,
    reads,
    streams,
)
from headgate.app.redis_syntax.words import (
    SHOWN_BYTES_MAX,
    CommandError,
    beginning,
    shown,
    wrong_arity,
)

COMMANDS: CommandTable = {
    **appends.COMMANDS,
    **reads.COMMANDS,
    **deletions.COMMANDS,
    **streams.COMMANDS,
    **deliveries.COMMANDS,
    **pending.COMMANDS,
    **keys.COMMANDS,
    **expiry.COMMANDS,
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
