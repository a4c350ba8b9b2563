"""The table of commands: all there are, by name."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.app.redis_syntax import dumps, groups, info, keys, streams
from headgate.app.redis_syntax.command import AnyCommand, CommandTable, SubcommandTable
from headgate.app.redis_syntax.words import CommandError, shown, wrong_arity

COMMANDS: CommandTable = {**streams.COMMANDS, **groups.COMMANDS, **keys.COMMANDS, **dumps.COMMANDS}

SUBCOMMANDS: SubcommandTable = {**groups.SUBCOMMANDS, **info.SUBCOMMANDS, **dumps.SUBCOMMANDS}


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
            text = f"unknown subcommand '{shown(words[1])}'. Try {name.decode()} HELP."
            raise CommandError(f"ERR {text}")
        return entry, f"{lower}|{words[1].decode().lower()}"
    if name not in commands:
        args = "".join(f"'{shown(word)}' " for word in words[1:])
        shown_name = shown(words[0]) if words else ""
        raise CommandError(f"ERR unknown command '{shown_name}', with args beginning with: {args}")
    return commands[name], name.decode().lower()
