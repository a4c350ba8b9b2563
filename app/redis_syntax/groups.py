"""XGROUP, XREADGROUP, XACK, XACKDEL, XNACK, XPENDING, XCLAIM, XAUTOCLAIM."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from headgate.app.redis_syntax.streams import (
    Budget,
    ReadOptions,
    check_read_options,
    deletions_reply,
    ids_block,
    keys_and_ids,
    read_option,
)
from headgate.app.redis_syntax.words import (
    SYNTAX,
    Bounds,
    CommandError,
    Plan,
    Reply,
    Wait,
    at_once,
    check_names,
    check_queues,
    done,
    integer,
    lax_id,
    range_end,
    range_start,
    shown,
    strict_id,
    strict_ids,
)
from headgate.engine.commands import Command
from headgate.engine.decisions import Decision, Unclaimable, deliveries, groups
from headgate.engine.decisions.views import pending, pending_summary
from headgate.engine.entry import MAX_ID, MIN_ID, EntryId
from headgate.engine.errors import InvalidId
from headgate.engine.limits import (
    AUTOCLAIM_MAX,
    AUTOCLAIM_SCAN_FACTOR,
    DESCRIBED_MAX,
    GROUP_READ_MAX,
    PENDING_SCAN_MAX,
)
from headgate.engine.replies import Claimed, Delivery, Outcome, PendingItem
from headgate.engine.requests import (
    ClaimRequest,
    GroupCursor,
    GroupRequest,
    GroupStart,
    NackMode,
    NackRequest,
    PendingRequest,
)
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.wait_queue import QueueKey

_NO_KEY = (
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use "
    "the MKSTREAM option to create an empty stream automatically."
)
_AUTOCLAIM_COUNT = 100
_UNKNOWN = "unknown subcommand or wrong number of arguments for"


def xgroup(words: Sequence[bytes]) -> Plan:
    """XGROUP CREATE | SETID | DESTROY | CREATECONSUMER | DELCONSUMER."""
    return _XGROUP[words[1].upper()](words)


def _bad_options(subcommand: bytes) -> CommandError:
    return CommandError(f"ERR {_UNKNOWN} '{shown(subcommand)}'. Try XGROUP HELP.")


def _group_options(words: Sequence[bytes], name: str) -> tuple[int | None, bool]:
    """Read `[MKSTREAM] [ENTRIESREAD n]`; returns entries read and whether to make the stream."""
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


def _xgroup_create(words: Sequence[bytes]) -> Plan:
    key, group = words[2], words[3]
    check_names(key, group)
    entries_read, makes_stream = _group_options(words, "create")

    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        if not makes_stream and keyspace.find(key) is None:
            raise CommandError(_NO_KEY)
        last_id = None if words[4] == b"$" else strict_id(words[4])
        return groups.create_group(
            keyspace,
            key,
            group,
            GroupStart(last_id, entries_read),
            create_stream=makes_stream,
            now_ms=now_ms,
        ).replied_as(done)

    return at_once(step)


def _xgroup_setid(words: Sequence[bytes]) -> Plan:
    key, group = words[2], words[3]
    entries_read, _ = _group_options(words, "setid")

    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        del now_ms
        _existing(keyspace, key, group)
        last_id = None if words[4] == b"$" else lax_id(words[4])
        start = GroupStart(last_id, entries_read)
        return groups.set_group(keyspace, key, group, start).replied_as(done)

    return at_once(step)


def _xgroup_destroy(words: Sequence[bytes]) -> Plan:
    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        del now_ms
        if keyspace.find(words[2]) is None:
            raise CommandError(_NO_KEY)
        return groups.destroy_group(keyspace, words[2], words[3]).replied_as(int)

    return at_once(step)


def _xgroup_createconsumer(words: Sequence[bytes]) -> Plan:
    key, group, consumer = words[2:5]
    check_names(consumer)

    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        _existing(keyspace, key, group)
        return groups.create_consumer(keyspace, key, group, consumer, now_ms).replied_as(int)

    return at_once(step)


def _xgroup_delconsumer(words: Sequence[bytes]) -> Plan:
    key, group, consumer = words[2:5]

    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        del now_ms
        _existing(keyspace, key, group)
        deletion = groups.delete_consumer(keyspace, key, group, consumer, release=False)
        return deletion.replied_as(lambda held: held or 0)

    return at_once(step)


_XGROUP = {
    b"CREATE": _xgroup_create,
    b"SETID": _xgroup_setid,
    b"DESTROY": _xgroup_destroy,
    b"CREATECONSUMER": _xgroup_createconsumer,
    b"DELCONSUMER": _xgroup_delconsumer,
}


def _existing(keyspace: Keyspace, key: bytes, group: bytes) -> None:
    stream = keyspace.find(key)
    if stream is None:
        raise CommandError(_NO_KEY)
    if group not in stream.groups:
        raise no_such_group(key, group)


def no_such_group(key: bytes, group: bytes) -> CommandError:
    """Return the error of XGROUP and XINFO for a group that is not there."""
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


def xreadgroup(words: Sequence[bytes], bounds: Bounds) -> Plan:
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

    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        cursors = []
        for key, word in pairs:
            stream = keyspace.find(key)
            if stream is None or group not in stream.groups:
                raise _no_group_to_read(key, group)
            cursors.append(GroupCursor(key, _group_after(word)))
        request = GroupRequest(
            group,
            options.consumer,
            cursors,
            claim_idle_ms=options.claim_idle_ms,
            no_ack=options.no_ack,
            size_bytes_max=bounds.size_bytes_max,
        )
        return _read_group(keyspace, request, options.count, Budget(options, bounds), now_ms)

    if options.block_ms is None:
        return at_once(step)
    queues = [QueueKey(key, group) for key, _ in pairs]
    return Plan(step, Wait(queues, options.block_ms or None, options.claim_idle_ms))


def _read_group(
    keyspace: Keyspace, request: GroupRequest, count: int | None, budget: Budget, now_ms: int
) -> Decision[Reply]:
    reply, commands, unclaimable = [], list[Command](), list[Unclaimable]()
    groups_in_read = deliveries.groups_in_read(keyspace, request)
    for cursor in request.cursors:
        stream, ahead = keyspace.stream(cursor.stream), groups_in_read[cursor.stream]
        request = request._replace(limit=budget.limit(count))
        read, command, gone = deliveries.read_stream(stream, ahead, request, cursor, now_ms)
        unclaimable += gone
        is_history = cursor.after is not None
        is_claiming = request.claim_idle_ms is not None and not is_history
        shapes = [_delivery_reply(one, is_claiming=is_claiming) for one in read.deliveries]
        entries = budget.take(shapes)
        if len(entries) < len(shapes):  # what does not go out is not delivered either
            less = request._replace(limit=len(entries))
            command = deliveries.read_stream(stream, ahead, less, cursor, now_ms).command
        commands.append(command)
        if len(groups_in_read) < len(request.cursors):  # a stream is named twice
            ahead.note(command)
        if is_history:  # Redis: one stream read as history switches claiming off
            request = request._replace(claim_idle_ms=None)
        if entries or is_history:
            reply.append([cursor.stream, entries])
    return Decision(reply or None, commands, None, unclaimable)


def _delivery_reply(delivery: Delivery, *, is_claiming: bool) -> Reply:
    fields = None if delivery.fields is None else list(delivery.fields)
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
    return None if after == MAX_ID else after  # Redis: the greatest id is how `>` is kept


def _no_group_to_read(key: bytes, group: bytes) -> CommandError:
    text = f"No such key '{shown(key)}' or consumer group '{shown(group)}'"
    return CommandError(f"NOGROUP {text} in XREADGROUP with GROUP option")


def xack(words: Sequence[bytes]) -> Plan:
    """XACK key group id [id ...]."""
    key, group = words[1], words[2]

    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        del now_ms
        stream = keyspace.find(key)
        if stream is None or group not in stream.groups:  # then ids are not even looked at
            return Decision(0, [])
        ids = strict_ids(words[3:])
        ack = deliveries.ack(keyspace, key, group, ids, None)
        return ack.replied_as(lambda outcomes: outcomes.count(Outcome.ACKED))

    return at_once(step)


def xackdel(words: Sequence[bytes]) -> Plan:
    """XACKDEL key group [KEEPREF|DELREF|ACKED] IDS n id [id ...]."""
    references, ids = ids_block(words, 3)

    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        del now_ms
        ack = deliveries.ack_and_delete(keyspace, words[1], words[2], ids, references)
        return ack.replied_as(deletions_reply)

    return at_once(step)


def xnack(words: Sequence[bytes]) -> Plan:
    """XNACK key group SILENT|FAIL|FATAL IDS n id [id ...] [RETRYCOUNT c] [FORCE]."""

    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        keyspace.group(words[1], words[2])
        request, ids = _nack_words(words)
        nack = deliveries.nack(keyspace, words[1], words[2], ids, request, None, now_ms)
        return nack.replied_as(lambda outcomes: outcomes.count(Outcome.RELEASED))

    return at_once(step)


def _nack_words(words: Sequence[bytes]) -> tuple[NackRequest, list[EntryId]]:
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
    return NackRequest(NackMode(mode), retry_count, force), ids


def xpending(words: Sequence[bytes], bounds: Bounds) -> Plan:
    """XPENDING key group [[IDLE ms] start end count [consumer]]."""
    key, group = words[1], words[2]
    if len(words) == 3:
        return at_once(lambda keyspace, _: Decision(_summary(keyspace, key, group), []))
    at, min_idle_ms = 3, 0
    if len(words) in (4, 5) or len(words) > 9:
        raise CommandError(SYNTAX)
    if words[3].upper() == b"IDLE":
        min_idle_ms = max(integer(words[4]), 0)
        if len(words) < 8:
            raise CommandError(SYNTAX)
        at = 5
    limit = integer(words[at + 2])
    request = PendingRequest(
        start=range_start(words[at]),
        end=range_end(words[at + 1]),
        limit=min(max(limit, 0), bounds.entries_max, PENDING_SCAN_MAX),
        consumer=words[at + 3] if len(words) > at + 3 else None,
        min_idle_ms=min_idle_ms,
    )

    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        return pending(keyspace, key, group, request, now_ms).replied_as(_pending_reply)

    return at_once(step)


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


def _summary(keyspace: Keyspace, key: bytes, group: bytes) -> Reply:
    summary = pending_summary(keyspace, key, group)
    if summary.min_id is None:
        return [0, None, None, None]
    if summary.holder_count > DESCRIBED_MAX:
        raise CommandError(
            f"ERR more than {DESCRIBED_MAX} consumers hold entries: use XPENDING - +"
        )
    holders: list[Reply] = [[name, str(held).encode()] for name, held in summary.consumers]
    low, high = str(summary.min_id).encode(), str(summary.max_id).encode()
    return [summary.total, low, high, holders]


def xclaim(words: Sequence[bytes]) -> Plan:
    """XCLAIM key group consumer min-idle id [id ...] [options]."""
    key, group, consumer = words[1:4]
    check_names(consumer)

    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        keyspace.group(key, group)
        request, ids = _claim_words(words)
        claim = deliveries.claim(keyspace, key, group, consumer, ids, request, now_ms)
        return claim.replied_as(lambda claimed: _claimed_reply(claimed, just_id=request.just_id))

    return at_once(step)


def _claim_words(words: Sequence[bytes]) -> tuple[ClaimRequest, list[EntryId]]:
    min_idle_ms = max(integer(words[4], "ERR Invalid min-idle-time argument for XCLAIM"), 0)
    ids: list[EntryId] = []
    with suppress(InvalidId):  # there the options begin
        for word in words[5:]:
            ids.append(strict_id(word))  # noqa: PERF401 those before it count
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
    request = ClaimRequest(
        min_idle_ms,
        idle_ms=values.get(b"IDLE"),
        time_ms=values.get(b"TIME"),
        retry_count=None if retry_count < 0 else retry_count,
        force=b"FORCE" in flags,
        just_id=b"JUSTID" in flags,
        last_id=last_id,
    )
    return request, ids


def xautoclaim(words: Sequence[bytes], bounds: Bounds) -> Plan:
    """XAUTOCLAIM key group consumer min-idle start [COUNT n] [JUSTID]."""
    key, group, consumer = words[1:4]
    check_names(consumer)
    min_idle_ms = max(integer(words[4], "ERR Invalid min-idle-time argument for XAUTOCLAIM"), 0)
    start = range_start(words[5])
    limit, just_id, at = _AUTOCLAIM_COUNT, False, 6
    most = (2**63 - 1) // (AUTOCLAIM_SCAN_FACTOR + 6)
    while at < len(words):
        name = words[at].upper()
        if name == b"COUNT" and at + 1 < len(words):
            limit = integer(words[at + 1], "ERR COUNT must be > 0")
            if not 0 < limit <= most:
                raise CommandError("ERR COUNT must be > 0")
            at += 2
        elif name == b"JUSTID":
            just_id, at = True, at + 1
        else:
            raise CommandError(SYNTAX)
    limit = min(limit, AUTOCLAIM_MAX, bounds.entries_max)

    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        return deliveries.autoclaim(
            keyspace,
            key,
            group,
            consumer,
            min_idle_ms=min_idle_ms,
            start=start,
            limit=limit,
            just_id=just_id,
            now_ms=now_ms,
        ).replied_as(shape)

    def shape(claimed: Claimed) -> Reply:
        deleted = [str(one).encode() for one in claimed.deleted_ids]
        cursor = str(claimed.next_start).encode()
        return [cursor, _claimed_reply(claimed, just_id=just_id), deleted]

    return at_once(step)


def _claimed_reply(claimed: Claimed, *, just_id: bool) -> Reply:
    if just_id:
        return [str(one.id).encode() for one in claimed.deliveries]
    return [_delivery_reply(one, is_claiming=False) for one in claimed.deliveries]
