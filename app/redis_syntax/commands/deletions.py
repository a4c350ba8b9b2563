"""XDEL, XDELEX: entries removed by their ids."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.app.auth.grants import Verb
from headgate.app.redis_syntax.command import CommandTable, SmallReply
from headgate.app.redis_syntax.replies import Reply
from headgate.app.redis_syntax.words import (
    SYNTAX,
    AnyPlan,
    CommandError,
    Plan,
    failing,
    positive,
    strict_ids,
    where_missing,
)
from headgate.engine.entry import EntryId
from headgate.engine.errors import InvalidId
from headgate.engine.replies import Deletion
from headgate.engine.requests.entries import Delete, References
from headgate.engine.requests.streams import DescribeStream

REFERENCES = {b"KEEPREF": References.KEEP, b"DELREF": References.DELETE, b"ACKED": References.ACKED}

_DELETION = {Deletion.DELETED: 1, Deletion.NOT_FOUND: -1, Deletion.REFERENCED: 2}
_id_count = positive("ERR Number of IDs must be a positive integer")


def xdel(words: Sequence[bytes]) -> AnyPlan:
    """XDEL key id [id ...]."""
    key, if_missing = words[1], where_missing(0)
    try:
        ids = strict_ids(words[2:])
    except InvalidId as error:  # Redis checks the key before the ids
        return failing(error, DescribeStream(key), if_missing)
    return Plan(Delete(key, ids), lambda outcomes: outcomes.count(Deletion.DELETED), if_missing)


def xdelex(words: Sequence[bytes]) -> AnyPlan:
    """XDELEX key [KEEPREF|DELREF|ACKED] IDS n id [id ...]."""
    references, ids = ids_block(words, 2)
    if_missing = where_missing(deletions_reply([Deletion.NOT_FOUND] * len(ids)))
    return Plan(Delete(words[1], ids, references), deletions_reply, if_missing)


def ids_block(words: Sequence[bytes], at: int) -> tuple[References, list[EntryId]]:
    """Read `[KEEPREF|DELREF|ACKED] IDS n id [id ...]`, in any order, to the end of the words.

    As in Redis, the ids are parsed after all other words have been checked, and the last IDS is
    used.
    """
    references: References | None = None
    ids: Sequence[bytes] = ()
    while at < len(words):
        name, left = words[at].upper(), len(words) - at - 1
        if name in REFERENCES and references is None:
            references = REFERENCES[name]
            at += 1
        elif name == b"IDS" and left:
            count = _id_count(words[at + 1])
            if count > left - 1:
                text = "The `numids` parameter must match the number of arguments"
                raise CommandError(f"ERR {text}")
            ids = words[at + 2 : at + 2 + count]
            at += 2 + count
        else:
            raise CommandError(SYNTAX)
    if not ids:
        raise CommandError("ERR IDS option is required")
    return references or References.KEEP, strict_ids(ids)


def deletions_reply(outcomes: Sequence[Deletion]) -> Reply:
    """Return the array of integers with which XDELEX and XACKDEL reply."""
    return [_DELETION[outcome] for outcome in outcomes]


COMMANDS: CommandTable = {
    b"XDEL": SmallReply(-3, {Verb.MANAGE}, xdel),
    b"XDELEX": SmallReply(-5, {Verb.MANAGE}, xdelex),
}
