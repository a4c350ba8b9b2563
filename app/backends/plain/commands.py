"""The commands that turn a stream of a Redis server into a copy.

They are those of Redis 7.0. Redis keeps less than a gateway does: configuration, policies, delays,
epochs and closes have no command and are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from hiredis import pack_command
from msgspec import UNSET

from headgate.app.backends.port import Ability
from headgate.app.backends.redis.faults import read_id
from headgate.engine.config import NO_POLICY, StreamConfig
from headgate.engine.entry import MIN_ID, Entry, EntryId, make_entries, make_ids
from headgate.engine.errors import NotSupported
from headgate.engine.replies import (
    Added,
    ConsumerInfo,
    GroupInfo,
    PendingItem,
    PendingSummary,
    StreamInfo,
)
from headgate.engine.requests import Request
from headgate.engine.requests.deliveries import Claim, Nack
from headgate.engine.requests.entries import Add, Delete, Trim
from headgate.engine.requests.groups import (
    CreateConsumer,
    CreateGroup,
    DestroyGroup,
    ListGroups,
    UpdateGroup,
)
from headgate.engine.requests.keyspace import ExpireStream, SetCounters
from headgate.engine.requests.streams import DeleteStream, DescribeStream, UpdateStream

Words = Sequence[bytes | str | int]

NOBODY = b""
"""A consumer that holds the pending entries without an owner: before Redis 8.8 each has one.

Redis 8.8 has this name in their place where it lists pending entries.
"""


def commands_of(request: Request[Any]) -> list[Words]:
    words_of = CHANGES.get(type(request))
    if words_of is None:
        raise NotSupported(type(request).__name__)
    return words_of(request)


def added(request: Add) -> Added:
    """Return the reply to an append whose entries have explicit ids."""
    return Added([draft.id for draft in request.drafts if isinstance(draft.id, EntryId)], False)


def release(request: Nack) -> Words:
    """Return the command that leaves pending entries without an owner (Redis 8.8)."""
    ids = [str(entry_id) for entry_id in request.ids]
    head = b"XNACK", request.stream, request.group, b"SILENT", b"IDS", len(ids)
    return [*head, *ids, b"RETRYCOUNT", request.retry_count or 0, b"FORCE"]


def _claim(request: Claim | Nack, consumer: bytes, time_ms: int) -> Words:
    head = b"XCLAIM", request.stream, request.group, consumer, 0
    tail = b"TIME", time_ms, b"RETRYCOUNT", request.retry_count or 0, b"FORCE", b"JUSTID"
    return [*head, *map(str, request.ids), *tail]


def _counters(request: SetCounters) -> Words:
    words: list[bytes | str | int] = [b"XSETID", request.stream, str(request.last_id)]
    if request.entries_added is not None:
        words += [b"ENTRIESADDED", request.entries_added]
        words += [b"MAXDELETEDID", str(request.max_deleted_id)]
    return words


def _add(request: Add) -> list[Words]:
    return [(b"XADD", request.stream, str(draft.id), *draft.fields) for draft in request.drafts]


def _create_group(request: CreateGroup) -> list[Words]:
    made: Words = (b"MKSTREAM",) if request.create_stream else ()
    start = str(request.start.last_id or "$")
    return [[b"XGROUP", b"CREATE", request.stream, request.group, start, *made]]


def _update_group(request: UpdateGroup) -> list[Words]:
    entries_read = request.entries_read
    assert isinstance(request.last_id, EntryId), "copying chooses a position"
    read: Words = () if entries_read is UNSET else (b"ENTRIESREAD", entries_read)
    return [(b"XGROUP", b"SETID", request.stream, request.group, str(request.last_id), *read)]


CHANGES: Mapping[type[Request[Any]], Callable[[Any], list[Words]]] = {
    Add: _add,
    Delete: lambda request: [(b"XDEL", request.stream, *map(str, request.ids))],
    Trim: lambda request: [(b"XTRIM", request.stream, b"MINID", str(request.to.min_id))],
    SetCounters: lambda request: [_counters(request)],
    ExpireStream: lambda request: [(b"PEXPIREAT", request.stream, request.at_ms or 0)],
    UpdateStream: lambda _: [],
    DeleteStream: lambda request: [(b"UNLINK", request.stream)],
    CreateGroup: _create_group,
    DestroyGroup: lambda request: [(b"XGROUP", b"DESTROY", request.stream, request.group)],
    UpdateGroup: _update_group,
    CreateConsumer: lambda request: [
        (b"XGROUP", b"CREATECONSUMER", request.stream, request.group, request.consumer)
    ],
    Claim: lambda request: [_claim(request, request.consumer, request.time_ms or 0)],
    Nack: lambda request: [_claim(request, NOBODY, 0)],
}
"""The requests that change a copy, and what is sent for each."""


# Replies: what servers answer about streams, as values of the port.
#
# Servers before 7.0 do not know `entries-added`, `max-deleted-entry-id` and `entries-read`. For
# the first, the number of entries stands, as when Redis 7 loads a file of theirs.

REDIS_KEYS = 100_000, 100
"""Redis's defaults of idempotency keys: their time in milliseconds, and their number."""


