"""Groups over patterns: one consumer reads the groups of one name in all streams that match."""

import asyncio
from functools import partial

import pytest
from msgspec.structs import replace

from headgate.app.backends.port import Ability, Backend
from headgate.engine.config import FieldName, GroupPolicy, Patch
from headgate.engine.entry import MIN_ID, Draft
from headgate.engine.errors import Invalid, StreamError
from headgate.engine.replies import GroupsRead, GroupState, Outcome
from headgate.engine.requests.deliveries import (
    Ack,
    GroupCursor,
    ListPending,
    MissingGroups,
    Nack,
    NackMode,
    ReadGroup,
    ReadGroups,
)
from headgate.engine.requests.entries import Add
from headgate.engine.requests.groups import (
    CreateGroup,
    DescribeGroup,
    DestroyGroup,
    GroupStart,
    ListConsumers,
    UpdateGroup,
)
from headgate.engine.requests.keyspace import DeleteStreams, NameFilter, RenameStream
from headgate.engine.requests.streams import DescribeStream
from tests.conditions import eventually
from tests.contract.calls import ANA, BEN, G, blocked

pytestmark = pytest.mark.needs(Ability.PATTERNS)

ORDERS = b"orders.*"
FROM_START = MissingGroups(GroupStart(MIN_ID))
ANY = ReadGroups(ORDERS, G, ANA, create=FROM_START)


async def add(backend: Backend, name: str, *texts: str) -> None:
    drafts = [Draft(None, (b"n", text.encode())) for text in texts]
    await backend.perform(Add(b"orders." + name.encode(), drafts))


def texts(read: GroupsRead) -> list[str]:
    return [
        delivery.fields[1].decode()
        for each in read.reads
        for delivery in each.deliveries
        if delivery.fields is not None
    ]


def streams(read: GroupsRead) -> list[str]:
    return [each.stream.decode().removeprefix("orders.") for each in read.reads]


async def taken(backend: Backend, request: ReadGroups) -> list[str]:
    return texts(await backend.perform(request))


async def all_of(backend: Backend, request: ReadGroups) -> list[str]:
    """Return everything that there is now, read by read."""
    came: list[str] = []
    while more := await taken(backend, request):
        came += more
    return came


async def ack(backend: Backend, read: GroupsRead, consumer: bytes = ANA) -> None:
    for each in read.reads:
        ids = [delivery.id for delivery in each.deliveries]
        await backend.perform(Ack(each.stream, G, ids, consumer))


async def test_the_group_of_each_stream_that_matches_is_read(backend: Backend) -> None:
    await add(backend, "a", "1", "2")
    await add(backend, "b", "3")
    await backend.perform(Add(b"bills.a", [Draft(None, (b"n", b"other"))]))
    read = await backend.perform(ANY)
    assert (streams(read), texts(read)) == (["a", "b"], ["1", "2", "3"])
    assert (read.pending_count, read.state) == (3, GroupState.CAUGHT_UP)
    await ack(backend, read)
    assert await backend.perform(ANY) == GroupsRead([], 0, GroupState.CAUGHT_UP)
    assert not await backend.perform(ListPending(b"orders.a", G))


async def test_without_create_a_stream_that_has_no_such_group_has_nothing(backend: Backend) -> None:
    await add(backend, "a", "1")
    await add(backend, "b", "2")
    request = replace(ANY, create=None)
    assert await taken(backend, request) == []
    await backend.perform(CreateGroup(b"orders.b", G, GroupStart(MIN_ID)))
    assert await taken(backend, request) == ["2"]


async def test_groups_are_created_as_the_request_says(backend: Backend) -> None:
    await add(backend, "a", "before")
    policy = GroupPolicy(max_pending=2)
    request = replace(ANY, create=MissingGroups(GroupStart(None), policy))
    assert await taken(backend, request) == []
    info = await backend.perform(DescribeGroup(b"orders.a", G))
    assert info.policy == policy
    await add(backend, "a", "after")
    await add(backend, "new", "its first")
    assert sorted(await all_of(backend, request)) == ["after", "its first"]


async def test_no_group_is_created_where_its_policy_moves_dead_letters_to(backend: Backend) -> None:
    await add(backend, "a", "1")
    await add(backend, "dead", "letter")
    policy = GroupPolicy(max_deliveries=1, dead_letter_stream=b"orders.dead")
    request = replace(ANY, create=MissingGroups(GroupStart(MIN_ID), policy), claim_idle_ms=0)
    assert await taken(backend, request) == ["1"]
    assert await taken(backend, request) == []  # the one that was delivered once is a dead letter
    assert not await backend.perform(ListPending(b"orders.a", G))


