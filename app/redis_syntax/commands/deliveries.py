"""XREADGROUP, XACK, XACKDEL, XNACK: entries delivered to a consumer, and settled by it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from headgate.app.auth.grants import Verb
from headgate.app.redis_syntax.command import CommandTable, LargeReply, SmallReply
from headgate.app.redis_syntax.commands.appends import deletions_reply, ids_block
from headgate.app.redis_syntax.commands.reads import READ, keys_and_ids, read_options_of
from headgate.app.redis_syntax.replies import NULL_ARRAY, KeyedArrays, Reply
from headgate.app.redis_syntax.words import (
    FLAG,
    SYNTAX,
    AnyPlan,
    Bounds,
    CommandError,
    Option,
    Options,
    Plan,
    check_names,
    check_queues,
    failing,
    number,
    positive,
    shown,
    strict_id,
    strict_ids,
    where_missing,
)
from headgate.engine.entry import MAX_ID, EntryId
from headgate.engine.errors import GroupNotFound, InvalidId, StreamError
from headgate.engine.limits import GROUP_READ_MAX
from headgate.engine.replies import Delivery, GroupRead, Outcome
from headgate.engine.requests.deliveries import (
    Ack,
    AckAndDelete,
    GroupCursor,
    Nack,
    NackMode,
    ReadGroup,
)
from headgate.engine.requests.keyspace import RequireGroups

_idle_ms = number(
    0,
    "ERR min-idle-time must be a positive integer",
    if_none="ERR min-idle-time is not an integer or out of range",
)
_NO_RETRY_COUNT: Final = "ERR Invalid RETRYCOUNT value, must be >= 0"
_retry_count = number(0, _NO_RETRY_COUNT, if_none=_NO_RETRY_COUNT)
_id_count = positive("ERR numids must be a positive integer")

_READ_GROUP: Options = {
    **READ,
    b"GROUP": Option(lambda *names: names, 2),
    b"NOACK": FLAG,
    b"CLAIM": Option(_idle_ms),
}


def xreadgroup(words: Sequence[bytes], bounds: Bounds) -> AnyPlan:
    """XREADGROUP GROUP group consumer [options] STREAMS key [key ...] id [id ...]."""
    options, given, at = read_options_of(words, _READ_GROUP, lambda _: CommandError(SYNTAX))
    pairs = keys_and_ids(words, at, "xreadgroup", " or '>'")
    if b"GROUP" not in given:
        raise CommandError("ERR Missing GROUP option for XREADGROUP")
    group, consumer = given[b"GROUP"]
    check_queues([key for key, _ in pairs])
    check_names(group, consumer)
    bounds = bounds._replace(entries_max=min(bounds.entries_max, GROUP_READ_MAX))

    cursors: list[GroupCursor] = []

    def refuse(error: StreamError) -> Reply:
        if isinstance(error, GroupNotFound):
            raise _no_group_to_read(error.stream, group)
        raise error

    try:
        for key, word in pairs:
            cursors.append(GroupCursor(key, _group_after(word)))
    except StreamError as error:  # Redis checks the groups up to here first
        keys = [key for key, _ in pairs[: len(cursors) + 1]]
        return failing(error, RequireGroups(keys, group), refuse)
    request = ReadGroup(
        group,
        consumer,
        cursors,
        options.count,
        given.get(b"CLAIM"),
        b"NOACK" in given,
        size_bytes_max=bounds.size_bytes_max,
        wait_ms=options.wait_ms,
        budget=options.budget(bounds),
        by_policy=False,
    )
    return Plan(request, partial(_xreadgroup_reply, request), refuse)


def _xreadgroup_reply(request: ReadGroup, reads: Sequence[GroupRead]) -> Reply:
    is_claiming = request.claim_idle_ms is not None
    reply = KeyedArrays()
    for cursor, read in zip(request.cursors, reads, strict=True):
        is_history = cursor.after is not None
        is_claiming = is_claiming and not is_history  # Redis: after a history, no claiming
        entries = [
            delivery_reply(delivery, is_claiming=is_claiming) for delivery in read.deliveries
        ]
        if entries or is_history:
            reply.append([cursor.stream, entries])
    return reply or NULL_ARRAY


def delivery_reply(delivery: Delivery, *, is_claiming: bool) -> Reply:
    """Return a delivery as Redis writes it, with idle time and count if it may be a claim."""
    fields = NULL_ARRAY if delivery.fields is None else list(delivery.fields)
    reply: list[Reply] = [str(delivery.id).encode(), fields]
    return [*reply, delivery.idle_ms, delivery.delivered_before] if is_claiming else reply


def _group_after(word: bytes) -> EntryId | None:
    if word == b">":
        return None
    if word in (b"$", b"+"):
        sign = word.decode()
        raise CommandError(
            f"ERR The {sign} ID is meaningless in the context of XREADGROUP: you want to read the "
            "history of this consumer by specifying a proper ID, or use the > ID to get new "
            f"messages. The {sign} ID would just return an empty result set."
        )
    after = strict_id(word)
    return None if after == MAX_ID else after  # Redis stores `>` as the greatest id


def _no_group_to_read(key: bytes, group: bytes) -> CommandError:
    text = f"No such key '{shown(key)}' or consumer group '{shown(group)}'"
    return CommandError(f"NOGROUP {text} in XREADGROUP with GROUP option")


def xack(words: Sequence[bytes]) -> AnyPlan:
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
    retry_count: int | None = None
    force, at = False, 4
    while at < len(words):
        name = words[at].upper()
        if name == b"FORCE":
            force, at = True, at + 1
        elif name == b"RETRYCOUNT" and at + 1 < len(words):
            retry_count, at = _retry_count(words[at + 1]), at + 2
        elif name == b"IDS" and ids is None and at + 1 < len(words):
            count = _id_count(words[at + 1])
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
    b"XREADGROUP": LargeReply({Verb.CONSUME}, xreadgroup),
    b"XACK": SmallReply({Verb.CONSUME}, xack),
    b"XACKDEL": SmallReply({Verb.CONSUME}, xackdel),
    b"XNACK": SmallReply({Verb.CONSUME}, xnack),
}
