"""Scripts: FUNCTION, SCRIPT and ACL LOG. Nothing is kept of any, so there is nothing to remove.

Helpers of test suites begin with these commands, and programs ask which scripts a server knows.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.app.auth.grants import Verb
from headgate.app.redis_syntax.command import ANY_RIGHT, SmallReply, SubcommandTable
from headgate.app.redis_syntax.help import help_on
from headgate.app.redis_syntax.replies import Pairs, Reply
from headgate.app.redis_syntax.words import (
    OK,
    AnyPlan,
    CommandError,
    beginning,
    failing,
    integer,
    saying,
    shown,
)

_FLUSH = "Do nothing: there are none."
_NONE_RUNS = "NOTBUSY No scripts in execution right now."
_KILL = "Fail: none runs."
_FUNCTION_USAGES = {
    "DELETE <library-name>": "Fail: there are no libraries.",
    "FLUSH [ASYNC|SYNC]": _FLUSH,
    "KILL": _KILL,
    "LIST [LIBRARYNAME pattern] [WITHCODE]": "Return which libraries are loaded: none.",
    "STATS": "Return which function runs, and which engines there are: none.",
}
_SCRIPT_USAGES = {
    "EXISTS <sha1> [<sha1> ...]": "Return 0 for each script: no server keeps any here.",
    "FLUSH [ASYNC|SYNC]": _FLUSH,
    "KILL": _KILL,
}
_STATS: Reply = Pairs([b"running_script", None, b"engines", Pairs([])])
_MODES = frozenset({b"ASYNC", b"SYNC"})


def _flush_functions(words: Sequence[bytes]) -> AnyPlan:
    """FUNCTION FLUSH [ASYNC | SYNC]."""
    if len(words) > 3:
        text = f"unknown subcommand or wrong number of arguments for '{shown(words[1])}'"
        raise CommandError(f"ERR {text}. Try FUNCTION HELP.")
    if len(words) == 3 and words[2].upper() not in _MODES:
        raise CommandError("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")
    return saying(OK)


def _flush_scripts(words: Sequence[bytes]) -> AnyPlan:
    """SCRIPT FLUSH [ASYNC | SYNC]."""
    if len(words) > 3 or (len(words) == 3 and words[2].upper() not in _MODES):
        raise CommandError("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
    return saying(OK)


def _list_libraries(words: Sequence[bytes]) -> AnyPlan:
    """FUNCTION LIST [LIBRARYNAME pattern] [WITHCODE]."""
    left, at = {b"LIBRARYNAME", b"WITHCODE"}, 2
    while at < len(words):
        option = words[at].upper()
        if option not in left:
            raise CommandError(f"ERR Unknown argument {beginning(words[at])}")
        left.remove(option)
        if option == b"LIBRARYNAME":
            at += 1
            if at == len(words):
                raise CommandError("ERR library name argument was not given")
        at += 1
    return saying([])


def _never(text: str, arity: int) -> SmallReply:
    """Return a command that always fails."""
    return SmallReply(arity, {Verb.ADMIN}, lambda _: failing(CommandError(text)))


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
        b"DELETE": _never("ERR Library not found", 3),
        b"FLUSH": SmallReply(-2, {Verb.ADMIN}, _flush_functions),
        b"KILL": _never(_NONE_RUNS, 2),
        b"LIST": SmallReply(-2, ANY_RIGHT, _list_libraries, only_reads=True),
        b"STATS": SmallReply(2, ANY_RIGHT, lambda _: saying(_STATS), only_reads=True),
        b"HELP": help_on("FUNCTION", _FUNCTION_USAGES),
    },
    b"SCRIPT": {
        b"EXISTS": SmallReply(-3, ANY_RIGHT, _exists, only_reads=True),
        b"FLUSH": SmallReply(-2, {Verb.ADMIN}, _flush_scripts),
        b"KILL": _never(_NONE_RUNS, 2),
        b"HELP": help_on("SCRIPT", _SCRIPT_USAGES),
    },
}
