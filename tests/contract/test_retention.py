"""Trims, bounds of a stream, deletion and references."""

import pytest

from headgate.app.backends.port import Backend
from headgate.engine.config import Patch, StreamConfig
from headgate.engine.entry import MIN_ID
from headgate.engine.errors import Invalid, StreamNotFound
from headgate.engine.replies import Deletion
from headgate.engine.requests.deliveries import Ack
from headgate.engine.requests.entries import (
    Add,
    Delete,
    Range,
    Read,
    References,
    StreamCursor,
    Trim,
    TrimTo,
)
from headgate.engine.requests.streams import CreateStream, DescribeStream, ListStreams, UpdateStream
from tests.contract.calls import ANA, G, S, drafts, entry_id, filled, held, ids, numbers, take


async def test_a_stream_keeps_no_more_than_its_bound(backend: Backend) -> None:
    await backend.perform(CreateStream(S, StreamConfig(max_length=2)))
    await backend.perform(Add(S, drafts(1, 2, 3)))
    assert await numbers(backend) == [2, 3]


async def test_a_trim_takes_the_oldest(backend: Backend) -> None:
    await backend.perform(Add(S, drafts(1, 2, 3, 4)))
    assert await backend.perform(Trim(S, TrimTo(max_length=3))) == 1
    assert await backend.perform(Trim(S, TrimTo(min_id=entry_id(4)))) == 2
    assert await numbers(backend) == [4]
    assert (await backend.perform(DescribeStream(S))).last_id == entry_id(4)


async def test_a_stream_that_is_missing_is_neither_trimmed_nor_changed(backend: Backend) -> None:
    with pytest.raises(StreamNotFound):
        await backend.perform(Trim(S, TrimTo(max_length=0)))
    with pytest.raises(StreamNotFound):
        await backend.perform(Delete(S, ids(1)))
    with pytest.raises(StreamNotFound):
        await backend.perform(UpdateStream(S, Patch.of(StreamConfig, max_length=1)))
    assert await backend.perform(ListStreams()) == []


async def test_a_patch_of_a_stream_leaves_alone_what_it_does_not_name(backend: Backend) -> None:
    await backend.perform(CreateStream(S, StreamConfig(max_length=9, idempotency_max=5)))
    await backend.perform(Add(S, drafts(1, 2, 3)))
    patch = Patch.of(StreamConfig, max_length=2, idempotency_max=None)
    info = await backend.perform(UpdateStream(S, patch))
    assert (info.config, info.length) == (StreamConfig(max_length=2), 2)
    info = await backend.perform(UpdateStream(S, Patch.of(StreamConfig, max_length=None)))
    assert (info.config, info.length) == (StreamConfig(), 2)


async def test_a_trim_that_contradicts_itself_takes_nothing(backend: Backend) -> None:
    await backend.perform(Add(S, drafts(1)))
    with pytest.raises(Invalid):
        await backend.perform(Trim(S, TrimTo(max_length=0, min_id=entry_id(9))))
    assert await numbers(backend) == [1]


async def test_a_reader_is_told_what_was_trimmed_before_it_came(backend: Backend) -> None:
    await backend.perform(Add(S, drafts(1, 2, 3)))
    await backend.perform(Trim(S, TrimTo(max_length=1)))
    [read] = await backend.perform(Read([StreamCursor(S, entry_id(1))]))
    assert read.gap is not None
    assert (read.gap.after, read.gap.through) == (entry_id(1), entry_id(2))


async def test_what_is_deleted_is_gone_for_readers(backend: Backend) -> None:
    await backend.perform(Add(S, drafts(1, 2, 3)))
    assert await backend.perform(Delete(S, ids(2, 9))) == [Deletion.DELETED, Deletion.NOT_FOUND]
    assert await numbers(backend) == [1, 3]
    info = await backend.perform(DescribeStream(S))
    assert (info.length, info.entries_added, info.max_deleted_id) == (2, 3, entry_id(2))


async def test_a_deletion_says_what_becomes_of_pending_entries(backend: Backend) -> None:
    await filled(backend, 1, 2, 3)
    await backend.perform(take(ANA))
    assert await backend.perform(Delete(S, ids(1), References.ACKED)) == [Deletion.REFERENCED]
    await backend.perform(Delete(S, ids(1), References.KEEP))
    await backend.perform(Delete(S, ids(2), References.DELETE))
    assert await held(backend) == {1: ANA, 3: ANA}
    await backend.perform(Ack(S, G, ids(3)))
    assert await backend.perform(Delete(S, ids(3), References.ACKED)) == [Deletion.DELETED]


async def test_ids_do_not_come_again(backend: Backend) -> None:
    await backend.perform(Add(S, drafts(5)))
    await backend.perform(Delete(S, ids(5)))
    [last] = (await backend.perform(Add(S, drafts(6)))).ids
    assert last == entry_id(6)
    assert (await backend.perform(Range(S, MIN_ID)))[0].id == entry_id(6)


async def test_an_append_that_trims_with_references_may_create_its_stream(
    backend: Backend,
) -> None:
    for references in References:
        stream = references.value.encode()
        trim = TrimTo(max_length=1, references=references)
        await backend.perform(Add(stream, drafts(1, 2), trim=trim))
        assert await numbers(backend, stream) == [2]
