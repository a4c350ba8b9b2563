"""Commands: what a server of Redis has to be sent so that a stream becomes a copy.

They are those of Redis 7.0. Redis keeps less than a gateway does: configuration, policies, delays
and epochs have no command, and are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from headgate.engine.entry import EntryId
from headgate.engine.replies import Added
from headgate.engine.requests import Request
from headgate.engine.requests.deliveries import Claim, Nack
from headgate.engine.requests.entries import Add, Delete, Trim
from headgate.engine.requests.groups import CreateConsumer, CreateGroup, DestroyGroup, UpdateGroup
from headgate.engine.requests.keyspace import ExpireStream, SetCounters
from headgate.engine.requests.streams import DeleteStream, UpdateStream

Words = Sequence[bytes | str | int]

NOBODY = b""
"""A consumer that holds the pending entries without an owner: before Redis 8.8 each has one.

Redis 8.8 has this name in their place where it lists pending entries.
"""


def commands_of(request: Request[Any], now_ms: int) -> list[Words]:
    """Return the commands that carry out a request that changes a copy.

    Args:
        request: one of those that copying makes.
        now_ms: unix time, from which an expiry counts.
    """
    match request:
        case Add(stream, drafts):
            return [(b"XADD", stream, str(draft.id), *draft.fields) for draft in drafts]
        case Delete(stream, ids):
            return [(b"XDEL", stream, *map(str, ids))]
        case Trim(stream, to):
            return [(b"XTRIM", stream, b"MINID", str(to.min_id))]
        case SetCounters(stream, last_id, added, max_deleted_id):
            return [_counters(stream, last_id, added, max_deleted_id)]
        case ExpireStream(stream, ttl_ms):
            return [(b"PEXPIREAT", stream, now_ms + ttl_ms)]
        case UpdateStream(stream):
            return []
        case DeleteStream(stream):
            return [(b"UNLINK", stream)]
        case _:
            return [_group_command(request)]


def _group_command(request: Request[Any]) -> Words:
    match request:
        case CreateGroup(stream, group, (last_id, _), create_stream):
            made: Words = (b"MKSTREAM",) if create_stream else ()
            return [b"XGROUP", b"CREATE", stream, group, str(last_id or "$"), *made]
        case DestroyGroup(stream, group):
            return b"XGROUP", b"DESTROY", stream, group
        case UpdateGroup(stream, group, EntryId() as last_id, entries_read):
            read: Words = () if entries_read is UNSET else (b"ENTRIESREAD", entries_read)
            return [b"XGROUP", b"SETID", stream, group, str(last_id), *read]
        case CreateConsumer(stream, group, consumer):
            return b"XGROUP", b"CREATECONSUMER", stream, group, consumer
        case Claim():
            return _claim(request, request.consumer, request.time_ms or 0)
        case Nack():
            return _claim(request, NOBODY, 0)
    raise AssertionError(f"copying makes no {type(request).__name__}")


def added(request: Add) -> Added:
    """Return the reply to an append whose entries have ids."""
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


def _counters(stream: bytes, last_id: EntryId, added: int | None, max_deleted_id: EntryId) -> Words:
    words: list[bytes | str | int] = [b"XSETID", stream, str(last_id)]
    if added is not None:
        words += [b"ENTRIESADDED", added, b"MAXDELETEDID", str(max_deleted_id)]
    return words
