"""XGROUP, XREADGROUP, XACK, XACKDEL, XNACK, XPENDING, XCLAIM, XAUTOCLAIM."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from msgspec import UNSET
from msgspec.structs import replace

from headgate.app.auth.grants import Verb
from headgate.app.redis_syntax.command import (
    CommandTable,
    LargeReply,
    SmallReply,
    SubcommandTable,
)
from headgate.app.redis_syntax.help import XGROUP_HELP
from headgate.app.redis_syntax.replies import NULL_ARRAY, KeyedArrays, Reply
from headgate.app.redis_syntax.streams import (
    ReadOptions,
    check_read_options,
    deletions_reply,
    ids_block,
    keys_and_ids,
    read_option,
)
from headgate.app.redis_syntax.words import (
    SYNTAX,
    AnyPlan,
    Bounds,
    CommandError,
    Plan,
    check_names,
    check_queues,
    done,
    failing,
    integer,
    lax_id,
    range_end,
    range_start,
    shown,
    strict_id,
    strict_ids,
    where_missing,
)
from headgate.engine.entry import MAX_ID, MIN_ID, EntryId
from headgate.engine.errors import GroupNotFound, InvalidId, StreamError, StreamNotFound
from headgate.engine.limits import (
    AUTOCLAIM_MAX,
    AUTOCLAIM_SCAN_FACTOR,
    DESCRIBED_MAX,
    GROUP_READ_MAX,
    PENDING_SCAN_MAX,
)
from headgate.engine.replies import (
    Claimed,
    Delivery,
    GroupRead,
    Outcome,
    PendingItem,
    PendingSummary,
)
from headgate.engine.requests.deliveries import (
    Ack,
    AckAndDelete,
    Autoclaim,
    Claim,
    GroupCursor,
    ListPending,
    Nack,
    NackMode,
    ReadGroup,
    SumPending,
)
from headgate.engine.requests.groups import (
    CreateConsumer,
    CreateGroup,
    DeleteConsumer,
    DescribeGroup,
    DestroyGroup,
    GroupStart,
    UpdateGroup,
)
from headgate.engine.requests.keyspace import RequireGroups
from headgate.engine.requests.streams import DescribeStream

_NO_KEY = (
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use "
    "the MKSTREAM option to create an empty stream automatically."
)
_AUTOCLAIM_COUNT = 100
_UNKNOWN = "unknown subcommand or wrong number of arguments for"


def xgroup(words: Sequence[bytes]) -> AnyPlan:
    """XGROUP CREATE | SETID | DESTROY | CREATECONSUMER | DELCONSUMER."""
    return _XGROUP[words[1].upper()](words)


def _bad_options(subcommand: bytes) -> CommandError:
    return CommandError(f"ERR {_UNKNOWN} '{shown(subcommand)}'. Try XGROUP HELP.")


def _group_options(words: Sequence[bytes], name: str) -> tuple[int | None, bool]:
    """Read `[MKSTREAM] [ENTRIESREAD n]`; return entries read and whether to create the stream."""
    entries_read, makes_stream, at = None, False, 5
    while at < len(words):
        option = words[at].upper()
        if option == b"MKSTREAM" and name == "create":
            makes_stream = True
            at += 1
        elif option == b"ENTRIESREAD" and at + 1 < len(words):
            value = integer(words[at + 1])
            if value < -1:
                raise CommandError("ERR value for ENTRIESREAD must be positive or -1")
            entries_read = None if value == -1 else value
            at += 2
        else:
            raise _bad_options(words[1])
    return entries_read, makes_stream


def _xgroup_create(words: Sequence[bytes]) -> AnyPlan:
    key, group = words[2], words[3]
    check_names(key, group)
    entries_read, makes_stream = _group_options(words, "create")

    try:
        last_id = None if words[4] == b"$" else strict_id(words[4])
    except InvalidId as error:
        if makes_stream:
            raise
        return failing(error, DescribeStream(key), _refuse)  # Redis checks the key first
    start = GroupStart(last_id, entries_read)
    create = CreateGroup(key, group, start, create_stream=makes_stream, exist_ok=False)
    return Plan(create, done, _refuse)


def _xgroup_setid(words: Sequence[bytes]) -> AnyPlan:
    key, group = words[2], words[3]
    entries_read, _ = _group_options(words, "setid")

    try:
        last_id = None if words[4] == b"$" else lax_id(words[4])
    except InvalidId as error:  # Redis checks the group first
        return failing(error, DescribeGroup(key, group), _refuse)
    position = UNSET if entries_read is None else entries_read
    return Plan(UpdateGroup(key, group, last_id, position), done, _refuse)


def _xgroup_destroy(words: Sequence[bytes]) -> AnyPlan:
    return Plan(DestroyGroup(words[2], words[3]), int, _refuse)


def _xgroup_createconsumer(words: Sequence[bytes]) -> AnyPlan:
    key, group, consumer = words[2:5]
    check_names(consumer)

    create = CreateConsumer(key, group, consumer)
    return Plan(create, lambda created: int(created.is_new), _refuse)


def _xgroup_delconsumer(words: Sequence[bytes]) -> AnyPlan:
    key, group, consumer = words[2:5]

    delete = DeleteConsumer(key, group, consumer, release=False)
    return Plan(delete, lambda held: held or 0, _refuse)


_XGROUP = {
    b"CREATE": _xgroup_create,
    b"SETID": _xgroup_setid,
    b"DESTROY": _xgroup_destroy,
    b"CREATECONSUMER": _xgroup_createconsumer,
    b"DELCONSUMER": _xgroup_delconsumer,
}


def _refuse(error: StreamError) -> Reply:
    """Raise the error of XGROUP for a missing key or group; raise any other error unchanged."""
    if isinstance(error, GroupNotFound) and error.stream_exists:
        raise no_such_group(error.stream, error.group)
    if isinstance(error, StreamNotFound | GroupNotFound):
        raise CommandError(_NO_KEY)
    raise error


def no_such_group(key: bytes, group: bytes) -> CommandError:
    """Return the error of XGROUP and XINFO for a group that does not exist."""
    return CommandError(
        f"NOGROUP No such consumer group '{shown(group)}' for key name '{shown(key)}'"
    )


@dataclass
class _GroupReadOptions(ReadOptions):
    group: bytes | None = None
    consumer: bytes = b""
    claim_idle_ms: int | None = None
    no_ack: bool = False


def _read_group_option(options: _GroupReadOptions, words: Sequence[bytes], at: int) -> int:
    name, left = words[at].upper(), len(words) - at - 1
    if name == b"GROUP" and left >= 2:
        options.group, options.consumer = words[at + 1], words[at + 2]
        return at + 3
    if name == b"NOACK":
        options.no_ack = True
        return at + 1
    if name == b"CLAIM" and left >= 1:
        error = "ERR min-idle-time is not an integer or out of range"
        options.claim_idle_ms = integer(words[at + 1], error)
        if options.claim_idle_ms < 0:
            raise CommandError("ERR min-idle-time must be a positive integer")
        return at + 2
    following = read_option(options, words, at)
    if following is None:
        raise CommandError(SYNTAX)
    return following


def xreadgroup(words: Sequence[bytes], bounds: Bounds) -> AnyPlan:
    """XREADGROUP GROUP group consumer [options] STREAMS key [key ...] id [id ...]."""
    options, at = _GroupReadOptions(), 1
    while at < len(words) and words[at].upper() != b"STREAMS":
        at = _read_group_option(options, words, at)
    if at >= len(words):
        raise CommandError(SYNTAX)
    check_read_options(options)
    pairs = keys_and_ids(words, at + 1, "xreadgroup", " or '>'")
    if options.group is None:
        raise CommandError("ERR Missing GROUP option for XREADGROUP")
    group = options.group
    check_queues([key for key, _ in pairs])
    check_names(group, options.consumer)
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
        options.consumer,
        cursors,
        options.count,
        options.claim_idle_ms,
        options.no_ack,
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
            _delivery_reply(delivery, is_claiming=is_claiming) for delivery in read.deliveries
        ]
        if entries or is_history:
            reply.append([cursor.stream, entries])
    return reply or NULL_ARRAY


def _delivery_reply(delivery: Delivery, *, is_claiming: bool) -> Reply:
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


def xpending(words: Sequence[bytes], bounds: Bounds) -> AnyPlan:
    """XPENDING key group [[IDLE ms] start end count [consumer]]."""
    key, group = words[1], words[2]
    if len(words) == 3:
        return Plan(SumPending(key, group), _summary_reply)
    at, min_idle_ms = 3, 0
    if len(words) in (4, 5) or len(words) > 9:
        raise CommandError(SYNTAX)
    if words[3].upper() == b"IDLE":
        min_idle_ms = max(integer(words[4]), 0)
        if len(words) < 8:
            raise CommandError(SYNTAX)
        at = 5
    limit = integer(words[at + 2])
    request = ListPending(
        key,
        group,
        start=range_start(words[at]),
        end=range_end(words[at + 1]),
        limit=min(max(limit, 0), bounds.entries_max, PENDING_SCAN_MAX),
        consumer=words[at + 3] if len(words) > at + 3 else None,
        min_idle_ms=min_idle_ms,
    )

    return Plan(request, _pending_reply)


def _pending_reply(items: Sequence[PendingItem]) -> Reply:
    return [
        [
            str(item.id).encode(),
            b"" if item.consumer is None else item.consumer,
            -1 if item.idle_ms is None else item.idle_ms,
            item.delivery_count,
        ]
        for item in items
    ]


def _summary_reply(summary: PendingSummary) -> Reply:
    if summary.min_id is None:
        return [0, None, None, NULL_ARRAY]
    if summary.holder_count > DESCRIBED_MAX:
        raise CommandError(
            f"ERR more than {DESCRIBED_MAX} consumers hold entries: use XPENDING - +"
        )
    holders: list[Reply] = [[name, str(held).encode()] for name, held in summary.consumers]
    low, high = str(summary.min_id).encode(), str(summary.max_id).encode()
    return [summary.total, low, high, holders]


def xclaim(words: Sequence[bytes], bounds: Bounds) -> AnyPlan:
    """XCLAIM key group consumer min-idle id [id ...] [options]."""
    key, group, consumer = words[1:4]
    check_names(consumer)

    try:
        claim = replace(_claim_words(words), size_bytes_max=bounds.size_bytes_max)
    except StreamError as error:  # Redis checks the group first
        return failing(error, RequireGroups([key], group))
    return Plan(claim, lambda claimed: _claimed_reply(claimed, just_id=claim.just_id))


def _claim_words(words: Sequence[bytes]) -> Claim:
    min_idle_ms = max(integer(words[4], "ERR Invalid min-idle-time argument for XCLAIM"), 0)
    ids: list[EntryId] = []
    with suppress(InvalidId):  # the first word that is not an id begins the options
        for word in words[5:]:
            ids.append(strict_id(word))  # noqa: PERF401 keep the ids before the error
    at = 5 + len(ids)
    values: dict[bytes, int] = {}
    flags: set[bytes] = set()
    last_id = MIN_ID
    while at < len(words):
        name, has_value = words[at].upper(), at + 1 < len(words)
        if name in (b"FORCE", b"JUSTID"):
            flags.add(name)
            at += 1
        elif name in (b"IDLE", b"TIME", b"RETRYCOUNT") and has_value:
            error = f"ERR Invalid {name.decode()} option argument for XCLAIM"
            values[name] = integer(words[at + 1], error)
            at += 2
        elif name == b"LASTID" and has_value:
            last_id = strict_id(words[at + 1])
            at += 2
        else:
            raise CommandError(f"ERR Unrecognized XCLAIM option '{shown(words[at])}'")
    retry_count = values.get(b"RETRYCOUNT", -1)
    key, group, consumer = words[1:4]
    return Claim(
        key,
        group,
        consumer,
        ids,
        min_idle_ms,
        idle_ms=values.get(b"IDLE"),
        time_ms=values.get(b"TIME"),
        retry_count=None if retry_count < 0 else retry_count,
        force=b"FORCE" in flags,
        just_id=b"JUSTID" in flags,
        last_id=last_id,
    )


def xautoclaim(words: Sequence[bytes], bounds: Bounds) -> AnyPlan:
    """XAUTOCLAIM key group consumer min-idle start [COUNT n] [JUSTID]."""
    key, group, consumer = words[1:4]
    check_names(consumer)
    min_idle_ms = max(integer(words[4], "ERR Invalid min-idle-time argument for XAUTOCLAIM"), 0)
    start = range_start(words[5])
    limit, just_id, at = _AUTOCLAIM_COUNT, False, 6
    limit_max = (2**63 - 1) // (AUTOCLAIM_SCAN_FACTOR + 6)
    while at < len(words):
        name = words[at].upper()
        if name == b"COUNT" and at + 1 < len(words):
            limit = integer(words[at + 1], "ERR COUNT must be > 0")
            if not 0 < limit <= limit_max:
                raise CommandError("ERR COUNT must be > 0")
            at += 2
        elif name == b"JUSTID":
            just_id, at = True, at + 1
        else:
            raise CommandError(SYNTAX)
    limit = min(limit, AUTOCLAIM_MAX, bounds.entries_max)

    def shape(claimed: Claimed) -> Reply:
        deleted = [str(entry_id).encode() for entry_id in claimed.deleted_ids]
        cursor = str(claimed.next_start).encode()
        return [cursor, _claimed_reply(claimed, just_id=just_id), deleted]

    request = Autoclaim(
        key,
        group,
        consumer,
        min_idle_ms,
        start,
        limit,
        just_id=just_id,
        by_policy=False,
        size_bytes_max=bounds.size_bytes_max,
    )
    return Plan(request, shape)


def _claimed_reply(claimed: Claimed, *, just_id: bool) -> Reply:
    if just_id:
        return [str(delivery.id).encode() for delivery in claimed.deliveries]
    return [_delivery_reply(delivery, is_claiming=False) for delivery in claimed.deliveries]


COMMANDS: CommandTable = {
    b"XREADGROUP": LargeReply(-7, {Verb.CONSUME}, xreadgroup),
    b"XACK": SmallReply(-4, {Verb.CONSUME}, xack),
    b"XACKDEL": SmallReply(-6, {Verb.CONSUME}, xackdel),
    b"XNACK": SmallReply(-7, {Verb.CONSUME}, xnack),
    b"XPENDING": LargeReply(-3, {Verb.CONSUME}, xpending, only_reads=True),
    b"XCLAIM": LargeReply(-6, {Verb.CONSUME}, xclaim),
    b"XAUTOCLAIM": LargeReply(-6, {Verb.CONSUME}, xautoclaim),
}

SUBCOMMANDS: SubcommandTable = {
    b"XGROUP": {
        b"CREATE": SmallReply(-5, {Verb.MANAGE}, xgroup),
        b"SETID": SmallReply(-5, {Verb.MANAGE}, xgroup),
        b"DESTROY": SmallReply(4, {Verb.MANAGE}, xgroup),
        b"CREATECONSUMER": SmallReply(5, {Verb.MANAGE}, xgroup),
        b"DELCONSUMER": SmallReply(5, {Verb.MANAGE}, xgroup),
        b"HELP": XGROUP_HELP,
    },
}
