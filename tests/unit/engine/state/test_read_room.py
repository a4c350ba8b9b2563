"""What one read takes in is bounded: in bytes, and in names and values, as each takes its time."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.app.redis_syntax.runs import CommandRunner
from headgate.app.redis_syntax.words import Bounds
from headgate.engine.entry import MIN_ID, Draft
from headgate.engine.errors import StreamError
from headgate.engine.limits import DESCRIBED_MAX, READ_PARTS_MAX
from headgate.engine.replies import StreamRead
from headgate.engine.requests import GroupCursor, GroupRequest, GroupStart, StreamCursor
from tests.unit.driver import Driver, G, S, deliveries, entry_id

COUNT = 10
AT_ONCE = 2
WIDE = (b"f", b"") * (READ_PARTS_MAX // AT_ONCE // 2)
LARGE = 2**24


@pytest.fixture
async def engine() -> Driver:
    """Return an engine with entries of which two have as many names and values as one read."""
    engine = Driver()
    for number in range(1, COUNT + 1):
        await engine.add(S, [Draft(entry_id(number), WIDE)])
    await engine.create_group(S, G, GroupStart(MIN_ID))
    return engine


async def test_a_range_has_so_many_names_and_values(engine: Driver) -> None:
    up = await engine.range(S, size_bytes_max=LARGE)
    down = await engine.reverse_range(S, size_bytes_max=LARGE)
    everything = await engine.range(S)

    assert [one.id.ms for one in up] == [1, 2]
    assert [one.id.ms for one in down] == [10, 9]
    assert len(everything) == COUNT


async def test_a_group_read_has_so_many_names_and_values(engine: Driver) -> None:
    request = GroupRequest(G, b"a", [GroupCursor(S)], size_bytes_max=LARGE)

    new = [deliveries(await engine.read_group(request)) for _ in range(2)]
    history = await engine.read_group(request._replace(cursors=[GroupCursor(S, MIN_ID)]))
    claimed = await engine.read_group(request._replace(consumer=b"b", claim_idle_ms=0))

    assert [[one.id.ms for one in some] for some in new] == [[1, 2], [3, 4]]
    assert [one.id.ms for one in deliveries(history)] == [1, 2]
    assert [one.id.ms for one in deliveries(claimed)] == [3, 4]  # they were idle for longer


async def test_commands_have_replies_of_so_many_names_and_values(engine: Driver) -> None:
    runner = CommandRunner(engine, Bounds(10_000, LARGE))

    found: Any = await runner.run(b"XREAD STREAMS s 0".split())
    ranged: Any = await runner.run(b"XRANGE s - + COUNT 2".split())

    assert [len(entries) for _, entries in found] == [AT_ONCE] == [len(ranged)]
    with pytest.raises(StreamError, match=f"{READ_PARTS_MAX} names and values"):
        await runner.run(b"XRANGE s - +".split())


async def counts(engine: Driver, size_bytes_max: int, *streams: bytes) -> list[int]:
    cursors = [StreamCursor(name, MIN_ID) for name in streams]
    reads: list[StreamRead] = await engine.read(cursors, size_bytes_max=size_bytes_max)
    return [len(one.entries) for one in reads]


async def test_each_stream_of_a_read_has_its_share_and_the_first_entry_of_all_comes() -> None:
    engine = Driver()
    for name in (b"a", b"b", b"c"):
        await engine.add(name, [Draft(None, (b"f", b"v" * 99))] * 5)
    await engine.add(b"large", [Draft(None, (b"f", b"v" * 999))])

    assert await counts(engine, 1000, b"a", b"b", b"c") == [3, 3, 3]
    assert await counts(engine, 1000, b"a") == [5]
    assert await counts(engine, 600, b"a", b"large", b"b") == [2, 1, 0]
    assert await counts(engine, 10, b"large", b"b") == [1, 0]


async def test_each_stream_of_a_read_has_its_share_of_names_and_values(engine: Driver) -> None:
    assert await counts(engine, LARGE, S, S) == [1, 1]
    assert await counts(engine, LARGE, S, S, S) == [1, 1, 0]  # a share has no room for any


async def test_a_summary_tells_of_some_holders_and_counts_all() -> None:
    engine = Driver()
    await engine.start(*range(1, DESCRIBED_MAX + 3))
    for number in reversed(range(DESCRIBED_MAX + 2)):
        await engine.take(b"%05d" % number, limit=1)

    summary = await engine.pending_summary(S, G)

    names = [name for name, _ in summary.consumers]
    assert names == [b"%05d" % number for number in range(DESCRIBED_MAX)]
    assert (summary.holder_count, summary.total) == (DESCRIBED_MAX + 2, DESCRIBED_MAX + 2)
