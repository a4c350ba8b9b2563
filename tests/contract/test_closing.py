"""A closed stream takes nothing any more, gives what it has, and says when that was all."""

import asyncio
from typing import Any

import pytest

from headgate.app.backends.port import Ability, Backend
from headgate.engine.config import GroupPolicy
from headgate.engine.entry import MIN_ID, Draft, EntryId
from headgate.engine.errors import ClosedToAppends, StreamNotFound
from headgate.engine.replies import GroupRead, GroupState, StreamRead
from headgate.engine.requests import Request
from headgate.engine.requests.bulk import CommitBatch
from headgate.engine.requests.deliveries import GroupCursor, Nack, NackMode, ReadGroup, Redrive
from headgate.engine.requests.entries import Add, Delete, Range, Read, StreamCursor, TrimTo
from headgate.engine.requests.groups import CreateGroup, DescribeGroup, GroupStart
from headgate.engine.requests.idempotency import Idempotent
from headgate.engine.requests.keyspace import (
    CopyStream,
    DumpStream,
    GetRevisions,
    RenameStream,
    RestoreStream,
)
from headgate.engine.requests.streams import CloseStream, DeleteStream, DescribeStream
from tests.conditions import WITHIN_S, eventually
from tests.contract.calls import (
    ANA,
    BEN,
    G,
    S,
    blocked,
    drafts,
    entry_id,
    filled,
    held,
    ids,
    numbers,
)

LAST = [Draft(None, (b"n", b"last"))]


async def closed_at(backend: Backend, stream: bytes = S) -> int | None:
    return (await backend.perform(DescribeStream(stream))).closed_at_ms


async def refused(backend: Backend, request: Request[Any]) -> None:
    with pytest.raises(ClosedToAppends) as refusal:
        await backend.perform(request)
    assert refusal.value.stream == S


def take(consumer: bytes, wait_ms: int | None = None, *, no_ack: bool = False) -> ReadGroup:
    return ReadGroup(G, consumer, [GroupCursor(S)], wait_ms=wait_ms, no_ack=no_ack)


def state_of(group_read: GroupRead) -> tuple[list[int], GroupState]:
    return [delivery.id.ms for delivery in group_read.deliveries], group_read.state


async def test_no_append_of_any_kind_is_taken(backend: Backend) -> None:
    await filled(backend, 1)
    await backend.perform(CloseStream(S))
    key = Idempotent(b"", b"1")
    await refused(backend, Add(S, LAST))
    await refused(backend, Add(S, LAST, create_stream=False))
    await refused(backend, Add(S, drafts(7, 8)))
    await refused(backend, Add(S, drafts(7), trim=TrimTo(max_length=1)))
    await refused(backend, Add(S, LAST, key))
    await refused(backend, Add(S, LAST * 2000))
    if Ability.BULK in backend.abilities:
        await refused(backend, CommitBatch(b"spark", 1, {S: LAST}))
    assert await numbers(backend) == [1]


@pytest.mark.needs(Ability.COMMANDS)
async def test_no_append_of_a_transaction_is_taken(backend: Backend) -> None:
    outcomes = await backend.perform_all([Add(S, drafts(1)), CloseStream(S), Add(S, LAST)])
    assert isinstance(outcomes[2], ClosedToAppends)
    in_order = await backend.perform_in_order([Add(S, LAST)])
    assert isinstance(in_order[0], ClosedToAppends)
    assert await numbers(backend) == [1]


async def test_appends_side_by_side_end_where_the_stream_is_closed(backend: Backend) -> None:
    await filled(backend)
    before = [asyncio.create_task(backend.perform(Add(S, LAST))) for _ in range(3)]
    await asyncio.sleep(0)
    closing = asyncio.create_task(backend.perform(CloseStream(S)))
    await asyncio.sleep(0)
    behind = [asyncio.create_task(backend.perform(Add(S, LAST))) for _ in range(3)]
    await asyncio.gather(*before, closing)
    outcomes = await asyncio.gather(*behind, return_exceptions=True)
    assert all(isinstance(outcome, ClosedToAppends) for outcome in outcomes)
    assert len(await numbers(backend)) == 3


async def test_a_new_name_stays_closed_and_a_new_stream_is_open(backend: Backend) -> None:
    name, copy, other = b"{a}name", b"{a}copy", b"{a}other"  # in one slot of a cluster
    await backend.perform(CloseStream(name, LAST))
    closed_at_ms = await closed_at(backend, name)
    await backend.perform(CopyStream(name, copy))
    assert await closed_at(backend, copy) is None
    await backend.perform(Add(copy, LAST))
    await backend.perform(RenameStream(name, other))
    assert await closed_at(backend, other) == closed_at_ms
    await backend.perform(Add(name, LAST))
    assert await closed_at(backend, name) is None
    await backend.perform(RenameStream(other, name))
    with pytest.raises(ClosedToAppends):
        await backend.perform(Add(name, LAST))
    await backend.perform(DeleteStream(name))
    await backend.perform(Add(name, LAST))
    assert await closed_at(backend, name) is None


