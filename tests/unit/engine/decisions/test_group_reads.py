"""Decisions about reads of a group."""

from headgate.engine.entry import MIN_ID, Draft
from headgate.engine.requests.deliveries import GroupCursor, ReadGroup
from headgate.engine.requests.entries import Add, Range
from headgate.engine.requests.groups import CreateGroup, GroupStart
from tests.unit.driver import Driver, G, S


async def test_a_read_may_be_bounded_in_bytes_but_always_brings_one_entry() -> None:
    engine = Driver()
    await engine.perform(CreateGroup(S, G, GroupStart(MIN_ID), create_stream=True))
    ids = (await engine.perform(Add(S, [Draft(None, (b"k", b"x" * 100)) for _ in range(5)]))).ids
    request = ReadGroup(G, b"c", [GroupCursor(S)], size_bytes_max=250)

    sizes = []
    while (read := (await engine.perform(request))[0]).deliveries:
        sizes.append(len(read.deliveries))
    tiny = await engine.perform(Range(S, size_bytes_max=1))

    assert sizes == [2, 2, 1]
    assert [entry.id for entry in tiny] == ids[:1]