def read_stream(name: bytes, reply: Sequence[Any]) -> StreamInfo:
    """Read a stream from the reply to XINFO STREAM."""
    facts = _facts(reply)
    first = facts.get(b"first-entry")
    return StreamInfo(
        name=name,
        epoch=0,
        config=_config(facts),
        length=facts[b"length"],
        chunk_count=facts[b"radix-tree-nodes"],
        first_id=read_id(first[0]) if first else MIN_ID,
        last_id=read_id(facts[b"last-generated-id"]),
        max_deleted_id=read_id(facts.get(b"max-deleted-entry-id", b"0-0")),
        trimmed_through=MIN_ID,
        entries_added=facts.get(b"entries-added", facts[b"length"]),
        group_count=facts[b"groups"],
    )


def _config(facts: dict[bytes, Any]) -> StreamConfig:
    duration_s, keys_max = facts.get(b"idmp-duration"), facts.get(b"idmp-maxsize")
    if duration_s is None or (duration_s * 1000, keys_max) == REDIS_KEYS:
        return StreamConfig()
    return StreamConfig(idempotency_window_ms=duration_s * 1000, idempotency_max=keys_max)


def read_groups(reply: Sequence[Any]) -> list[GroupInfo]:
    groups = [
        GroupInfo(
            name=facts[b"name"],
            last_id=read_id(facts[b"last-delivered-id"]),
            entries_read=facts.get(b"entries-read"),
            lag=facts.get(b"lag"),
            pending_count=facts[b"pending"],
            released_count=0,
            consumer_count=facts[b"consumers"],
            policy=NO_POLICY,
        )
        for facts in map(_facts, reply)
    ]
    return sorted(groups)


def read_consumers(reply: Sequence[Any]) -> list[ConsumerInfo]:
    consumers = [
        ConsumerInfo(facts[b"name"], facts[b"pending"], facts[b"idle"], None)
        for facts in map(_facts, reply)
        if facts[b"name"] != NOBODY
    ]
    return sorted(consumers)


def read_pending(reply: Sequence[Any]) -> list[PendingItem]:
    return [
        PendingItem(read_id(entry_id), None, None, count)
        if consumer == NOBODY
        else PendingItem(read_id(entry_id), consumer, idle_ms, count)
        for entry_id, consumer, idle_ms, count in reply
    ]


def read_summary(reply: Sequence[Any]) -> PendingSummary:
    total, first, last, _ = reply
    return PendingSummary(total, _optional_id(first), _optional_id(last), [], 0)


def read_entries(reply: Sequence[Any]) -> list[Entry]:
    if not reply:
        return []
    ids = make_ids(map(int, b"-".join([entry_id for entry_id, _ in reply]).split(b"-")))
    return make_entries(ids, [tuple(fields) for _, fields in reply])


def _optional_id(text: bytes | None) -> EntryId | None:
    return None if text is None else read_id(text)


def _facts(reply: Sequence[Any]) -> dict[bytes, Any]:
    each = iter(reply)
    return dict(zip(each, each, strict=True))


# Command file: the commands that would make the copies at a server, one after the other.
#
# `redis-cli --pipe` sends such a file to a server.

T = TypeVar("T")


class CommandFile:
    """Write a copy as commands in RESP, and answer what copying asks of a new copy."""

    abilities: frozenset[Ability] = frozenset()

    def __init__(self, write: Callable[[bytes], Any]) -> None:
        self._write = write
        self._lengths: Counter[bytes] = Counter()  # in entries

    async def perform(self, request: Request[T]) -> T:
        reply: Any = None
        match request:
            case ListGroups():
                reply = []
            case DescribeStream(stream):
                reply = self._info(stream)
            case _:
                commands = commands_of(request)
                self._write(b"".join(map(_packed, commands)))
        if isinstance(request, Add):
            self._lengths[request.stream] += len(request.drafts)
            reply = added(request)
        answer: T = reply
        return answer

    def _info(self, stream: bytes) -> StreamInfo:
        length = self._lengths[stream]
        return StreamInfo(
            stream, 0, StreamConfig(), length, 0, MIN_ID, MIN_ID, MIN_ID, MIN_ID, length, 0
        )


def _packed(words: Words) -> bytes:
    parts: tuple[Any, ...] = tuple(words)  # hiredis takes more types than words have
    packed: bytes = pack_command(parts)
    return packed
