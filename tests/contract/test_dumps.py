"""Streams as one value: dumped, restored, copied, renamed to a free name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headgate.app.backends.port import Ability, Backend
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.engine.config import GroupPolicy, StreamConfig
from headgate.engine.entry import MAX_ID, MIN_ID, Entry
from headgate.engine.errors import OutOfReach, StreamExists
from headgate.engine.images import StreamImage, unpacked
from headgate.engine.replies import PendingInspection
from headgate.engine.requests import deliveries, keyspace
from headgate.engine.requests.entries import Add, Delete, Range
from headgate.engine.requests.groups import CreateConsumer, CreateGroup, GroupStart
from headgate.engine.requests.keyspace import CopyStream, DumpStream, NameFilter, RestoreStream
from headgate.engine.requests.streams import CreateStream, DescribeStream
from tests.contract.backends import SURVIVES, Kind
from tests.contract.calls import ANA, BEN, G, drafts, ids

S, T = b"{acme}orders", b"{acme}others"
SIZE_MAX = 2**20


async def fill(backend: Backend) -> None:
    """Make a stream with all that a dump keeps."""
    await backend.perform(Add(S, drafts(1, 2, 3, 4, 5, 6, 7)))
    await backend.perform(CreateGroup(S, G, GroupStart(MIN_ID, 0)))
    await backend.perform(CreateGroup(S, b"unused", GroupStart(ids(3)[0])))
    await backend.perform(CreateConsumer(S, G, b"idle"))
    for consumer in (ANA, BEN):
        await backend.perform(
            deliveries.ReadGroup(G, consumer, [deliveries.GroupCursor(S)], limit=3)
        )
    await backend.perform(deliveries.Ack(S, G, ids(2)))
    await backend.perform(deliveries.Nack(S, G, ids(4), deliveries.NackMode.FAIL))
    await backend.perform(Delete(S, ids(1, 3)))


async def dumped(backend: Backend, stream: bytes) -> StreamImage:
    return await backend.perform(DumpStream(stream, SIZE_MAX))


def entries_of(image: StreamImage) -> list[Entry]:
    return [entry for entries in unpacked(image.chunks) for entry in entries]


def facts_of(image: StreamImage) -> tuple[object, ...]:
    """Return the facts of an image; servers do not keep when consumers were active."""
    groups = [
        (
            group.name,
            group.last_id,
            group.entries_read,
            group.pending,
            [each[:2] for each in group.consumers],
        )
        for group in image.groups
    ]
    return entries_of(image), image.counters, groups


def shown(pending: PendingInspection) -> tuple[object, ...]:
    """Return the comparable facts: over servers the time follows from the idle time."""
    return pending.id, pending.consumer, pending.delivery_count


async def content(backend: Backend, stream: bytes) -> Any:
    """Return the content of a dump, as the backend tells it, without times."""
    seen = await backend.perform(keyspace.InspectStream(stream, full=True, described_max=100))
    facts = seen.info.last_id, seen.info.max_deleted_id, seen.info.entries_added
    groups = [
        (
            group.info.name,
            group.info.last_id,
            group.info.entries_read,
            group.info.released_count,
            list(map(shown, group.pending)),
            [(each.name, list(map(shown, each.pending))) for each in group.consumers],
        )
        for group in seen.groups
    ]
    return facts, seen.entries, groups


async def test_a_dump_is_restored(backend: Backend) -> None:
    await fill(backend)
    before = await content(backend, S)
    image = await dumped(backend, S)
    assert entries_of(image) == await backend.perform(Range(S, MIN_ID, MAX_ID, 100))
    await backend.perform(RestoreStream(T, image))
    assert await content(backend, T) == before
    assert facts_of(await dumped(backend, T)) == facts_of(image)


async def test_a_stream_that_exists_is_replaced_only_on_demand(backend: Backend) -> None:
    await fill(backend)
    image = await dumped(backend, S)
    await backend.perform(Add(T, drafts(1)))
    with pytest.raises(StreamExists):
        await backend.perform(RestoreStream(T, image))
    assert (await backend.perform(DescribeStream(T))).length == 1
    before = (await backend.perform(DescribeStream(T))).epoch
    await backend.perform(RestoreStream(T, image, replace=True))
    info = await backend.perform(DescribeStream(T))
    assert info.length == 5
    assert info.epoch > before
    assert facts_of(await dumped(backend, T)) == facts_of(image)


async def test_what_is_restored_expires(backend: Backend) -> None:
    await fill(backend)
    image = await dumped(backend, S)
    await backend.perform(RestoreStream(T, image, ttl_ms=100_000))
    left_ms = await backend.perform(keyspace.TimeToLive(T))
    assert left_ms is not None
    assert 90_000 < left_ms <= 100_000
    now_ms = await backend.perform(keyspace.TellTime())
    await backend.perform(RestoreStream(T, image, True, None, now_ms + 50_000))
    left_ms = await backend.perform(keyspace.TimeToLive(T))
    assert left_ms is not None
    assert 40_000 < left_ms <= 50_000
    await backend.perform(RestoreStream(T, image, True, None, now_ms - 1))
    assert await backend.perform(keyspace.CountStreams([T])) == 0


async def test_a_copy_has_everything(backend: Backend) -> None:
    policy = GroupPolicy(claim_idle_ms=60_000, max_pending=3)
    await backend.perform(CreateStream(S, StreamConfig(max_length=100)))
    await fill(backend)
    await backend.perform(CreateGroup(S, b"ruled", GroupStart(MIN_ID), policy=policy))
    before = await content(backend, S)
    assert await backend.perform(CopyStream(S, T))
    assert await content(backend, T) == before
    info, source = [await backend.perform(DescribeStream(name)) for name in (T, S)]
    assert info.config == source.config == StreamConfig(max_length=100)
    assert info.epoch != source.epoch
    kept = await backend.perform(CreateGroup(T, b"ruled", GroupStart(MIN_ID), policy=policy))
    assert not kept.is_new
    await backend.perform(deliveries.Ack(T, G, ids(5)))
    await backend.perform(Add(T, drafts(9)))
    assert await content(backend, S) == before


@pytest.mark.parametrize("move", [CopyStream, keyspace.RenameStream])
async def test_policies_go_along_within_reach_only(
    backend: Backend, move: type[CopyStream | keyspace.RenameStream]
) -> None:
    dead = b"{acme}\xff.dead"
    policy = GroupPolicy(max_deliveries=2, dead_letter_stream=dead)
    await backend.perform(Add(S, drafts(1)))
    await backend.perform(CreateGroup(S, b"plain", GroupStart(MIN_ID)))
    await backend.perform(CreateGroup(S, G, GroupStart(MIN_ID), policy=policy))
    for reach in (
        NameFilter(),
        NameFilter(frozenset({dead[:-1], dead + b"."}), (dead + b"x", b"=", b"^", b"other")),
        NameFilter(frozenset({b"other", S, T})),
    ):
        with pytest.raises(OutOfReach) as raised:
            await backend.perform(move(S, T, reach=reach))
        assert raised.value.stream == dead
    assert await backend.perform(keyspace.CountStreams([S, T])) == 1
    for source, to, reach in (
        (S, T, NameFilter(prefixes=(b"other", dead[:8]))),
        (T, b"{acme}2", NameFilter(frozenset({dead}))),
        (b"{acme}2", b"{acme}3", NameFilter(prefixes=(b"",))),
        (b"{acme}3", dead, NameFilter()),  # it is not its own
    ):
        assert await backend.perform(move(source, to, reach=reach))


@pytest.mark.needs(SURVIVES)
async def test_what_is_restored_survives(kind: Kind, url: str | None, tmp_path: Path) -> None:
    async with kind.running(tmp_path, url) as backend:
        await fill(backend)
        image = await dumped(backend, S)
        await backend.perform(RestoreStream(T, image))
        await backend.perform(CopyStream(T, b"{acme}copy"))
        before = await content(backend, S)
    async with kind.running(tmp_path, url) as backend:
        for name in (T, b"{acme}copy"):
            assert await content(backend, name) == before
            assert facts_of(await dumped(backend, name)) == facts_of(image)


@pytest.mark.needs(Ability.COMMANDS)
async def test_a_transaction_dumps_and_restores(backend: Backend) -> None:
    await backend.perform(Add(S, drafts(1, 2)))
    commands = CommandRunner(backend)
    payload = await commands.run([b"DUMP", S])
    assert isinstance(payload, bytes)
    again, done, count = await commands.run_all(
        [[b"DUMP", S], [b"RESTORE", T, b"0", payload], [b"XLEN", T]]
    )
    assert again == payload
    assert done == "OK"
    assert count == 2