async def test_a_consumer_is_known_only_where_it_got_something(backend: Backend) -> None:
    await add(backend, "a", "1")
    await backend.perform(CreateGroup(b"orders.empty", G, GroupStart(MIN_ID), create_stream=True))
    await backend.perform(ANY)
    assert await backend.perform(ListConsumers(b"orders.empty", G)) == []


async def test_streams_take_turns(backend: Backend) -> None:
    for name in "abc":
        await add(backend, name, *(f"{name}{at}" for at in range(4)))
    request = replace(ANY, limit=3)
    assert [await taken(backend, request) for _ in range(2)] == [
        ["a0", "b0", "c0"],
        ["a1", "b1", "c1"],
    ]
    one = replace(request, limit=1, consumer=BEN)
    assert [await taken(backend, one) for _ in range(3)] == [["a2"], ["b2"], ["c2"]]


async def test_a_stream_with_a_weight_gives_so_many_in_its_turn(backend: Backend) -> None:
    for name in ("a", "b"):
        await add(backend, name, *(f"{name}{at}" for at in range(9)))
    request = replace(ANY, limit=1, weights={b"orders.a": 3})
    came = [name for _ in range(8) for name in await taken(backend, request)]
    assert came == ["a0", "a1", "a2", "b0", "a3", "a4", "a5", "b1"]
    assert await taken(backend, replace(request, limit=4)) == ["a6", "a7", "a8", "b2"]


async def test_a_lone_stream_is_read_at_full_speed(backend: Backend) -> None:
    await add(backend, "a", *map(str, range(50)))
    assert len(await taken(backend, replace(ANY, limit=50))) == 50


async def test_a_read_has_at_most_so_many_bytes_and_one_entry(backend: Backend) -> None:
    for name in "abc":
        await add(backend, name, "x" * 100)
    request = replace(ANY, size_bytes_max=150)
    assert [len(await taken(backend, request)) for _ in range(3)] == [2, 1, 0]
    await add(backend, "a", "y" * 1000)
    assert len(await taken(backend, request)) == 1


async def test_a_wait_ends_with_the_first_append_to_any_stream(backend: Backend) -> None:
    await add(backend, "a")
    reads = [backend.perform(replace(ANY, consumer=each, wait_ms=None)) for each in (ANA, BEN)]
    first, second = await blocked(backend, *reads)
    await add(backend, "new", "1")
    assert texts(await first) == ["1"]
    assert not second.done()
    await add(backend, "newer", "2")
    assert texts(await second) == ["2"]


async def test_a_wait_is_over_in_time(backend: Backend) -> None:
    assert await taken(backend, replace(ANY, wait_ms=1)) == []
    assert not backend.waiter_count


async def test_a_wait_ends_when_a_pending_entry_may_be_claimed(backend: Backend) -> None:
    await add(backend, "a", "1")
    assert await taken(backend, ANY) == ["1"]
    assert await taken(backend, replace(ANY, consumer=BEN, claim_idle_ms=20)) in ([], ["1"])
    read = await backend.perform(replace(ANY, consumer=BEN, claim_idle_ms=20, wait_ms=None))
    assert texts(read) == ["1"]


async def test_what_is_given_back_goes_to_the_next_consumer(backend: Backend) -> None:
    await add(backend, "a", "1")
    read = await backend.perform(ANY)
    [waiting] = await blocked(backend, backend.perform(replace(ANY, consumer=BEN, wait_ms=None)))
    ids = [read.reads[0].deliveries[0].id]
    await backend.perform(Nack(b"orders.a", G, ids, NackMode.SILENT, consumer=ANA))
    assert texts(await waiting) == ["1"]


async def test_a_nack_with_a_delay_wakes_when_it_is_due(backend: Backend) -> None:
    await add(backend, "a", "1")
    read = await backend.perform(ANY)
    ids = [read.reads[0].deliveries[0].id]
    await backend.perform(Nack(b"orders.a", G, ids, NackMode.FAIL, delay_ms=30))
    assert await taken(backend, replace(ANY, wait_ms=None)) == ["1"]


async def test_credit_counts_over_all_streams(backend: Backend) -> None:
    for name in "abc":
        await add(backend, name, f"{name}0", f"{name}1")
    request = replace(ANY, max_pending=4)
    read = await backend.perform(request)
    assert (len(texts(read)), read.pending_count, read.state) == (4, 4, GroupState.MAX_PENDING)
    assert await taken(backend, request) == []
    assert len(await taken(backend, replace(request, consumer=BEN))) == 2
    for each in read.reads:
        for delivery in each.deliveries:
            outcome = await backend.perform(Ack(each.stream, G, [delivery.id]))
            assert outcome == [Outcome.ACKED]
    await add(backend, "d", *"12345")
    assert len(await taken(backend, request)) == 4


