"""Long work is done in parts: others have their turn, and the outcome is the same."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from headgate.engine.decisions import Decision, in_parts
from headgate.engine.entry import MIN_ID, Draft
from headgate.engine.errors import Invalid
from headgate.engine.limits import (
    DELETED_AT_ONCE_MAX,
    ENTRY_FIELDS_MAX,
    LISTED_AT_ONCE_MAX,
    LOOKUPS_AT_ONCE_MAX,
    NAME_RANGES_AT_ONCE_MAX,
    SETTLED_AT_ONCE_MAX,
)
from headgate.engine.replies import Deletion, Outcome
from headgate.engine.requests import Request
from headgate.engine.requests.deliveries import (
    Ack,
    Claim,
    Extend,
    GiveBack,
    GroupCursor,
    Nack,
    NackMode,
    ReadGroup,
    SumPending,
)
from headgate.engine.requests.entries import Add, Delete, Range, References, Trim, TrimTo
from headgate.engine.requests.groups import (
    CreateConsumer,
    CreateGroup,
    DeleteConsumer,
    GroupStart,
    ListConsumers,
    ListGroups,
)
from headgate.engine.requests.keyspace import (
    CountStreams,
    DeleteStreams,
    ListNames,
    NameFilter,
    ScanNames,
)
from headgate.engine.requests.streams import DeleteStream, DescribeStream, ListStreams
from headgate.engine.state.keyspace import Keyspace
from tests.unit.driver import Driver, G, S, entry_id

T = TypeVar("T")

COUNT = 3 * SETTLED_AT_ONCE_MAX + 7
IDS = [entry_id(number) for number in range(1, COUNT + 1)]
LOOKUPS = -(-COUNT // LOOKUPS_AT_ONCE_MAX)
SETTLED = -(-COUNT // SETTLED_AT_ONCE_MAX)

READ = ReadGroup(G, b"a", [GroupCursor(S)])


@pytest.fixture
async def engine() -> Driver:
    engine = Driver()
    await engine.start(*range(1, COUNT + 1))
    while (await engine.take())[0].deliveries:
        pass
    return engine


async def turns_during(work: Coroutine[Any, Any, T]) -> tuple[T, int]:
    """Return the outcome of some work, and how often somebody else had a turn meanwhile."""
    working, turns = asyncio.ensure_future(work), 0
    while not working.done():
        turns += 1
        await asyncio.sleep(0)
    return working.result(), turns


MANY: list[tuple[Request[Any], Any, int, int]] = [
    (Ack(S, G, [*IDS, IDS[0]], b"a"), [Outcome.ACKED] * COUNT + [Outcome.NOT_PENDING], SETTLED, 0),
    (Delete(S, [*IDS, IDS[0]]), [Deletion.DELETED] * COUNT + [Deletion.NOT_FOUND], LOOKUPS, COUNT),
    (GiveBack(S, G, b"a", dict.fromkeys(IDS, 1)), None, SETTLED, 0),
    (Extend(S, G, IDS, b"a"), [Outcome.EXTENDED] * COUNT, SETTLED, COUNT),
    (Nack(S, G, IDS, NackMode.FAIL), [Outcome.RELEASED] * COUNT, LOOKUPS, 0),
    (DeleteConsumer(S, G, b"a", release=True), COUNT, SETTLED, 0),
    (DeleteConsumer(S, G, b"a", release=False), COUNT, SETTLED, 0),
    (Claim(S, G, b"b", IDS, 0), IDS, LOOKUPS, COUNT),
    (replace(READ, acked=IDS), [[]], SETTLED - 1, 0),  # the last part goes with the read
    (Trim(S, TrimTo(max_length=5, references=References.DELETE)), COUNT - 5, SETTLED, 5),
    (Trim(S, TrimTo(max_length=5)), COUNT - 5, 1, COUNT),  # whole chunks go, without a look
]
"""Requests about many entries: the reply, how often others have a turn, and what is held then."""


@pytest.mark.parametrize(
    ("request_", "reply", "parts", "held"), MANY, ids=lambda each: str(each)[:30]
)
async def test_others_have_their_turn_during_long_work(
    engine: Driver, request_: Request[Any], reply: Any, parts: int, held: int
) -> None:
    answer, turns = await turns_during(engine.perform(request_))
    if isinstance(request_, Claim):
        answer = [delivery.id for delivery in answer.deliveries]
    if isinstance(request_, ReadGroup):
        answer = [read.deliveries for read in answer]
    assert answer == reply
    assert turns >= parts
    summary = await engine.perform(SumPending(S, G))
    assert sum(count for _, count in summary.consumers) == held


async def test_what_is_appended_while_a_trim_goes_on_is_kept(engine: Driver) -> None:
    trimming = asyncio.ensure_future(
        engine.perform(Trim(S, TrimTo(max_length=0, references=References.DELETE)))
    )
    await asyncio.sleep(0)
    await engine.put(COUNT + 1)

    assert await trimming == COUNT
    assert [entry.id for entry in await engine.perform(Range(S))] == [entry_id(COUNT + 1)]


async def test_a_stream_may_go_while_it_is_trimmed(engine: Driver) -> None:
    trimming = asyncio.ensure_future(
        engine.perform(Trim(S, TrimTo(max_length=0, references=References.DELETE)))
    )
    await asyncio.sleep(0)
    await engine.perform(DeleteStream(S))

    assert 0 < await trimming < COUNT


async def test_a_transaction_refuses_what_would_be_done_in_parts(engine: Driver) -> None:
    [refused] = await engine.perform_all([DeleteConsumer(S, G, b"a", release=False)])

    assert str(refused) == "this changes too much for a transaction: run it separately"
    assert (await engine.perform(SumPending(S, G))).total == COUNT


async def test_deleting_many_streams_lets_others_have_their_turn(engine: Driver) -> None:
    names = [b"%d" % number for number in range(3 * DELETED_AT_ONCE_MAX)]
    for name in names:
        await engine.put(1, stream=name)

    deleting = engine.perform(DeleteStreams([*names, names[0], b"none"]))
    deleted, turns = await turns_during(deleting)

    assert deleted == len(names)
    assert turns >= 3
    assert [stream.name for stream in await engine.perform(ListStreams())] == [S]


async def test_listing_many_lets_others_have_their_turn(engine: Driver) -> None:
    names = [b"%05d" % number for number in range(2 * LISTED_AT_ONCE_MAX + 5)]
    for name in names:
        await engine.put(1, stream=name)
        await engine.perform(CreateGroup(S, name, GroupStart(MIN_ID)))
        await engine.perform(CreateConsumer(S, G, name))

    streams, for_streams = await turns_during(engine.perform(ListStreams(limit=len(names))))
    groups, for_groups = await turns_during(engine.perform(ListGroups(S, after=names[0])))
    consumers, for_consumers = await turns_during(
        engine.perform(ListConsumers(S, G, limit=len(names) - 1))
    )

    assert [stream.name for stream in streams] == names
    assert [group.name for group in groups] == [*names[1:], G]
    assert [consumer.name for consumer in consumers] == names[:-1]
    assert min(for_streams, for_groups, for_consumers) >= 3


@pytest.mark.parametrize(
    "request_", [ListStreams(), ListNames(), ScanNames(0, 9), CountStreams()], ids=repr
)
async def test_a_large_filter_lets_others_in(engine: Driver, request_: Request[Any]) -> None:
    only = NameFilter(frozenset(b"%05d" % at for at in range(3 * NAME_RANGES_AT_ONCE_MAX)))

    _, turns = await turns_during(engine.perform(replace(request_, only=only)))

    assert turns >= 3


async def test_a_list_goes_on_although_what_is_listed_changes(engine: Driver) -> None:
    names = [b"%05d" % number for number in range(LISTED_AT_ONCE_MAX + 5)]
    for name in names:
        await engine.perform(CreateConsumer(S, G, name))

    listing = asyncio.ensure_future(engine.perform(ListConsumers(S, G)))
    await asyncio.sleep(0)
    await engine.perform(DeleteConsumer(S, G, names[LISTED_AT_ONCE_MAX - 1], release=True))
    await engine.perform(DeleteConsumer(S, G, names[-1], release=True))

    assert [named.name for named in await listing] == [*names[:-1], b"a"]


async def test_an_entry_with_too_many_fields_is_refused(engine: Driver) -> None:
    fields = (b"k", b"v") * (ENTRY_FIELDS_MAX + 1)

    with pytest.raises(Invalid, match=f"at most {ENTRY_FIELDS_MAX} fields"):
        await engine.perform(Add(b"t", [Draft(None, fields)]))
    await engine.perform(Add(b"t", [Draft(None, fields[2:])]))

    assert (await engine.perform(DescribeStream(b"t"))).length == 1


def test_the_reply_is_shaped_once_however_many_parts() -> None:
    shaped: list[list[int]] = []

    def shape(numbers: list[int]) -> int:
        shaped.append(numbers)
        return len(numbers)

    decision = in_parts(
        Keyspace(), 0, range(7), 2, lambda keyspace, portion, now_ms: Decision([*portion], [])
    ).replied_as(shape)
    while decision.next_part is not None:
        decision = decision.next_part(Keyspace(), 0)

    assert (decision.reply, shaped) == (7, [[*range(7)]])


@pytest.mark.parametrize("count", [1, 7])
def test_nothing_of_a_decision_waits_for_the_garbage_collector(count: int) -> None:
    keyspace = Keyspace()
    gc.collect()
    gc.disable()
    try:
        decision = in_parts(
            keyspace, 0, range(count), 2, lambda _, portion, now_ms: Decision([*portion], [])
        )
        while decision.next_part is not None:
            decision = decision.next_part(keyspace, 0)
        del decision
        garbage_count = gc.collect()
    finally:
        gc.enable()
    assert garbage_count == 0