@pytest.mark.needs(Ability.COMMANDS)
async def test_what_is_restored_is_open(backend: Backend) -> None:
    await filled(backend, 1)
    await backend.perform(CloseStream(S))
    image = await backend.perform(DumpStream(S, 10**6))
    await backend.perform(RestoreStream(S, image, replace=True))
    assert await closed_at(backend) is None
    await backend.perform(Add(S, drafts(2)))


@pytest.mark.needs(Ability.COMMANDS)
async def test_whoever_watches_the_stream_notices(backend: Backend) -> None:
    await filled(backend, 1)
    before = await backend.perform(GetRevisions([S]))
    await backend.perform(CloseStream(S))
    assert await backend.perform(GetRevisions([S])) != before


# Readers


async def test_a_read_of_several_streams_waits_for_those_that_are_open(backend: Backend) -> None:
    await filled(backend, 1)
    await backend.perform(Add(b"open", drafts(1)))
    await backend.perform(CloseStream(S))
    cursors = [StreamCursor(S, entry_id(1)), StreamCursor(b"open", entry_id(1))]
    [task] = await blocked(backend, backend.perform(Read(cursors, wait_ms=None)))
    await backend.perform(CloseStream(b"open"))
    async with asyncio.timeout(WITHIN_S):
        reads: list[StreamRead] = await task
    assert all(each.closed_at_ms is not None for each in reads)


async def test_a_read_in_the_way_of_redis_waits_on(backend: Backend) -> None:
    await filled(backend)
    as_redis = ReadGroup(G, ANA, [GroupCursor(S)], wait_ms=None, by_policy=False)
    follow = Read([StreamCursor(S, MIN_ID)], wait_ms=None, missing_ok=True)
    reads: list[Request[list[Any]]] = [as_redis, follow]
    waiting, following = await blocked(backend, *map(backend.perform, reads))
    await backend.perform(CloseStream(S))
    assert state_of(*await backend.perform(take(BEN))) == ([], GroupState.CLOSED)
    assert not waiting.done()
    assert not following.done()
    for task in (waiting, following):
        task.cancel()
    await asyncio.gather(waiting, following, return_exceptions=True)


# Dead letters

DEAD = b"dead"
POLICY = GroupPolicy(max_deliveries=1, dead_letter_stream=S)


@pytest.mark.needs(Ability.POLICIES)
async def test_a_dead_letter_for_a_closed_stream_stays_pending(backend: Backend) -> None:
    await backend.perform(Add(b"jobs", drafts(1)))
    await backend.perform(CreateGroup(b"jobs", G, GroupStart(MIN_ID), policy=POLICY))
    await backend.perform(Add(S, drafts(1)))
    await backend.perform(CloseStream(S))
    request = ReadGroup(G, ANA, [GroupCursor(b"jobs")])
    await backend.perform(request)
    await backend.perform(Nack(b"jobs", G, ids(1), NackMode.FAIL))
    await backend.perform(request)
    in_outbox = backend.servers is not None  # of the servers
    info = await backend.perform(DescribeGroup(b"jobs", G))
    assert info.pending_count == (0 if in_outbox else 1)
    assert await numbers(backend) == [1]


@pytest.mark.needs(Ability.POLICIES)
async def test_a_redrive_into_a_closed_stream_is_refused_if_it_appends(backend: Backend) -> None:
    policy = GroupPolicy(max_deliveries=1, dead_letter_stream=DEAD)
    await backend.perform(Add(S, drafts(1, 2)))
    await backend.perform(CreateGroup(S, G, GroupStart(MIN_ID), policy=policy))
    await backend.perform(take(ANA, 0))
    await backend.perform(Nack(S, G, ids(1, 2), NackMode.FAIL))
    await eventually(lambda: _numbers_of_dead(backend), lambda dead: len(dead) >= 2)
    await backend.perform(Delete(S, ids(2)))
    await backend.perform(CloseStream(S))
    first, second = await _numbers_of_dead(backend)
    [redriven] = await backend.perform(Redrive(S, G, [first]))
    assert redriven.entry_id == entry_id(1)
    await refused(backend, Redrive(S, G, [second]))
    assert await _numbers_of_dead(backend) == [second]
    assert await held(backend) == {1: None}


async def _numbers_of_dead(backend: Backend) -> list[EntryId]:
    try:
        return [entry.id for entry in await backend.perform(Range(DEAD))]
    except StreamNotFound:
        return []
