"""Commands with almost constant replies: ACL, CLUSTER, MODULE, ROLE."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from headgate.app.auth.grants import Verb
from headgate.app.redis_syntax.administration import scripts
from headgate.app.redis_syntax.administration.scripts import ACL_LOG
from headgate.app.redis_syntax.catalog.description import CATEGORIES
from headgate.app.redis_syntax.catalog.table import DescribedCommand
from headgate.app.redis_syntax.command import ANY_RIGHT, CommandTable, SmallReply, SubcommandTable
from headgate.app.redis_syntax.help import help_on
from headgate.app.redis_syntax.words import AnyPlan, CommandError, Plan, saying, shown, wrong_arity
from headgate.engine.requests.keyspace import GetDefaults

_ACL_USAGES = {
    "CAT [<category>]": "Return the categories of commands, or the commands of one.",
    "LOG [<count> | RESET]": "Return nothing: denials stand in the audit log.",
    "WHOAMI": "Return who the client is.",
}


def _cluster(words: Sequence[bytes]) -> AnyPlan:
    """CLUSTER subcommand [argument ...]."""
    del words
    raise CommandError("ERR This instance has cluster support disabled")


def _role(words: Sequence[bytes]) -> AnyPlan:
    """ROLE."""
    del words
    return saying([b"master", 0, []])


def _modules(words: Sequence[bytes]) -> AnyPlan:
    """MODULE LIST."""
    del words
    return Plan(GetDefaults(), lambda _: [])


def who_is(user: str) -> SmallReply:
    """Return the command ACL WHOAMI for a user."""
    return SmallReply(2, ANY_RIGHT, lambda _: saying(user.encode()), only_reads=True)


WHO_AM_I = who_is("default")
"""For everybody; whoever runs commands in the name of a caller has another one for it."""

COMMANDS: CommandTable = {
    b"CLUSTER": SmallReply(-2, ANY_RIGHT, _cluster, only_reads=True),
    b"ROLE": SmallReply(1, ANY_RIGHT, _role, only_reads=True),
}


def subcommands(described: Callable[[], Mapping[str, DescribedCommand]]) -> SubcommandTable:
    """Return the subcommands of ACL, FUNCTION, MODULE and SCRIPT.

    Args:
        described: returns the commands that there are.
    """

    def categories(words: Sequence[bytes]) -> AnyPlan:
        """ACL CAT [category]."""
        if len(words) > 3:
            raise wrong_arity("acl|cat")
        if len(words) == 2:
            return saying([name.encode() for name in CATEGORIES])
        category = words[2].decode("latin-1").lower()
        if category not in CATEGORIES:
            raise CommandError(f"ERR Unknown category '{shown(words[2])}'")
        return saying(_names_in(category, described().values()))

    return {
        **scripts.SUBCOMMANDS,
        b"ACL": {
            b"CAT": SmallReply(-2, ANY_RIGHT, categories, only_reads=True),
            b"LOG": ACL_LOG,
            b"WHOAMI": WHO_AM_I,
            b"HELP": help_on("ACL", _ACL_USAGES),
        },
        b"MODULE": {
            b"LIST": SmallReply(2, {Verb.ADMIN}, _modules, only_reads=True),
            b"HELP": help_on("MODULE", {"LIST": "Return which modules are loaded: none."}),
        },
    }


def _names_in(category: str, commands: Iterable[DescribedCommand]) -> list[bytes]:
    return [
        each.name.encode()
        for command in commands
        for each in command.walk()
        if f"@{category}" in each.description.all_categories and not each.subcommands
    ]
