"""Streams come from a server of Redis, and go to one, with all that Redis keeps of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from headgate.app.backends.copying.contents import StreamStore, differences, entries_of
from headgate.app.backends.copying.filling import mark
from headgate.app.backends.copying.moving import Move, MoveState, Summary
from headgate.app.backends.plain.commands import NOBODY
from headgate.app.backends.plain.server import PlainServer
from headgate.app.backends.port import Backend
from headgate.app.backends.redis.address import read_url
from headgate.app.backends.redis.client import ClientOptions
from headgate.engine.clock import SystemClock
from headgate.engine.entry import Draft, EntryId
from headgate.engine.requests.deliveries import ListPending
from headgate.engine.requests.entries import Add, Range
from headgate.engine.requests.groups import ListConsumers, ListGroups
from headgate.engine.requests.keyspace import GetExpiry, ListNames
from headgate.engine.requests.streams import DeleteStream
from tests.contract.backends import KINDS
from tests.contract.calls import G, S, drafts, numbers
from tests.contract.test_moving import DEAD, Breaking, Notes, is_done, used

pytestmark = pytest.mark.away

NAMES = (S, DEAD, b"expiring", b"blocks")
"""Streams of this suite. The servers have those of others, too."""

[MEMORY] = [kind for kind in KINDS if kind.name == "memory"]


@pytest.fixture(params=["redis_7", "valkey_9", "valkey_cluster"])
def url(request: pytest.FixtureRequest) -> str:
    """Return the URL of servers."""
    return str(request.getfixturevalue(request.param).url)


@pytest.fixture
async def server(url: str) -> AsyncIterator[PlainServer]:
    """Return servers that have no stream of this suite."""
    server = PlainServer(ClientOptions(read_url(url)), SystemClock())
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(server.run())
        await removed(server)
        yield server
        await removed(server)
        await server.close()


async def removed(server: PlainServer) -> None:
    for name in NAMES:
        await server.perform(DeleteStream(name))


@asynccontextmanager
async def memories(place: Path) -> AsyncIterator[tuple[Backend, Backend]]:
    """Run two backends without streams."""
    async with MEMORY.running(place / "a") as begin, MEMORY.running(place / "b") as end:
        yield begin, end


async def copied(source: StreamStore, target: StreamStore, notes: Notes | None = None) -> Summary:
    return await Move(source, target, notes or Notes(), is_chosen=NAMES.__contains__).run()


async def assert_same(source: StreamStore, target: StreamStore, names: list[bytes]) -> None:
    for name in names:
        # Servers have no epochs, and do not say what was trimmed.
        assert {*await differences(source, target, name)} <= {"epoch", "trimmed through"}


async def test_a_stream_goes_to_a_server_and_back(server: PlainServer, tmp_path: Path) -> None:
    async with memories(tmp_path) as (begin, end):
        await used(begin)
        names = await begin.perform(ListNames())
        assert (await copied(begin, server)).is_complete
        await assert_same(begin, server, names)
        notes = Notes()
        assert (await copied(server, end, notes)).is_complete
        assert notes.states() == dict.fromkeys(names, MoveState.COPIED)
        await assert_same(begin, end, names)
        assert await end.perform(Range(S)) == await begin.perform(Range(S))
        at_ms = await begin.perform(GetExpiry(b"expiring"))
        later_ms = await end.perform(GetExpiry(b"expiring"))
        assert at_ms is not None
        assert later_ms is not None
        assert abs(later_ms - at_ms) < 1_000  # an old server is asked in two steps
        for info in await begin.perform(ListGroups(S)):
            there = await server.perform(ListPending(S, info.name, limit=100))
            here = await begin.perform(ListPending(S, info.name, limit=100))
            assert [item[:2] for item in there] == [item[:2] for item in here]
            for mine, theirs in zip(here, there, strict=True):
                assert abs((mine.idle_ms or 0) - (theirs.idle_ms or 0)) < 10_000


async def test_a_copy_that_broke_off_is_completed(server: PlainServer, tmp_path: Path) -> None:
    """Lose the server after every seventh request, there and back, and copy again."""
    async with memories(tmp_path) as (begin, _):
        await used(begin)
        names = await begin.perform(ListNames())
        for requests in count(0, 7):
            await removed(server)
            there: Any = server
            is_over = await is_done(copied(begin, Breaking(there, requests)))
            assert (await copied(begin, server)).is_complete, requests
            await assert_same(begin, server, names)
            if is_over:
                break
        for requests in count(0, 7):
            async with MEMORY.running(tmp_path / str(requests)) as end:
                is_over = await is_done(copied(server, Breaking(end, requests)))
                assert (await copied(server, end)).is_complete, requests
                await assert_same(begin, end, names)
            if is_over:
                break


async def test_a_second_copy_adds_nothing(server: PlainServer, tmp_path: Path) -> None:
    async with memories(tmp_path) as (begin, _):
        await used(begin)
        await copied(begin, server)
        notes = Notes()
        assert (await copied(begin, server, notes)).entries == 0
        assert set(notes.states().values()) == {MoveState.SAME}
        await begin.perform(Add(S, [Draft(EntryId(2**64 - 1, 9), (b"n", b"9"))]))
        assert not (await copied(begin, server, notes)).is_complete
        assert notes.states()[S] is MoveState.CHANGED


async def test_entries_of_nobody_wait_for_the_next_reader(
    server: PlainServer, tmp_path: Path
) -> None:
    """A server without XNACK has them with a consumer of ours; nobody sees it as a consumer."""
    async with memories(tmp_path) as (begin, _):
        await used(begin)
        await copied(begin, server)
        items = await server.perform(ListPending(S, G, limit=100))
        assert sum(item.consumer is None for item in items) == 4
        consumers = await server.perform(ListConsumers(S, G))
        assert NOBODY not in [each.name for each in consumers]


async def test_large_entries_come_in_small_pages(
    server: PlainServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.app.backends.copying.contents.PAGE_BYTES", 10_000)
    async with memories(tmp_path) as (begin, end):
        sizes = [1] * 150 + [5_000] * 600
        large = [Draft(EntryId(n, 0), (b"n", b"x" * size)) for n, size in enumerate(sizes, 1)]
        await begin.perform(Add(S, large))
        await copied(begin, server)
        pages = [sum(entry.size_bytes for entry in page) async for page in entries_of(server, S)]
        assert len(pages) > 20
        assert max(pages[2:]) <= 4 * 10_000
        assert (await copied(server, end)).is_complete
        assert len(await numbers(end)) == 750


async def test_an_incomplete_copy_is_no_source(server: PlainServer, tmp_path: Path) -> None:
    async with memories(tmp_path) as (end, _):
        await server.perform(Add(S, drafts(1)))
        await mark(server, S)
        notes = Notes()
        await copied(server, end, notes)
        assert notes.states() == {S: MoveState.REFUSED}
