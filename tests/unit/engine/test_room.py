"""The room of one read is bounded: in bytes, and in names and values, as each takes its time."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.app.redis_syntax.words import Bounds
from headgate.engine.entry import MIN_ID, Draft, Entry
from headgate.engine.errors import StreamError
from headgate.engine.limits import DESCRIBED_MAX, READ_PARTS_MAX
from headgate.engine.replies import Delivery, StreamRead
from headgate.engine.requests.deliveries import GroupCursor, ReadGroup, SumPending
from headgate.engine.requests.entries import Add, Budget, Range, Read, StreamCursor
from headgate.engine.requests.groups import CreateGroup, GroupStart
from headgate.engine.room import ReplyRoom
from tests.unit.driver import Driver, G, S, deliveries, entry_id

COUNT = 10
AT_ONCE = 5
WIDE = (b"f", b"") * (READ_PARTS_MAX // AT_ONCE // 2)
LARGE = 2**24


@pytest.fixture
async def engine() -> Driver:
    """Return an engine with entries of which five have as many names and values as one read."""
    engine = Driver()
    for number in range(1, COUNT + 1):
        await engine.perform(Add(S, [Draft(entry_id(number), WIDE)]))
    await engine.perform(CreateGroup(S, G, GroupStart(MIN_ID)))
    return engine


async def test_a_range_has_so_many_names_and_values(engine: Driver) -> None:
    up = await engine.perform(Range(S, size_bytes_max=LARGE))
    down = await engine.perform(Range(S, reverse=True, size_bytes_max=LARGE))
    everything = await engine.perform(Range(S))

    assert [entry.id.ms for entry in up] == [1, 2, 3, 4, 5]
    assert [entry.id.ms for entry in down] == [10, 9, 8, 7, 6]
    assert len(everything) == COUNT


async def test_a_group_read_has_so_many_names_and_values(engine: Driver) -> None:
    request = ReadGroup(G, b"a", [GroupCursor(S)], size_bytes_max=LARGE)

    new = [deliveries(await engine.perform(request)) for _ in range(2)]
    history = await engine.perform(replace(request, cursors=[GroupCursor(S, MIN_ID)]))
    claimed = await engine.perform(replace(request, consumer=b"b", claim_idle_ms=0))

    first, second = [1, 2, 3, 4, 5], [6, 7, 8, 9, 10]
    assert [[entry.id.ms for entry in entries] for entries in new] == [first, second]
    assert [delivery.id.ms for delivery in deliveries(history)] == first
    # The others were idle for longer.
    assert [delivery.id.ms for delivery in deliveries(claimed)] == second


async def test_commands_have_replies_of_so_many_names_and_values(engine: Driver) -> None:
    runner = CommandRunner(EmbeddedBackend(engine), Bounds(10_000, LARGE))

    reply: Any = await runner.run(b"XREAD STREAMS s 0".split())
    ranged: Any = await runner.run(b"XRANGE s - + COUNT 5".split())

    assert [len(entries) for _, entries in reply] == [AT_ONCE] == [len(ranged)]
    with pytest.raises(StreamError, match=f"{READ_PARTS_MAX} names and values"):
        await runner.run(b"XRANGE s - +".split())


async def counts(engine: Driver, size_bytes_max: int, *streams: bytes) -> list[int]:
    cursors = [StreamCursor(name, MIN_ID) for name in streams]
    reads: list[StreamRead] = await engine.perform(Read(cursors, size_bytes_max=size_bytes_max))
    return [len(read.entries) for read in reads]


async def test_each_stream_of_a_read_has_its_share_and_the_first_entry_of_all_comes() -> None:
    engine = Driver()
    for name in (b"a", b"b", b"c"):
        await engine.perform(Add(name, [Draft(None, (b"f", b"v" * 99))] * 5))
    await engine.perform(Add(b"large", [Draft(None, (b"f", b"v" * 999))]))

    assert await counts(engine, 1000, b"a", b"b", b"c") == [3, 3, 3]
    assert await counts(engine, 1000, b"a") == [5]
    assert await counts(engine, 600, b"a", b"large", b"b") == [2, 1, 0]
    assert await counts(engine, 10, b"large", b"b") == [1, 0]


async def test_each_stream_of_a_read_has_its_share_of_names_and_values(engine: Driver) -> None:
    assert await counts(engine, LARGE, S, S) == [2, 2]
    assert await counts(engine, LARGE, *[S] * 6) == [1, 1, 1, 1, 1, 0]  # a share has room for none


async def test_a_summary_tells_of_some_holders_and_counts_all() -> None:
    engine = Driver()
    await engine.start(*range(1, DESCRIBED_MAX + 3))
    for number in reversed(range(DESCRIBED_MAX + 2)):
        await engine.take(b"%05d" % number, limit=1)

    summary = await engine.perform(SumPending(S, G))

    names = [name for name, _ in summary.consumers]
    assert names == [b"%05d" % number for number in range(DESCRIBED_MAX)]
    assert (summary.holder_count, summary.total) == (DESCRIBED_MAX + 2, DESCRIBED_MAX + 2)


# What a whole reply may hold


SMALL = [Entry(entry_id(number), (b"f", b"v")) for number in range(1, 6)]
"""Two bytes of names and values each."""

GONE = Delivery(entry_id(9), None, 1_234, 7, b"a")


def resp2(value: object) -> bytes:
    """Return a value as RESP2 writes it."""
    match value:
        case None:
            return b"$-1\r\n"
        case int():
            return b":%d\r\n" % value
        case bytes():
            return b"$%d\r\n%b\r\n" % (len(value), value)
        case list() | tuple():
            return b"*%d\r\n" % len(value) + b"".join(map(resp2, value))
    raise AssertionError(value)


WIDE_ENTRIES = [Entry(entry_id(number), WIDE) for number in range(1, COUNT)]


def test_a_reply_takes_in_so_many_entries_of_all_its_streams() -> None:
    room = ReplyRoom(Budget(entries_max=7, size_bytes_max=LARGE))
    assert [room.take([]), room.take(SMALL), room.count] == [0, 5, 2]
    assert [room.limit(None), room.limit(1), room.limit(5)] == [2, 1, 2]
    assert [room.take(SMALL), room.count, room.take(SMALL)] == [2, 0, 0]


@pytest.mark.parametrize(
    ("budget", "entries", "taken"),
    [
        (Budget(100, 4), SMALL, 2),
        (Budget(100, 5), SMALL, 3),  # with the entry that passes it
        (Budget(100, 0), SMALL, 1),  # the first one whatever its size
        (Budget(100, LARGE, 1), SMALL, 1),
        (Budget(100, LARGE), WIDE_ENTRIES, AT_ONCE),
    ],
)
def test_a_reply_has_so_much_room(budget: Budget, entries: list[Entry], taken: int) -> None:
    room = ReplyRoom(budget)
    assert [room.take(entries), room.count, room.take(SMALL)] == [taken, 0, 0]


@pytest.mark.parametrize("count", range(1, len(SMALL)))
def test_a_reply_is_counted_as_it_is_written(count: int) -> None:
    shown = [[b"%d-%d" % entry.id, entry.fields] for entry in SMALL[:count]]
    size_bytes = sum(map(len, map(resp2, shown)))

    assert ReplyRoom(Budget(100, LARGE, size_bytes)).take(SMALL) == count
    assert ReplyRoom(Budget(100, LARGE, size_bytes + 1)).take(SMALL) == count + 1


@pytest.mark.parametrize("with_idle", [False, True])
def test_idle_time_and_count_take_room_where_they_are_shown(with_idle: bool) -> None:
    numbers = [GONE.idle_ms, GONE.delivered_before] if with_idle else []
    size_bytes = len(resp2([b"9-0", None, *numbers]))
    two = [GONE, GONE._replace(id=entry_id(10))]

    assert ReplyRoom(Budget(100, LARGE, size_bytes)).take(two, with_idle=with_idle) == 1
    assert ReplyRoom(Budget(100, LARGE, size_bytes + 1)).take(two, with_idle=with_idle) == 2


async def test_the_streams_of_a_read_are_filled_in_order_until_the_budget_is_spent() -> None:
    engine = Driver()
    for name in (b"a", b"b", b"c"):
        await engine.put(1, 2, 3, stream=name)
    cursors = [StreamCursor(name, MIN_ID) for name in (b"a", b"b", b"c")]

    reads = await engine.perform(Read(cursors, budget=Budget(5, LARGE)))

    assert [(read.stream, [entry.id.ms for entry in read.entries]) for read in reads] == [
        (b"a", [1, 2, 3]),
        (b"b", [1, 2]),
    ]
    assert [read.next_after for read in reads] == [entry_id(3), entry_id(2)]


async def test_what_a_group_read_has_no_room_for_stays_new() -> None:
    engine = Driver()
    for name in (b"a", b"b", b"c"):
        await engine.start(1, 2, 3, stream=name)
    cursors = [GroupCursor(name) for name in (b"a", b"b", b"c")]
    request = ReadGroup(G, b"x", cursors, budget=Budget(5, LARGE))

    first = await engine.perform(request)
    later = await engine.perform(request)

    assert [[delivery.id.ms for delivery in read.deliveries] for read in first] == [
        [1, 2, 3],
        [1, 2],
        [],
    ]
    assert [[delivery.id.ms for delivery in read.deliveries] for read in later] == [
        [],
        [3],
        [1, 2, 3],
    ]
