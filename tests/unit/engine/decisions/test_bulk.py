"""Shares of many streams, and waiting for something to read."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from headgate.engine.commands import BatchCommitted, decode
from headgate.engine.engine import Engine
from headgate.engine.entry import MIN_ID, Draft, EntryId
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.limits import WRITER_SILENT_MS_MAX, WRITERS_MAX
from headgate.engine.replies import Commit
from headgate.engine.requests.bulk import BulkCursor, CommitBatch, LastCommit, PlanRead
from headgate.engine.requests.entries import Add, From
from headgate.engine.requests.streams import DeleteStream
from headgate.engine.room import shares
from headgate.engine.state.idempotency import Writers
from tests.virtual_time import ManualClock

ROW = Draft(None, (b"k", b"v"))


@given(st.lists(st.integers(0, 50), max_size=8), st.integers(0, 120))
def test_shares_are_in_proportion_and_for_each_backlog(backlogs: list[int], limit: int) -> None:
    given_ = shares(backlogs, limit)

    assert sum(given_) == min(limit, sum(backlogs))
    assert all(share <= backlog for share, backlog in zip(given_, backlogs, strict=True))
    waiting = sum(backlog > 0 for backlog in backlogs)
    if waiting <= limit:
        assert all(given_[at] for at, backlog in enumerate(backlogs) if backlog)
    for share, backlog in zip(given_, backlogs, strict=True):
        fair = limit * backlog / max(sum(backlogs), limit, 1)
        assert abs(share - fair) <= 1 + waiting


def test_what_is_large_gets_what_is_left() -> None:
    assert shares([1000, 10, 1], 101) == [98, 2, 1]
    assert shares([5, 5, 5], 2) == [1, 1, 0]


async def test_a_plan_waits_for_any_of_its_streams_the_missing_ones_too() -> None:
    engine = Engine(MemoryStorage())
    await engine.perform(Add(b"a", [ROW]))
    cursors = [BulkCursor(b"a", From.NOW), BulkCursor(b"b", MIN_ID)]
    waiting = asyncio.create_task(engine.perform(PlanRead(cursors, wait_ms=60_000)))
    while not engine.waiter_count:
        await asyncio.sleep(0)

    await engine.perform(Add(b"c", [ROW]))  # nobody's concern
    assert not waiting.done()
    await engine.perform(Add(b"b", [ROW, ROW]))

    quiet, woken = await waiting
    assert (quiet.entries, quiet.end) == (0, quiet.after)
    assert (woken.entries, woken.backlog) == (2, 2)


async def test_a_stream_that_began_anew_is_counted_from_its_beginning() -> None:
    engine = Engine(MemoryStorage())
    await engine.perform(Add(b"a", [Draft(EntryId(9, 0), ROW.fields)]))
    [before] = await engine.perform(PlanRead([BulkCursor(b"a", MIN_ID)]))
    await engine.perform(DeleteStream(b"a"))
    await engine.perform(Add(b"a", [Draft(EntryId(5, 0), ROW.fields)]))

    [after] = await engine.perform(PlanRead([BulkCursor(b"a", EntryId(9, 0), before.epoch)]))

    assert after.epoch != before.epoch
    assert (after.after, after.end, after.entries) == (MIN_ID, EntryId(5, 0), 1)


async def test_a_batch_is_one_record_that_ends_with_who_wrote_it() -> None:
    storage = MemoryStorage()
    engine = Engine(storage, clock=ManualClock(50))
    await engine.perform(Add(b"a", [ROW]))

    committed = await engine.perform(CommitBatch(b"w", 3, {b"b": [ROW], b"a": [ROW, ROW]}))
    await engine.perform(CommitBatch(b"w", 3, {b"a": [ROW]}))

    assert [(stream.stream, stream.entries) for stream in committed.streams] == [
        (b"b", 1),
        (b"a", 2),
    ]
    _, record = storage.records
    assert decode(record)[-1] == BatchCommitted(b"w", 3, 50)
    assert await engine.perform(LastCommit(b"w")) == Commit(3, 50)


def test_writers_are_forgotten_by_number_and_by_time_the_silent_first() -> None:
    writers = Writers()
    for number in range(WRITERS_MAX):
        writers.commit(b"%d" % number, 0, 0)
    writers.commit(b"0", 1, 0)
    writers.commit(b"new", 0, 0)
    assert len(writers.by_name) == WRITERS_MAX
    assert b"1" not in writers.by_name
    assert writers.by_name[b"0"] == Commit(1, 0)

    writers.commit(b"new", 1, WRITER_SILENT_MS_MAX)
    assert len(writers.by_name) == WRITERS_MAX
    writers.commit(b"new", 2, WRITER_SILENT_MS_MAX + 1)
    assert list(writers.by_name) == [b"new"]
