"""Archives: what trims remove of a stream stays readable, or the backend says that it cannot."""

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.backends.port import Ability, Backend
from headgate.app.backends.remote.backend import RemoteBackend
from headgate.engine.config import Patch, StreamConfig
from headgate.engine.engine import Engine
from headgate.engine.entry import MAX_ID, MIN_ID
from headgate.engine.errors import NoArchive
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.replies import Deletion
from headgate.engine.requests.entries import (
    Add,
    Delete,
    Range,
    RangeMatching,
    RangePacked,
    Read,
    StreamCursor,
    Trim,
    TrimArchive,
    TrimTo,
)
from headgate.engine.requests.streams import CreateStream, DescribeStream, UpdateStream
from tests.behind_socket import served
from tests.conditions import until
from tests.contract.calls import S, drafts, entry_id
from tests.packed_runs import entries_in
from tests.running import running


@pytest.fixture(params=["embedded", "remote"])
async def archiving(request: pytest.FixtureRequest) -> AsyncIterator[Backend]:
    """Run an engine with a bucket, in this process or behind a socket."""
    engine = EmbeddedBackend(Engine(MemoryStorage(records_max=0), has_bucket=True))
    async with running(engine):
        if request.param == "embedded":
            yield engine
            return
        async with served(engine) as options, running(RemoteBackend(options)) as remote:
            await until(lambda: remote.refusal is None)
            yield remote


async def test_a_backend_without_a_bucket_refuses_the_setting(backend: Backend) -> None:
    with pytest.raises(NoArchive, match="bucket"):
        await backend.perform(CreateStream(S, StreamConfig(archive=True)))
    await backend.perform(CreateStream(S, StreamConfig(max_length=3)))
    with pytest.raises(NoArchive):
        await backend.perform(UpdateStream(S, Patch.of(StreamConfig, archive=True)))
    info = await backend.perform(UpdateStream(S, Patch.of(StreamConfig, archive=False)))
    assert info.config == StreamConfig(max_length=3)


async def test_a_read_with_what_is_archived_reads_the_stream(backend: Backend) -> None:
    await backend.perform(Add(S, drafts(1, 2, 3)))
    await backend.perform(Trim(S, TrimTo(max_length=2)))
    entries = await backend.perform(Range(S, archived=True))
    assert [entry.id.ms for entry in entries] == [2, 3]
    [read] = await backend.perform(Read([StreamCursor(S, MIN_ID)], archived=True))
    assert ([entry.id.ms for entry in read.entries], read.archived) == ([2, 3], False)
    assert await backend.perform(Delete(S, [entry_id(1)], archived=True)) == [Deletion.NOT_FOUND]


async def test_what_is_trimmed_stays_readable_until_the_archive_is(archiving: Backend) -> None:
    assert Ability.ARCHIVES in archiving.abilities
    config = StreamConfig(max_length=2, archive=True)
    await archiving.perform(CreateStream(S, config))
    await archiving.perform(Add(S, drafts(*range(1, 8))))

    assert [entry.id.ms for entry in await archiving.perform(Range(S))] == [6, 7]
    entries = await archiving.perform(Range(S, archived=True))
    assert [entry.id.ms for entry in entries] == list(range(1, 8))
    matching = RangeMatching(S, '{"suffix": {"n": "6"}}', archived=True)
    assert [entry.id.ms for entry in (await archiving.perform(matching)).entries] == [6]
    matching = replace(matching, filters='{"suffix": {"n": "2"}}')
    assert [entry.id.ms for entry in (await archiving.perform(matching)).entries] == [2]
    page = await archiving.perform(RangePacked(S, MIN_ID, MAX_ID, 5, 10**6, archived=True))
    assert [entry.id.ms for entry in entries_in(page.runs)] == list(range(1, 6))
    [read] = await archiving.perform(Read([StreamCursor(S, entry_id(3))], limit=3, archived=True))
    assert ([entry.id.ms for entry in read.entries], read.archived) == ([4, 5, 6], True)

    assert await archiving.perform(Delete(S, [entry_id(4)], archived=True)) == [Deletion.DELETED]
    info = await archiving.perform(DescribeStream(S))
    assert (info.config, info.archived_count, info.archived_first_id) == (config, 4, entry_id(1))
    assert await archiving.perform(TrimArchive(S, entry_id(3))) == 2
    assert await archiving.perform(TrimArchive(S)) == 2
    info = await archiving.perform(DescribeStream(S))
    assert (info.archived_count, info.archived_first_id, info.length) == (0, None, 2)
