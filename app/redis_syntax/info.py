"""XINFO STREAM, GROUPS, CONSUMERS."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from headgate.app.redis_syntax.groups import no_such_group
from headgate.app.redis_syntax.streams import entry_reply
from headgate.app.redis_syntax.words import (
    Bounds,
    CommandError,
    Plan,
    Reply,
    at_once,
    integer,
    shown,
)
from headgate.engine.decisions import Decision
from headgate.engine.decisions.streams import key_window_ms, keys_max
from headgate.engine.decisions.views import consumers, groups
from headgate.engine.entry import MAX_ID, MIN_ID, EntryId
from headgate.engine.limits import DESCRIBED_MAX
from headgate.engine.state.group import Group
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.pending import Consumer, PendingEntry
from headgate.engine.state.read_room import ReadRoom
from headgate.engine.state.stream import Stream

_FULL_COUNT = 10
_SMALLER = "a smaller COUNT"
_ONE_BY_ONE = "/v1/streams, where they are listed a page at a time"


def xinfo(words: Sequence[bytes], bounds: Bounds) -> Plan:
    """XINFO STREAM | GROUPS | CONSUMERS."""
    bounds = bounds._replace(entries_max=min(bounds.entries_max, DESCRIBED_MAX))
    return _XINFO[words[1].upper()](words, bounds)


def _stream(words: Sequence[bytes], bounds: Bounds) -> Plan:
    is_full = len(words) > 3

    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        del now_ms
        stream = keyspace.stream(words[2])
        limit = _full_limit(words) if is_full else None
        head = _head(keyspace, stream)
        if is_full:
            most = bounds.entries_max
            _check_described(_described(stream, limit, most), most, _SMALLER)
            entries = stream.log.range(MIN_ID, MAX_ID, limit, ReadRoom(bounds.size_bytes_max))
            if len(entries) < min(stream.log.length, most if limit is None else limit):
                raise CommandError(f"ERR the entries are too large: use {_SMALLER}")
            return Decision(
                [
                    *head,
                    b"entries",
                    [entry_reply(entry) for entry in entries],
                    b"groups",
                    [
                        _full_group(keyspace, stream, group, limit)
                        for group in stream.groups.values()
                    ],
                ],
                [],
            )
        first, last = stream.log.first(), stream.log.last()
        tail: list[Reply] = [
            b"groups",
            len(stream.groups),
            b"first-entry",
            None if first is None else entry_reply(first),
            b"last-entry",
            None if last is None else entry_reply(last),
        ]
        return Decision([*head, *tail], [])

    return at_once(step)


def _full_limit(words: Sequence[bytes]) -> int | None:
    """Read `FULL [COUNT n]`; returns how many of each to list, None for all."""
    is_right = words[3].upper() == b"FULL" and len(words) in (4, 6)
    if not is_right or (len(words) == 6 and words[4].upper() != b"COUNT"):
        text = "unknown subcommand or wrong number of arguments for"
        raise CommandError(f"ERR {text} '{shown(words[1])}'. Try XINFO HELP.")
    count = integer(words[5]) if len(words) == 6 else _FULL_COUNT
    return (_FULL_COUNT if count < 0 else count) or None


def _head(keyspace: Keyspace, stream: Stream) -> list[Reply]:
    return [
        b"length",
        stream.log.length,
        b"radix-tree-keys",
        stream.log.chunk_count,
        b"radix-tree-nodes",
        stream.log.chunk_count + 1,
        b"last-generated-id",
        _id(stream.last_id),
        b"max-deleted-entry-id",
        _id(stream.max_deleted_id),
        b"entries-added",
        stream.entries_added,
        b"recorded-first-entry-id",
        _id(stream.log.first_id),
        b"idmp-duration",
        key_window_ms(keyspace, stream) // 1000,
        b"idmp-maxsize",
        keys_max(keyspace, stream),
        b"pids-tracked",
        len(stream.keys.by_producer),
        b"iids-tracked",
        len(stream.keys),
        b"iids-added",
        stream.keys.added,
        b"iids-duplicates",
        stream.keys.duplicates,
    ]


def _described(stream: Stream, limit: int | None, most: int) -> int:
    """Return how many things FULL tells of, `limit` of each kind at most; or more than `most`."""
    limit = most + 1 if limit is None else limit
    total = min(stream.log.length, limit) + len(stream.groups)
    for group in stream.groups.values():
        total += min(len(group.pel), limit) + len(group.consumers)
        if total > most:
            break
        total += sum(min(len(consumer.pending), limit) for consumer in group.consumers.values())
    return total


def _check_described(total: int, most: int, instead: str) -> None:
    if total > most:
        text = f"the reply would tell of more than {most} things: use {instead}"
        raise CommandError(f"ERR {text}")


def _full_group(keyspace: Keyspace, stream: Stream, group: Group, limit: int | None) -> Reply:
    return [
        b"name",
        group.name,
        b"last-delivered-id",
        _id(group.last_id),
        b"entries-read",
        group.entries_read,
        b"lag",
        stream.lag(group.last_id, group.entries_read),
        b"pel-count",
        len(group.pel),
        b"nacked-count",
        group.pel.nobodys_count,
        b"pending",
        [
            [_id(one.id), _owner_name(one), *_times(keyspace, one)]
            for one in islice(group.pel.walk(), limit)
        ],
        b"consumers",
        [_full_consumer(keyspace, consumer, limit) for consumer in group.consumers.values()],
    ]


def _full_consumer(keyspace: Keyspace, consumer: Consumer, limit: int | None) -> Reply:
    return [
        b"name",
        consumer.name,
        b"seen-time",
        keyspace.wall_ms(consumer.seen_at_ms),
        b"active-time",
        -1 if consumer.active_at_ms is None else keyspace.wall_ms(consumer.active_at_ms),
        b"pel-count",
        len(consumer.pending),
        b"pending",
        [[_id(one.id), *_times(keyspace, one)] for one in islice(consumer.pending.walk(), limit)],
    ]


def _owner_name(one: PendingEntry) -> bytes:
    return b"" if one.owner is None else one.owner.name


def _times(keyspace: Keyspace, one: PendingEntry) -> list[Reply]:
    at_ms = 0 if one.owner is None else max(keyspace.wall_ms(one.delivered_at_ms), 0)
    return [at_ms, one.delivery_count]


def _groups(words: Sequence[bytes], bounds: Bounds) -> Plan:
    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        del now_ms
        count = len(keyspace.stream(words[2]).groups)
        _check_described(count, bounds.entries_max, _ONE_BY_ONE)
        reply: list[Reply] = [
            [
                b"name",
                info.name,
                b"consumers",
                info.consumer_count,
                b"pending",
                info.pending_count,
                b"last-delivered-id",
                _id(info.last_id),
                b"entries-read",
                info.entries_read,
                b"lag",
                info.lag,
            ]
            for info in groups(keyspace, words[2])
        ]
        return Decision(reply, [])

    return at_once(step)


def _consumers(words: Sequence[bytes], bounds: Bounds) -> Plan:
    def step(keyspace: Keyspace, now_ms: int) -> Decision[Reply]:
        group = keyspace.stream(words[2]).groups.get(words[3])
        if group is None:
            raise no_such_group(words[2], words[3])
        _check_described(len(group.consumers), bounds.entries_max, _ONE_BY_ONE)
        reply: list[Reply] = [
            [
                b"name",
                info.name,
                b"pending",
                info.pending_count,
                b"idle",
                info.idle_ms,
                b"inactive",
                -1 if info.inactive_ms is None else info.inactive_ms,
            ]
            for info in consumers(keyspace, words[2], words[3], now_ms)
        ]
        return Decision(reply, [])

    return at_once(step)


def _id(entry_id: EntryId) -> bytes:
    return str(entry_id).encode()


_XINFO = {b"STREAM": _stream, b"GROUPS": _groups, b"CONSUMERS": _consumers}
