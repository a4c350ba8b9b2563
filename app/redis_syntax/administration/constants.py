"""Commands with almost constant replies: ACL WHOAMI, FUNCTION FLUSH, SCRIPT FLUSH."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headgate.app.auth.grants import Verb
from headgate.app.redis_syntax.command import ANY_RIGHT, SmallReply, SubcommandTable
from headgate.app.redis_syntax.words import OK, AnyPlan, CommandError, saying

_MODES: Final = frozenset({b"ASYNC", b"SYNC"})


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
    b"ACL": {b"WHOAMI": WHO_AM_I},
    b"FUNCTION": {b"FLUSH": _flush("FUNCTION FLUSH only supports")},
    b"SCRIPT": {b"FLUSH": _flush("SCRIPT FLUSH only support")},
}
"""Redis's own test suite begins with FUNCTION FLUSH and SCRIPT FLUSH."""
