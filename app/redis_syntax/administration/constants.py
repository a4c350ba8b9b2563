"""Commands with almost constant replies: ACL WHOAMI, FUNCTION FLUSH, SCRIPT FLUSH."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from headgate.app.auth.grants import Verb
from headgate.app.redis_syntax.catalog import Catalog, Description, container, help_of
from headgate.app.redis_syntax.command import ANY_RIGHT, SmallReply, SubcommandTable, help_on
from headgate.app.redis_syntax.words import OK, AnyPlan, CommandError, saying

_MODES: Final = frozenset({b"ASYNC", b"SYNC"})
_FLUSH_USAGES: Final = {"FLUSH [ASYNC|SYNC]": "Do nothing: there are none."}


def who_is(user: str) -> SmallReply:
    """Return the command ACL WHOAMI for a user."""
    return SmallReply(2, ANY_RIGHT, lambda _: saying(user.encode()), only_reads=True)


WHO_AM_I = who_is("default")
"""For everybody; whoever runs commands in the name of a caller has another one for it."""


def _flush(fault: str) -> SmallReply:
    """Return a command that removes nothing, as there is nothing: FLUSH [ASYNC | SYNC]."""

    def plan(words: Sequence[bytes]) -> AnyPlan:
        if not {word.upper() for word in words[2:]} <= _MODES or len(words) > 3:
            raise CommandError(f"ERR {fault} SYNC|ASYNC option")
        return saying(OK)

    return SmallReply(-2, {Verb.ADMIN}, plan)


SUBCOMMANDS: SubcommandTable = {
    b"ACL": {b"WHOAMI": WHO_AM_I, b"HELP": help_on("ACL", {"WHOAMI": "Return who the client is."})},
    b"FUNCTION": {
        b"FLUSH": _flush("FUNCTION FLUSH only supports"),
        b"HELP": help_on("FUNCTION", _FLUSH_USAGES),
    },
    b"SCRIPT": {
        b"FLUSH": _flush("SCRIPT FLUSH only support"),
        b"HELP": help_on("SCRIPT", _FLUSH_USAGES),
    },
}
"""Redis's own test suite begins with FUNCTION FLUSH and SCRIPT FLUSH."""


_script = partial(Description, group="scripting", categories="scripting")

CATALOG: Catalog = {
    "acl": container("about users and rights", "6.0.0", "server"),
    "acl|whoami": Description(
        "Return who the client is.", "6.0.0", "server", flags="noscript loading stale"
    ),
    "acl|help": help_of("ACL", "6.0.0", "server"),
    "function": container("for functions", "7.0.0", "scripting"),
    "function|flush": _script(
        "Do nothing: there are no functions.",
        "7.0.0",
        usage="[async(ASYNC | SYNC)]",
        flags="write noscript",
        tips="request_policy:all_shards response_policy:all_succeeded",
    ),
    "function|help": help_of("FUNCTION", "7.0.0", "scripting", "scripting"),
    "script": container("for scripts", "2.6.0", "scripting"),
    "script|flush": _script(
        "Do nothing: there are no scripts.",
        "2.6.0",
        usage="[async@6.2.0(ASYNC | SYNC)]",
        flags="noscript",
        tips="request_policy:all_nodes response_policy:all_succeeded",
    ),
    "script|help": help_of("SCRIPT", "5.0.0", "scripting", "scripting"),
}
