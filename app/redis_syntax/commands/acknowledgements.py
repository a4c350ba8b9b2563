"""XACK, XACKDEL, XNACK: deliveries that their consumer settles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headgate.app.auth.grants import Verb
from headgate.app.redis_syntax.catalog.description import (
    ONE_UPDATED,
    Catalog,
    KeyPlaces,
    stream_command,
)
from headgate.app.redis_syntax.command import CommandTable, SmallReply
from headgate.app.redis_syntax.commands.deletions import IDS_USAGE, deletions_reply, ids_block
from headgate.app.redis_syntax.words import (
    AnyPlan,
    CommandError,
    Plan,
    failing,
    integer,
    shown,
    strict_ids,
    where_missing,
)
from headgate.engine.entry import EntryId
from headgate.engine.errors import InvalidId, StreamError
from headgate.engine.replies import Outcome
from headgate.engine.requests.deliveries import Ack, AckAndDelete, Nack, NackMode
from headgate.engine.requests.keyspace import RequireGroups

_EACH_ID: Final = "O(1) for each id."


def xack(words: Sequence[bytes]) -> AnyPlan:
    """XACK key group id [id ...]."""
    key, group, if_missing = words[1], words[2], where_missing(0)
    try:
        ids = strict_ids(words[3:])
    except InvalidId as error:  # Redis checks the group before the ids
        return failing(error, RequireGroups([key], group), if_missing)
    ack = Ack(key, group, ids)
    return Plan(ack, lambda outcomes: outcomes.count(Outcome.ACKED), if_missing)


def xackdel(words: Sequence[bytes]) -> AnyPlan:
    """XACKDEL key group [KEEPREF|DELREF|ACKED] IDS n id [id ...]."""
    references, ids = ids_block(words, 3)

    return Plan(AckAndDelete(words[1], words[2], ids, references), deletions_reply)


def xnack(words: Sequence[bytes]) -> AnyPlan:
    """XNACK key group SILENT|FAIL|FATAL IDS n id [id ...] [RETRYCOUNT c] [FORCE]."""
    try:
        nack = _nack_words(words)
    except StreamError as error:  # Redis checks the group first
        return failing(error, RequireGroups([words[1]], words[2]))
    return Plan(nack, lambda outcomes: outcomes.count(Outcome.RELEASED))


def _nack_words(words: Sequence[bytes]) -> Nack:
    mode = words[3].decode("latin-1").lower()
    if mode not in {each.value for each in NackMode}:
        raise CommandError("ERR mode must be SILENT, FAIL, or FATAL")
    ids: list[EntryId] | None = None
    retry_count, force, at = None, False, 4
    while at < len(words):
        name = words[at].upper()
        if name == b"FORCE":
            force, at = True, at + 1
        elif name == b"RETRYCOUNT" and at + 1 < len(words):
            error = "ERR Invalid RETRYCOUNT value, must be >= 0"
            retry_count = integer(words[at + 1], error)
            if retry_count < 0:
                raise CommandError(error)
            at += 2
        elif name == b"IDS" and ids is None and at + 1 < len(words):
            count = integer(words[at + 1], "ERR numids must be a positive integer")
            if count <= 0:
                raise CommandError("ERR numids must be a positive integer")
            if at + 2 + count > len(words):
                raise CommandError("ERR number of IDs doesn't match numids")
            ids = strict_ids(words[at + 2 : at + 2 + count])
            at += 2 + count
        else:
            raise CommandError(f"ERR Unrecognized XNACK option '{shown(words[at])}'")
    if ids is None:
        raise CommandError("ERR syntax error, expected IDS keyword")
    return Nack(
        words[1],
        words[2],
        ids,
        NackMode(mode),
        retry_count=retry_count,
        force=force,
        by_policy=False,
    )


COMMANDS: CommandTable = {
    b"XACK": SmallReply(-4, {Verb.CONSUME}, xack),
    b"XACKDEL": SmallReply(-6, {Verb.CONSUME}, xackdel),
    b"XNACK": SmallReply(-7, {Verb.CONSUME}, xnack),
}

CATALOG: Catalog = {
    "xack": stream_command(
        "Acknowledge entries: they are no longer pending. Return how many were.",
        "5.0.0",
        usage="key group id...",
        flags="write fast",
        keys=ONE_UPDATED,
        complexity=_EACH_ID,
    ),
    "xackdel": stream_command(
        "Acknowledge entries, and remove them from the stream.",
        "8.2.0",
        usage=f"key group {IDS_USAGE}",
        flags="write fast",
        keys=(KeyPlaces("RW delete"),),
        complexity=_EACH_ID,
    ),
    "xnack": stream_command(
        "Give pending entries back to the group, for any consumer to take.",
        "8.8.0",
        usage="key group mode(SILENT | FAIL | FATAL) IDS/ids(numids:integer id...) "
        "[RETRYCOUNT/count:integer] [FORCE]",
        flags="write fast",
        keys=ONE_UPDATED,
        complexity=_EACH_ID,
    ),
}
