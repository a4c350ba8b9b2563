"""Commands: what a server of Redis has to be sent so that a stream becomes a copy.

They are those of Redis 7.0. Redis keeps less than a gateway does: configuration, policies, delays,
epochs and closes have no command, and are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import UNSET

from headgate.engine.entry import EntryId
from headgate.engine.errors import NotSupported
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


def commands_of(request: Request[Any]) -> list[Words]:
    """Return the commands that carry out a request that changes a copy.

    Args:
        request: one of those in `CHANGES`.

    Raises:
        NotSupported: copying makes no such request.
    """
    words_of = CHANGES.get(type(request))
    if words_of is None:
        raise NotSupported(type(request).__name__)
    return words_of(request)


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
    return [
        (b"XGROUP", b"SETID", request.stream, request.group, str(request.last_id), *read),
    ]


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
