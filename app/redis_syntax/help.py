"""Help: the subcommand HELP of commands that have subcommands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headgate.app.redis_syntax.command import ANY_RIGHT, SmallReply
from headgate.app.redis_syntax.replies import Status
from headgate.app.redis_syntax.words import AnyPlan, saying


def help_on(name: str, usages: Mapping[str, str]) -> SmallReply:
    """Return the subcommand that lists the others.

    Args:
        name: of the command.
        usages: what each subcommand does, by the words that it takes.
    """
    lines = [f"{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"]
    for usage, meaning in {**usages, "HELP": "Print this help."}.items():
        lines += [usage, f"    {meaning}"]

    def plan(words: Sequence[bytes]) -> AnyPlan:
        del words
        return saying(list(map(Status, lines)))

    return SmallReply(2, ANY_RIGHT, plan, only_reads=True)


XGROUP_HELP = help_on(
    "XGROUP",
    {
        "CREATE key group id|$ [MKSTREAM] [ENTRIESREAD n]": "Make a group that reads after an id.",
        "SETID key group id|$ [ENTRIESREAD n]": "Let a group read after another id.",
        "DESTROY key group": "Remove a group with what is pending in it.",
        "CREATECONSUMER key group consumer": "Make a consumer.",
        "DELCONSUMER key group consumer": "Remove a consumer with what is pending with it.",
    },
)

XINFO_HELP = help_on(
    "XINFO",
    {
        "STREAM key [FULL [COUNT n]]": "Tell about a stream; with FULL also what is in it.",
        "GROUPS key": "Tell about the groups of a stream.",
        "CONSUMERS key group": "Tell about the consumers of a group.",
    },
)
