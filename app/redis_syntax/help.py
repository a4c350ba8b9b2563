"""Help: the subcommand HELP of commands that have subcommands."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.app.redis_syntax.command import ANY_RIGHT, SmallReply
from headgate.app.redis_syntax.replies import Status
from headgate.app.redis_syntax.words import saying


def help_on(name: str, usages: Mapping[str, str]) -> SmallReply:
    """Return the subcommand that lists the others.

    Args:
        name: of the command.
        usages: what each subcommand does, by the words that it takes.
    """
    lines = help_lines(name, usages)
    return SmallReply(2, ANY_RIGHT, lambda _: saying(lines), only_reads=True)


def help_lines(name: str, usages: Mapping[str, str]) -> list[Status]:
    """Return the lines of the subcommand that lists the others; see `help_on`."""
    lines = [f"{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"]
    for usage, meaning in {**usages, "HELP": "Print this help."}.items():
        lines += [usage, f"    {meaning}"]
    return list(map(Status, lines))
