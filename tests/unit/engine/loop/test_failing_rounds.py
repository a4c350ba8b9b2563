"""Periodic work of the engine goes on: what fails once, or for a while, is done in the end."""

import asyncio
import errno
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headgate.engine.clock import Clock
from headgate.engine.config import GroupPolicy, StreamConfig
from headgate.engine.decisions import trims
from headgate.engine.decisions.group_reads import settling
from headgate.engine.engine import Engine
from headgate.engine.entry import MIN_ID, Draft, EntryId
from headgate.engine.journal import records, room
from headgate.engine.journal.journal import Journal
from headgate.engine.journal.room import DiskBounds
from headgate.engine.journal.storage import MemoryStorage, Storage
from headgate.engine.journal.writer import FsyncPolicy
from headgate.engine.periodic import OnOutcome
from headgate.engine.requests.deliveries import GroupCursor, ReadGroup
from headgate.engine.requests.entries import Add
from headgate.engine.requests.groups import CreateGroup, GroupStart
from headgate.engine.requests.streams import CreateStream
from tests.changes import acting_by
from tests.conditions import until
from tests.failures import each_failure
from tests.journals.memory_disk import MemoryDisk
from tests.virtual_time import VirtualClock

TIMES = [1, 20]
each_number = pytest.mark.parametrize("times", TIMES, ids=["once", "for a while"])


class Cause:
    """Makes a function fail so many times, and hears what the engine reports."""

    def __init__(self, failure: Exception, times: int) -> None:
        self.failure = failure
        self.left = times
        self.outcomes: list[tuple[str, Exception | None]] = []

    def before(self, act: Callable[..., Any]) -> Callable[..., Any]:
        def failing(*args: Any, **options: Any) -> Any:
            if self.left:
                self.left -= 1
                raise self.failure
            return act(*args, **options)

        return failing

    def watch(self, work: str) -> OnOutcome:
        return lambda outcome: self.outcomes.append((work, outcome))

    def works(self) -> set[str]:
        return {work for work, _ in self.outcomes}


class Running(Engine):
    """An engine that runs."""

    def __init__(self, cause: Cause, storage: Storage | None = None) -> None:
        clock: Clock = VirtualClock()
        super().__init__(storage or MemoryStorage(), clock=clock, watch=cause.watch)
        self.running = asyncio.create_task(self.run())

    async def end(self) -> None:
        assert not self.running.done()
        await self.close()
        await self.running


def length_of(engine: Engine, stream: bytes) -> int:
    held = engine.keyspace.find(stream)
    return 0 if held is None else held.log.length


async def add(engine: Engine, stream: bytes) -> None:
    await engine.perform(Add(stream, [Draft(None, (b"f", b"v"))]))


@each_failure
@each_number
async def test_old_entries_go(
    failure: Exception, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cause = Cause(failure, times)
    monkeypatch.setattr(trims, "retain", cause.before(trims.retain))
    engine = Running(cause)
    for stream in (b"a", b"b", b"c"):
        await engine.perform(CreateStream(stream, StreamConfig(max_age_ms=1000)))
        await add(engine, stream)

    await until(lambda: not any(length_of(engine, stream) for stream in (b"a", b"b", b"c")))

    assert cause.works() == {"housekeeping of ages"}
    assert cause.outcomes[-1][1] is None
    await engine.end()


@each_failure
@each_number
async def test_policies_are_kept(
    failure: Exception, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cause = Cause(failure, 0)
    monkeypatch.setattr(settling, "settle", cause.before(settling.settle))
    engine = Running(cause)
    await add(engine, b"s")
    await engine.perform(CreateGroup(b"s", b"g", GroupStart(MIN_ID)))
    policy = GroupPolicy(claim_idle_ms=1000, max_deliveries=1, dead_letter_stream=b"dead")
    await engine.perform(acting_by(b"s", b"g", policy))
    await engine.perform(ReadGroup(b"g", b"a", [GroupCursor(b"s", None)], wait_ms=0))
    cause.left = times

    await until(lambda: length_of(engine, b"dead") == 1)

    assert cause.works() == {"housekeeping of policies"}
    await engine.end()


@each_failure
@each_number
async def test_what_is_deleted_is_freed(failure: Exception, times: int) -> None:
    cause, freed = Cause(failure, times), []

    def pieces(number: int) -> Iterator[None]:
        yield
        cause.before(lambda: None)()
        freed.append(number)

    engine = Running(cause)
    for number in range(times + 1):
        engine._executor.disposal.take(pieces(number))

    await until(lambda: freed == [times])

    assert cause.works() == {"disposal"}
    await engine.end()


@each_failure
@each_number
async def test_takeovers_arrive(failure: Exception, times: int) -> None:
    cause = Cause(failure, times)
    engine = Running(cause)
    for _ in range(times + 1):
        await add(engine, b"s")
    await engine.perform(CreateGroup(b"s", b"g", GroupStart(MIN_ID)))
    feed = engine.claims(b"s", b"g", b"a")
    feed.open()
    feed.on_put = cause.before(lambda: None)
    await engine.perform(ReadGroup(b"g", b"a", [GroupCursor(b"s", None)], wait_ms=0))
    for _ in range(times + 1):
        again = ReadGroup(b"g", b"b", [GroupCursor(b"s", None)], 1, claim_idle_ms=0, wait_ms=0)
        await engine.perform(again)

    async with asyncio.timeout(120):
        taken = set[EntryId]()
        while len(taken) < times + 1:
            taken |= (await anext(feed)).counts.keys()

    assert cause.works() == {"takeovers"}
    feed.close()
    await engine.end()


@each_failure
@each_number
async def test_the_journal_sees_how_much_room_there_is(
    failure: Exception, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cause, disk = Cause(failure, 0), MemoryDisk()
    monkeypatch.setattr(room, "look", cause.before(room.look))

    async def rewriter(through: int, _: object) -> None:
        raise OSError(errno.EMFILE, f"no rewrite through {through}")

    bounds = DiskBounds(free_bytes_min=1000)
    storage = Journal(disk, FsyncPolicy.ALWAYS, rewriter, bounds=bounds, watch=cause.watch)
    engine = Running(cause, storage)
    await add(engine, b"s")
    disk.size_bytes_max = disk.size_bytes_max - disk.free_bytes() + 100

    cause.left = times
    await until(lambda: storage.status.shortage is not None)

    assert cause.works() <= {"room of the disk"}  # it bears errors of the disk itself
    await engine.end()


async def test_a_block_without_memory_is_written_later(monkeypatch: pytest.MonkeyPatch) -> None:
    cause, disk = Cause(MemoryError(), 0), MemoryDisk()
    monkeypatch.setattr(records, "pack_block", cause.before(records.pack_block))

    async def rewriter(through: int, _: object) -> None:
        raise OSError(errno.EMFILE, f"no rewrite through {through}")

    storage = Journal(disk, FsyncPolicy.ALWAYS, rewriter, watch=cause.watch)
    engine = Running(cause, storage)
    await add(engine, b"s")

    cause.left = 3
    await add(engine, b"s")

    assert length_of(engine, b"s") == 2
    assert storage.durable_position == storage.position
    await engine.end()
