"""Calls of the port as the suite makes them: one stream, one group, fields of one number."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from headgate.app.backends.port import Backend
from headgate.engine.config import GroupPolicy, Patch
from headgate.engine.entry import MIN_ID, Draft, EntryId
from headgate.engine.replies import Delivery
from headgate.engine.requests.deliveries import GroupCursor, ListPending, ReadGroup
from headgate.engine.requests.entries import Add, Range, Read, StreamCursor
from headgate.engine.requests.groups import CreateGroup, GroupStart, UpdateGroup
from tests.conditions import WITHIN_S

T = TypeVar("T")

S = b"orders"
G = b"billing"
ANA, BEN = b"ana", b"ben"


def entry_id(number: int) -> EntryId:
    return EntryId(number, 0)


def drafts(*numbers: int) -> list[Draft]:
    """Return entries with these ids."""
    return [Draft(entry_id(number), (b"n", b"%d" % number)) for number in numbers]


def ids(*numbers: int) -> list[EntryId]:
    return [entry_id(number) for number in numbers]


async def filled(backend: Backend, *numbers: int) -> None:
    """Append entries, and make a group that has seen none of them."""
    await backend.perform(Add(S, drafts(*numbers)))
    await backend.perform(CreateGroup(S, G, GroupStart(MIN_ID)))


async def held(backend: Backend, consumer: bytes | None = None) -> dict[int, bytes | None]:
    """Return the pending entries with their owners."""
    items = await backend.perform(ListPending(S, G, consumer=consumer))
    return {item.id.ms: item.consumer for item in items}


async def numbers(backend: Backend, stream: bytes = S) -> list[int]:
    """Return the ids of all entries of a stream."""
    return [entry.id.ms for entry in await backend.perform(Range(stream))]


def take(
    consumer: bytes, limit: int | None = None, *, claim_idle_ms: int | None = None
) -> ReadGroup:
    """Return the request of a consumer for what is new, or idle for so long."""
    return ReadGroup(G, consumer, [GroupCursor(S)], limit, claim_idle_ms)


def read(consumer: bytes, limit: int | None = None, *, by_policy: bool = True) -> ReadGroup:
    """Return the request of a consumer for what is new, or was given back."""
    return replace(take(consumer, limit), claim_released=True, by_policy=by_policy)


async def ruled(backend: Backend, policy: GroupPolicy, *drafts: Draft) -> None:
    """Make a group with a policy, and then append entries."""
    await backend.perform(CreateGroup(S, G, GroupStart(MIN_ID), create_stream=True, policy=policy))
    if drafts:
        await backend.perform(Add(S, drafts))


async def change(backend: Backend, **changes: object) -> None:
    """Change the policy of the group."""
    await backend.perform(UpdateGroup(S, G, policy=Patch.of(GroupPolicy, **changes)))


async def taken(backend: Backend, request: ReadGroup, wait_ms: int | None = 0) -> list[Delivery]:
    """Read as a consumer; returns what it was given."""
    [read] = await backend.perform(replace(request, wait_ms=wait_ms))
    return read.deliveries


async def got(backend: Backend, request: ReadGroup, wait_ms: int | None = 0) -> list[int]:
    """Read as a consumer; returns the ids of what it was given."""
    return [delivery.id.ms for delivery in await taken(backend, request, wait_ms)]


async def read_after(
    backend: Backend, after: EntryId, wait_ms: int | None = 0, stream: bytes = S
) -> list[int]:
    """Read as anybody; returns the ids."""
    [read] = await backend.perform(
        Read([StreamCursor(stream, after)], wait_ms=wait_ms, missing_ok=True)
    )
    return [entry.id.ms for entry in read.entries]


async def blocked(backend: Backend, *reads: Coroutine[Any, Any, T]) -> Sequence[asyncio.Task[T]]:
    """Begin to read, one after the other, until each is blocked."""
    tasks = []
    for read in reads:
        before = backend.waiter_count
        tasks.append(asyncio.create_task(read))
        async with asyncio.timeout(WITHIN_S):
            while backend.waiter_count == before:
                await asyncio.sleep(0)
    return tasks
