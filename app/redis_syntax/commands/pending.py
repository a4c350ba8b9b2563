"""XPENDING, XCLAIM, XAUTOCLAIM: pending entries, and claims to them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from msgspec.structs import replace

from headgate.app.auth.grants import Verb
from headgate.app.redis_syntax.command import CommandTable, LargeReply
from headgate.app.redis_syntax.commands.deliveries import delivery_reply
from headgate.app.redis_syntax.replies import NULL_ARRAY, Reply
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
    failing,
    integer,
    number,
    range_end,
    range_start,
    read_options,
    shown,
    strict_id,
)
from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.errors import InvalidId, StreamError
from headgate.engine.limits import (
    AUTOCLAIM_MAX,
    AUTOCLAIM_SCAN_FACTOR,
    DESCRIBED_MAX,
    PENDING_SCAN_MAX,
)
from headgate.engine.replies import Claimed, PendingItem, PendingSummary
from headgate.engine.requests.deliveries import Autoclaim, Claim, ListPending, SumPending
from headgate.engine.requests.keyspace import RequireGroups

_AUTOCLAIM_COUNT = 100
_BAD_COUNT = "ERR COUNT must be > 0"
_AUTOCLAIM_COUNT_MAX = (2**63 - 1) // (AUTOCLAIM_SCAN_FACTOR + 6)


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


def _claim_integer(name: str) -> Option:
    return Option(partial(integer, error=f"ERR Invalid {name} option argument for XCLAIM"))


_CLAIM: Options = {
    **dict.fromkeys((b"FORCE", b"JUSTID"), FLAG),
    **{name.encode(): _claim_integer(name) for name in ("IDLE", "TIME", "RETRYCOUNT")},
    b"LASTID": Option(strict_id),
}


def _unknown_option(word: bytes) -> CommandError:
    return CommandError(f"ERR Unrecognized XCLAIM option '{shown(word)}'")


def _claim_words(words: Sequence[bytes]) -> Claim:
    min_idle_ms = max(integer(words[4], "ERR Invalid min-idle-time argument for XCLAIM"), 0)
    ids: list[EntryId] = []
    with suppress(InvalidId):  # the first word that is not an id begins the options
        for word in words[5:]:
            ids.append(strict_id(word))  # noqa: PERF401 keep the ids before the error
    given, _ = read_options(words, 5 + len(ids), _CLAIM, _unknown_option)
    retry_count = given.get(b"RETRYCOUNT", -1)
    key, group, consumer = words[1:4]
    return Claim(
        key,
        group,
        consumer,
        ids,
        min_idle_ms,
        idle_ms=given.get(b"IDLE"),
        time_ms=given.get(b"TIME"),
        retry_count=None if retry_count < 0 else retry_count,
        force=b"FORCE" in given,
        just_id=b"JUSTID" in given,
        last_id=given.get(b"LASTID", MIN_ID),
    )


_AUTOCLAIM: Options = {
    b"COUNT": Option(number(1, _BAD_COUNT, maximum=_AUTOCLAIM_COUNT_MAX, if_none=_BAD_COUNT)),
    b"JUSTID": FLAG,
}


def xautoclaim(words: Sequence[bytes], bounds: Bounds) -> AnyPlan:
    """XAUTOCLAIM key group consumer min-idle start [COUNT n] [JUSTID]."""
    key, group, consumer = words[1:4]
    check_names(consumer)
    min_idle_ms = max(integer(words[4], "ERR Invalid min-idle-time argument for XAUTOCLAIM"), 0)
    start = range_start(words[5])
    given, _ = read_options(words, 6, _AUTOCLAIM)
    just_id = b"JUSTID" in given
    limit = min(given.get(b"COUNT", _AUTOCLAIM_COUNT), AUTOCLAIM_MAX, bounds.entries_max)

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
    return [delivery_reply(delivery, is_claiming=False) for delivery in claimed.deliveries]


COMMANDS: CommandTable = {
    b"XPENDING": LargeReply({Verb.CONSUME}, xpending, only_reads=True),
    b"XCLAIM": LargeReply({Verb.CONSUME}, xclaim),
    b"XAUTOCLAIM": LargeReply({Verb.CONSUME}, xautoclaim),
}