async def test_a_full_consumer_waits_until_it_holds_less(backend: Backend) -> None:
    await add(backend, "a", "1", "2")
    request = replace(ANY, max_pending=1)
    read = await backend.perform(request)
    [full] = await blocked(backend, backend.perform(replace(request, wait_ms=None)))
    await add(backend, "b", "3")
    assert await taken(backend, replace(request, consumer=BEN)) == ["2"]
    assert not full.done()
    await ack(backend, read)
    assert texts(await full) == ["3"]


async def test_a_policy_that_fills_a_consumer_in_one_stream_leaves_the_others(
    backend: Backend,
) -> None:
    await add(backend, "a", "1", "2")
    request = replace(ANY, create=MissingGroups(GroupStart(MIN_ID), GroupPolicy(max_pending=1)))
    read = await backend.perform(request)
    assert texts(read) == ["1"]
    first, second = await blocked(
        backend,
        backend.perform(replace(request, wait_ms=None)),
        backend.perform(replace(request, wait_ms=None)),
    )
    await add(backend, "b", "3")
    assert texts(await first) == ["3"]
    assert not second.done()
    await ack(backend, read)
    assert texts(await second) == ["2"]


async def test_pauses_and_filters_hold_for_each_stream(backend: Backend) -> None:
    await add(backend, "a", "1")
    await add(backend, "b", "2")
    await backend.perform(
        CreateGroup(
            b"orders.a", G, GroupStart(MIN_ID), policy=GroupPolicy(filters='{"exact": {"n": "9"}}')
        )
    )
    paused = GroupPolicy(paused_until_ms=2**50)
    await backend.perform(CreateGroup(b"orders.b", G, GroupStart(MIN_ID), policy=paused))
    [waiting] = await blocked(backend, backend.perform(replace(ANY, wait_ms=None)))
    await add(backend, "a", "8", "9")
    assert texts(await waiting) == ["9"]
    [waiting] = await blocked(backend, backend.perform(replace(ANY, wait_ms=None)))
    patch = Patch.of(GroupPolicy, paused_until_ms=None)
    await backend.perform(UpdateGroup(b"orders.b", G, policy=patch))
    assert texts(await waiting) == ["2"]


async def test_the_order_by_key_holds_within_each_stream(backend: Backend) -> None:
    policy = GroupPolicy(key_field=FieldName(b"k"), key_pending_max=1)
    request = replace(ANY, create=MissingGroups(GroupStart(MIN_ID), policy))
    for name in (b"orders.a", b"orders.b"):
        drafts = [Draft(None, (b"n", each, b"k", b"same")) for each in (b"1", b"2")]
        await backend.perform(Add(name, drafts))
    read = await backend.perform(request)
    assert texts(read) == ["1", "1"]
    [waiting] = await blocked(backend, backend.perform(replace(request, wait_ms=None)))
    await ack(backend, read._replace(reads=read.reads[1:]))
    assert (streams(await waiting), texts(await waiting)) == (["b"], ["2"])


async def test_others_may_read_the_same_group_of_one_stream(backend: Backend) -> None:
    await add(backend, "a", *map(str, range(6)))
    assert await taken(backend, replace(ANY, limit=2)) == ["0", "1"]
    [read] = await backend.perform(ReadGroup(G, BEN, [GroupCursor(b"orders.a")], limit=2))
    assert len(read.deliveries) == 2
    assert await taken(backend, ANY) == ["4", "5"]


async def test_streams_and_groups_come_and_go(backend: Backend) -> None:
    await add(backend, "a", "1")
    await add(backend, "b", "2")
    assert await all_of(backend, ANY) == ["1", "2"]
    await backend.perform(DestroyGroup(b"orders.a", G))
    assert await all_of(backend, ANY) == ["1"]  # it is created again, and begins anew
    await backend.perform(DeleteStreams([b"orders.a"]))
    await backend.perform(Add(b"bills.c", [Draft(None, (b"n", b"3"))]))
    assert await all_of(backend, ANY) == []
    await backend.perform(RenameStream(b"bills.c", b"orders.c"))
    assert await all_of(backend, ANY) == ["3"]
    await backend.perform(RenameStream(b"orders.b", b"orders.d"))
    read = await backend.perform(replace(ANY, max_pending=3))
    assert (texts(read), read.pending_count) == ([], 2)  # of `c`, and of `d`, with its group


