"""Scripts: FUNCTION, SCRIPT and ACL LOG. Nothing is kept of any, so there is nothing to remove.

Helpers of test suites begin with these commands, and programs ask which scripts a server knows.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.app.auth.grants import Verb
from headgate.app.backends.port import Pairs, Reply
from headgate.app.redis_syntax.command import ANY_RIGHT, SmallReply, SubcommandTable
from headgate.app.redis_syntax.help import help_on
from headgate.app.redis_syntax.words import OK, AnyPlan, CommandError, integer, saying

_FLUSH = "Do nothing: there are none."
_FUNCTION_USAGES = {
    "FLUSH [ASYNC|SYNC]": _FLUSH,
    "LIST [LIBRARYNAME pattern] [WITHCODE]": "Return which libraries are loaded: none.",
    "STATS": "Return which function runs, and which engines there are: none.",
}
_SCRIPT_USAGES = {
    "EXISTS <sha1> [<sha1> ...]": "Return 0 for each script: no server keeps any here.",
    "FLUSH [ASYNC|SYNC]": _FLUSH,
}


def _flush(what: str) -> SmallReply:
    """Return the command that removes all functions or scripts."""

    def plan(words: Sequence[bytes]) -> AnyPlan:
        if len(words) > 3 or (len(words) == 3 and words[2].upper() not in (b"ASYNC", b"SYNC")):
            raise CommandError(f"ERR {what} FLUSH only supports SYNC|ASYNC option")
        return saying(OK)

    return SmallReply(-2, {Verb.ADMIN}, plan)


def _always(reply: Reply, arity: int = -2) -> SmallReply:
    return SmallReply(arity, ANY_RIGHT, lambda _: saying(reply), only_reads=True)


def _exists(words: Sequence[bytes]) -> AnyPlan:
    """SCRIPT EXISTS sha1 [sha1 ...]."""
    return saying([0] * (len(words) - 2))


def _denials(words: Sequence[bytes]) -> AnyPlan:
    """ACL LOG [count | RESET]; denials stand in the audit log."""
    if len(words) > 2 and words[2].upper() == b"RESET":
        return saying(OK)
    if len(words) > 2:
        integer(words[2])
    return saying([])


ACL_LOG = SmallReply(-2, {Verb.ADMIN}, _denials, only_reads=True)

SUBCOMMANDS: SubcommandTable = {
    b"FUNCTION": {
        b"FLUSH": _flush("FUNCTION"),
        b"LIST": _always([]),
        b"STATS": _always(Pairs([b"running_script", None, b"engines", Pairs([])]), 2),
        b"HELP": help_on("FUNCTION", _FUNCTION_USAGES),
    },
    b"SCRIPT": {
        b"EXISTS": SmallReply(-3, ANY_RIGHT, _exists, only_reads=True),
        b"FLUSH": _flush("SCRIPT"),
        b"HELP": help_on("SCRIPT", _SCRIPT_USAGES),
    },
}
