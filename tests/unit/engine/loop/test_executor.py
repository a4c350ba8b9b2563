"""Faults inside: applied commands are recorded, or the process ends."""

import asyncio
from typing import Any

import pytest

from headgate.engine import commands as c
from headgate.engine.decisions import Decision, Step, entries
from headgate.engine.engine import Engine
from headgate.engine.entry import MAX_ID, MIN_ID, Draft
from headgate.engine.errors import StreamError, Unavailable
from headgate.engine.journal import recovery
from headgate.engine.journal.journal import Journal
from headgate.engine.journal.writer import FsyncPolicy
from headgate.engine.loop.wait_queue import QueueKey, Waiter
from headgate.engine.requests.bulk import LastCommit
from headgate.engine.requests.entries import Add, From, Read, StreamCursor
from headgate.engine.state.keyspace import Keyspace
from tests.journals.memory_disk import MemoryDisk
from tests.lengths import length_of
from tests.unit.driver import Driver, S
from tests.virtual_time import ManualClock, settle

UNWRITABLE = c.BatchCommitted(b"w", 2**64, 1)  # no such number in msgpack


async def no_rewrite(through: int, _: object) -> None:
    raise AssertionError(f"nobody asked for a rewrite through {through}")


class OnDisk:
    """An engine on a disk in memory, and its task."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        journal = Journal(self.disk, FsyncPolicy.ALWAYS, no_rewrite)
        self.engine = Engine(journal, clock=ManualClock())
        self.run = asyncio.create_task(self.engine.run())

    def recovered(self) -> Keyspace:
        return recovery.recover(self.disk.copy()).keyspace

    async def stop(self) -> None:
        await self.engine.close()
        await self.run


def adding(value: bytes) -> Step[Any]:
    request = Add(S, [Draft(None, (b"f", value))])
    return lambda keyspace, now_ms: entries.add(keyspace, request, now_ms)


def failing(keyspace: Keyspace, now_ms: int) -> Decision[Any]:
    raise ValueError("a mistake in a step")


def poisonous(keyspace: Keyspace, now_ms: int) -> Decision[Any]:
    """Decide commands of which the second cannot be applied."""
    half = adding(b"half")(keyspace, now_ms).commands
    return Decision(None, [*half, c.StreamTrimmed(b"missing", MIN_ID)])


# Steps


async def test_what_was_applied_before_a_step_raised_is_recorded() -> None:
    item = OnDisk()
    with pytest.raises(ValueError, match="a mistake in a step"):
        await item.engine._executor.run_all([adding(b"1"), failing, adding(b"never")])
    await item.engine.perform(Add(S, [Draft(None, (b"f", b"2"))]))
    assert item.recovered().streams[S].log.length == 2 == await length_of(item.engine, S)
    await item.stop()


async def test_who_waits_is_served_what_was_added_before_a_step_raised() -> None:
    engine = Driver()
    reading = asyncio.create_task(engine.follow(missing_ok=True))
    await asyncio.sleep(0)
    with pytest.raises(ValueError, match="a mistake"):
        await engine._executor.run_all([adding(b"1"), failing])
    assert await asyncio.wait_for(reading, 1) != []


async def test_a_record_that_cannot_be_written_down_changes_nothing() -> None:
    engine = Driver()
    with pytest.raises(OverflowError):
        await engine._executor.run(lambda: Decision(None, [UNWRITABLE]))
    assert engine.storage.position == 0
    assert await engine.perform(LastCommit(b"w")) is None


async def test_what_comes_before_a_step_that_cannot_be_written_down_is_one_record() -> None:
    item = OnDisk()
    steps = [adding(b"1"), adding(b"2"), lambda *_: Decision(None, [UNWRITABLE]), adding(b"never")]
    with pytest.raises(OverflowError):
        await item.engine._executor.run_all(steps)
    assert item.engine.storage.position == 1
    await item.engine.perform(Add(S, [Draft(None, (b"f", b"3"))]))
    assert await item.engine.perform(LastCommit(b"w")) is None
    values = [entry.fields[1] for entry in item.recovered().streams[S].log.range(MIN_ID, MAX_ID)]
    assert values == [b"1", b"2", b"3"]
    await item.stop()


# Waiters


async def test_a_blocked_read_that_raises_is_alone_with_that() -> None:
    engine = Driver()
    await engine.put(1)
    is_wrong = False

    def attempt() -> None:
        if is_wrong:
            raise ValueError("a mistake in a read")

    waiter = Waiter[None]([QueueKey(S, None)], attempt)
    wrong = asyncio.create_task(engine._executor.block(waiter, None))
    right = asyncio.create_task(engine.perform(Read([StreamCursor(S, From.NOW)], wait_ms=None)))
    await asyncio.sleep(0)
    is_wrong = True
    await engine.put(2)
    with pytest.raises(ValueError, match="a mistake in a read"):
        await asyncio.wait_for(wrong, 1)
    [read] = await asyncio.wait_for(right, 1)
    assert [entry.id.ms for entry in read.entries] == [2]
    assert engine.waiter_count == 0


# The end


async def by_itself(engine: Engine) -> None:
    await engine._executor.run(lambda: poisonous(engine.keyspace, 1_000))


async def in_a_transaction(engine: Engine) -> None:
    await engine._executor.run_all([adding(b"2"), poisonous])


@pytest.mark.parametrize("way", [by_itself, in_a_transaction])
async def test_what_cannot_be_applied_ends_the_engine_and_is_never_recorded(way: Any) -> None:
    item = OnDisk()
    engine = item.engine
    await engine.perform(Add(S, [Draft(None, (b"f", b"1"))]))
    reading = asyncio.create_task(engine.perform(Read([StreamCursor(S, From.NOW)], wait_ms=None)))
    await settle()
    with pytest.raises(KeyError):
        await way(engine)
    asks = (length_of(engine, S), engine.perform(Add(S, [Draft(None, (b"f", b"3"))])), reading)
    for ask in asks:
        with pytest.raises(Unavailable, match="the process ends"):
            await ask
    with pytest.raises(ExceptionGroup) as ended:
        await item.run
    assert ended.group_contains(RuntimeError, match="the process ends")
    await engine.close()
    assert item.recovered().streams[S].log.length == 1


async def test_a_failed_step_is_still_a_reply_of_its_own() -> None:
    engine = Driver()

    def refuse(keyspace: Keyspace, now_ms: int) -> Decision[Any]:
        raise Unavailable("not now")

    replies = await engine._executor.run_all([adding(b"1"), refuse, adding(b"2")])
    assert [isinstance(reply, StreamError) for reply in replies] == [False, True, False]