async def test_a_cancelled_read_gives_back_what_it_got(backend: Backend) -> None:
    [waiting] = await blocked(backend, backend.perform(replace(ANY, wait_ms=None)))
    adding = asyncio.create_task(add(backend, "a", "1"))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    await adding
    assert not backend.waiter_count
    if waiting.cancelled():
        assert await taken(backend, replace(ANY, consumer=BEN, wait_ms=None)) == ["1"]


async def test_a_temporary_consumer_goes_with_a_read_that_is_cancelled(backend: Backend) -> None:
    await add(backend, "a", "1")
    await backend.perform(CreateGroup(b"orders.a", G, GroupStart(MIN_ID)))
    for step in range(80):
        reading = asyncio.create_task(backend.perform(replace(ANY, is_temporary=True)))
        for _ in range(step):
            await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait([reading])
        if not reading.cancelled():  # it was faster
            assert texts(reading.result()) == ["1"]
            break
        consumers = partial(backend.perform, ListConsumers(b"orders.a", G))
        await eventually(consumers, lambda known: known == [])


async def test_only_streams_that_may_be_read_are_read_and_get_groups(backend: Backend) -> None:
    for name in ("x", "ann.1", "ben.1"):
        await add(backend, name, name)
    only = NameFilter(frozenset({b"orders.x"}), (b"orders.ann.",))
    creates = FROM_START._replace(only=NameFilter(prefixes=(b"orders.ann.",)))
    request = replace(ANY, only=only, create=creates)
    assert await taken(backend, request) == ["ann.1"]
    assert await taken(backend, replace(request, create=FROM_START)) == ["x"]
    with pytest.raises(StreamError):
        await backend.perform(DescribeGroup(b"orders.ben.1", G))


async def test_what_a_consumer_holds_is_read_again_by_name_and_id(backend: Backend) -> None:
    for name in "abc":
        await add(backend, name, f"{name}0", f"{name}1")
    await backend.perform(ANY)
    request = replace(ANY, own_after=GroupCursor(b""), limit=4)
    read = await backend.perform(request)
    assert texts(read) == ["a0", "a1", "b0", "b1"]
    last = GroupCursor(read.reads[-1].stream, read.reads[-1].deliveries[-1].id)
    read = await backend.perform(replace(request, own_after=last))
    assert texts(read) == ["c0", "c1"]
    last = GroupCursor(read.reads[-1].stream, read.reads[-1].deliveries[-1].id)
    assert await taken(backend, replace(request, own_after=last)) == []
    assert await taken(backend, replace(request, consumer=BEN)) == []


@pytest.mark.parametrize(
    "change",
    [
        {"pattern": b"a" * 257},
        {"weights": {b"%d" % at: 1 for at in range(101)}},
        {"weights": {b"orders.a": 0}},
        {"weights": {b"orders.a": 101}},
    ],
)
async def test_bad_requests_are_refused(backend: Backend, change: dict[str, object]) -> None:
    with pytest.raises(Invalid) as caught:
        await backend.perform(replace(ANY, **change))
    assert caught.value.location == (next(iter(change)),)


async def test_streams_whose_groups_are_fair_come_too(backend: Backend) -> None:
    policy = GroupPolicy(fair_field=FieldName(b"n"), key_field=FieldName(b"n"))
    create = MissingGroups(GroupStart(MIN_ID), policy)
    await add(backend, "a", "x", "x", "x", "y")
    await backend.perform(CreateGroup(b"orders.a", G, GroupStart(MIN_ID), policy=policy))
    request = replace(ANY, create=create)
    read = await backend.perform(request)
    assert texts(read) == ["x", "y"]
    [waiting] = await blocked(backend, taken(backend, replace(request, consumer=BEN, wait_ms=None)))
    first = read.reads[0].deliveries[0].id
    await backend.perform(Ack(b"orders.a", G, [first]))
    assert await waiting == ["x"]


async def test_streams_made_since_a_time_are_read_whole_though_the_first_read_is_later(
    backend: Backend,
) -> None:
    await add(backend, "old", "1")
    info = await backend.perform(DescribeStream(b"orders.old"))
    create = MissingGroups(GroupStart(None), since_ms=info.epoch)
    await add(backend, "new", "2")
    assert await taken(backend, replace(ANY, create=create)) == ["2"]
    await add(backend, "old", "3")
    assert await taken(backend, replace(ANY, create=create)) == ["3"]
