"""XINFO STREAM, GROUPS, CONSUMERS."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.app.auth.grants import Verb
from headgate.app.redis_syntax.command import LargeReply, SubcommandTable
from headgate.app.redis_syntax.commands.groups import no_such_group
from headgate.app.redis_syntax.commands.reads import entry_reply
from headgate.app.redis_syntax.replies import Pairs, Reply
from headgate.app.redis_syntax.words import (
    AnyPlan,
    Bounds,
    CommandError,
    Plan,
    failing,
    integer,
    shown,
)
from headgate.engine.entry import EntryId
from headgate.engine.errors import (
    ENTRY_BYTES,
    GroupNotFound,
    ReplyTooLarge,
    StreamError,
    StreamNotFound,
)
from headgate.engine.limits import DESCRIBED_MAX
from headgate.engine.replies import (
    ConsumerInfo,
    ConsumerInspection,
    GroupInfo,
    GroupInspection,
    PendingInspection,
    StreamInspection,
)
from headgate.engine.requests.groups import ListConsumers, ListGroups
from headgate.engine.requests.keyspace import InspectStream
from headgate.engine.requests.streams import DescribeStream

_FULL_COUNT = 10
_SMALLER = "a smaller COUNT"
_ONE_BY_ONE = "/v1/streams, where they are listed a page at a time"


def _stream(words: Sequence[bytes], bounds: Bounds) -> AnyPlan:
    key, is_full = words[2], len(words) > 3
    try:
        count = _full_count(words) if is_full else None
    except CommandError as error:  # Redis checks the key first
        return failing(error, DescribeStream(key))
    entries_max = min(bounds.entries_max, DESCRIBED_MAX)
    request = InspectStream(key, is_full, count, entries_max, bounds.size_bytes_max)

    def refuse(error: StreamError) -> Reply:
        if isinstance(error, ReplyTooLarge):
            text = f"the reply would list more than {entries_max} items"
            if error.what == ENTRY_BYTES:
                text = "the entries are too large"
            raise CommandError(f"ERR {text}: use {_SMALLER}")
        raise error

    return Plan(request, _full_reply if is_full else _short_reply, refuse)


def _short_reply(stream: StreamInspection) -> Reply:
    first, last = stream.first, stream.last
    return Pairs.of(
        {
            **_head(stream),
            b"groups": stream.info.group_count,
            b"first-entry": None if first is None else entry_reply(first),
            b"last-entry": None if last is None else entry_reply(last),
        }
    )


def _full_reply(stream: StreamInspection) -> Reply:
    return Pairs.of(
        {
            **_head(stream),
            b"entries": [entry_reply(entry) for entry in stream.entries],
            b"groups": [_full_group(group) for group in stream.groups],
        }
    )


def _full_count(words: Sequence[bytes]) -> int | None:
    """Read `FULL [COUNT n]`; None means all."""
    is_right = words[3].upper() == b"FULL" and len(words) in (4, 6)
    if not is_right or (len(words) == 6 and words[4].upper() != b"COUNT"):
        text = "unknown subcommand or wrong number of arguments for"
        raise CommandError(f"ERR {text} '{shown(words[1])}'. Try XINFO HELP.")
    count = integer(words[5]) if len(words) == 6 else _FULL_COUNT
    return (_FULL_COUNT if count < 0 else count) or None


def _head(stream: StreamInspection) -> dict[bytes, Reply]:
    info, keys = stream.info, stream.keys
    return {
        b"length": info.length,
        b"radix-tree-keys": info.chunk_count,
        b"radix-tree-nodes": info.chunk_count + 1,
        b"last-generated-id": _id(info.last_id),
        b"max-deleted-entry-id": _id(info.max_deleted_id),
        b"entries-added": info.entries_added,
        b"recorded-first-entry-id": _id(info.first_id),
        b"idmp-duration": keys.window_ms // 1000,
        b"idmp-maxsize": keys.keys_max,
        b"pids-tracked": keys.producer_count,
        b"iids-tracked": keys.key_count,
        b"iids-added": keys.added_count,
        b"iids-duplicates": keys.duplicate_count,
    }


def _check_described(count: int, limit: int) -> None:
    if count > limit:
        text = f"the reply would list more than {limit} items: use {_ONE_BY_ONE}"
        raise CommandError(f"ERR {text}")


def _full_group(group: GroupInspection) -> Reply:
    info = group.info
    return Pairs.of(
        {
            b"name": info.name,
            b"last-delivered-id": _id(info.last_id),
            b"entries-read": info.entries_read,
            b"lag": info.lag,
            b"pel-count": info.pending_count,
            b"nacked-count": info.released_count,
            b"pending": [
                [_id(pending.id), pending.consumer or b"", *_times(pending)]
                for pending in group.pending
            ],
            b"consumers": [_full_consumer(consumer) for consumer in group.consumers],
        }
    )


def _full_consumer(consumer: ConsumerInspection) -> Reply:
    active_at_ms = consumer.active_at_ms
    return Pairs.of(
        {
            b"name": consumer.name,
            b"seen-time": consumer.seen_at_ms,
            b"active-time": -1 if active_at_ms is None else active_at_ms,
            b"pel-count": consumer.pending_count,
            b"pending": [[_id(pending.id), *_times(pending)] for pending in consumer.pending],
        }
    )


def _times(pending: PendingInspection) -> list[Reply]:
    return [pending.delivered_at_ms, pending.delivery_count]


def _groups(words: Sequence[bytes], bounds: Bounds) -> AnyPlan:
    limit = min(bounds.entries_max, DESCRIBED_MAX)

    def shape(infos: Sequence[GroupInfo]) -> Reply:
        _check_described(len(infos), limit)
        return [
            Pairs.of(
                {
                    b"name": info.name,
                    b"consumers": info.consumer_count,
                    b"pending": info.pending_count,
                    b"last-delivered-id": _id(info.last_id),
                    b"entries-read": info.entries_read,
                    b"lag": info.lag,
                }
            )
            for info in infos
        ]

    return Plan(ListGroups(words[2], limit=limit + 1), shape)


def _consumers(words: Sequence[bytes], bounds: Bounds) -> AnyPlan:
    limit = min(bounds.entries_max, DESCRIBED_MAX)

    def shape(infos: Sequence[ConsumerInfo]) -> Reply:
        _check_described(len(infos), limit)
        return [
            Pairs.of(
                {
                    b"name": info.name,
                    b"pending": info.pending_count,
                    b"idle": info.idle_ms,
                    b"inactive": -1 if info.inactive_ms is None else info.inactive_ms,
                }
            )
            for info in infos
        ]

    def refuse(error: StreamError) -> Reply:
        if isinstance(error, GroupNotFound):
            if error.stream_exists:
                raise no_such_group(error.stream, error.group)
            raise StreamNotFound(error.stream)
        raise error

    return Plan(ListConsumers(words[2], words[3], limit=limit + 1), shape, refuse)


def _id(entry_id: EntryId) -> bytes:
    return str(entry_id).encode()


SUBCOMMANDS: SubcommandTable = {
    b"XINFO": {
        b"STREAM": LargeReply({Verb.READ}, _stream, only_reads=True),
        b"GROUPS": LargeReply({Verb.READ, Verb.MANAGE}, _groups, only_reads=True),
        b"CONSUMERS": LargeReply(
            {Verb.READ, Verb.CONSUME, Verb.MANAGE}, _consumers, only_reads=True
        ),
    }
}
