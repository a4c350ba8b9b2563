"""Decisions that a policy asks for, as the commands they come to."""

import pytest

from headgate.engine.commands import (
    ConsumerDeleted,
    EntriesAcked,
    EntriesAdded,
    EntriesDeleted,
    EntriesReleased,
    StreamCreated,
)
from headgate.engine.config import GroupPolicy
from headgate.engine.decisions import policies
from headgate.engine.decisions.group_reads import settling
from headgate.engine.entry import Draft, EntryId
from headgate.engine.limits import ENTRY_FIELDS_MAX
from headgate.engine.origin import Origin
from headgate.engine.requests.deliveries import Nack, NackMode, Redrive
from headgate.engine.requests.entries import Add, Delete, Range
from headgate.engine.requests.groups import CreateConsumer
from tests.changes import acting_by
from tests.unit.driver import Driver, G, S, entry_id, numbers

D = b"d"


@pytest.fixture
def engine() -> Driver:
    return Driver()


async def under(engine: Driver, policy: GroupPolicy, *added: int) -> None:
    await engine.start(*added)
    await engine.perform(acting_by(S, G, policy))


@pytest.mark.parametrize("idle_ms", [(10, None), (None, 10), (99, 10), (10, 99)])
async def test_what_is_idle_by_the_policy_or_by_the_read_is_dead(
    engine: Driver, idle_ms: tuple[int | None, int | None]
) -> None:
    policy = GroupPolicy(claim_idle_ms=idle_ms[0], max_deliveries=1, dead_letter_stream=D)
    await under(engine, policy, 1)
    await engine.take()
    now_ms = engine.clock.now_ms
    assert settling.settle(engine.keyspace, S, G, idle_ms[1], now_ms + 9).commands == []
    decision = settling.settle(engine.keyspace, S, G, idle_ms[1], now_ms + 10)
    assert decision.reply == 1
    [made, added, acked] = decision.commands
    assert isinstance(made, StreamCreated)
    assert isinstance(added, EntriesAdded)
    assert acked == EntriesAcked(S, G, [entry_id(1)], are_dead_letters=True)
    origin = (b"_stream", S, b"_id", b"1-0", b"_group", G, b"_deliveries", b"1")
    reason = (b"_reason", b"max_deliveries")
    assert added.entries[0].fields == (b"n", b"1", *origin, *reason)


async def test_what_still_rests_is_not_dead(engine: Driver) -> None:
    await under(engine, GroupPolicy(), 1)
    await engine.take()
    await engine.perform(Nack(S, G, [entry_id(1)], mode=NackMode.FAIL, delay_ms=100))
    await engine.perform(acting_by(S, G, GroupPolicy(max_deliveries=1, dead_letter_stream=D)))
    at_ms = engine.clock.now_ms + 100
    ids = [entry_id(1)]
    for released in (None, ids):
        decide = settling.settle
        assert decide(engine.keyspace, S, G, 0, at_ms - 1, released=released).reply == 0
        assert decide(engine.keyspace, S, G, 0, at_ms, released=released).reply == 1


async def test_of_what_was_given_back_only_nobodys_spent_entries_are_dead(engine: Driver) -> None:
    await under(engine, GroupPolicy(0, 1, D), 1, 2, 3, 4)
    await engine.take()
    ids = [entry_id(number) for number in (4, 1, 4, 3, 9)]
    for number, mode in [(4, NackMode.FAIL), (3, NackMode.SILENT)]:
        await engine.perform(Nack(S, G, [entry_id(number)], mode, by_policy=False))
    decision = settling.settle(engine.keyspace, S, G, None, engine.clock.now_ms, released=ids)
    assert decision.commands[-1] == EntriesAcked(S, G, [entry_id(4)], are_dead_letters=True)


async def spent(engine: Driver, *entries: tuple[bytes, ...]) -> None:
    """Append entries that a consumer has and will not get again."""
    drafts = [Draft(entry_id(at), fields) for at, fields in enumerate(entries, 1)]
    await engine.perform(Add(S, drafts))
    await under(engine, GroupPolicy(0, 1, D))
    await engine.take()


@pytest.mark.parametrize(
    ("large", "at_once"), [((b"f", b"v") * 9_000, 5), ((b"f", b"v" * 2_000_000), 2)]
)
async def test_large_dead_letters_are_made_some_at_a_time(
    engine: Driver, large: tuple[bytes, ...], at_once: int
) -> None:
    await spent(engine, *[large] * 6)
    for left in (6 - at_once, max(6 - 2 * at_once, 0)):  # a read makes what it must not claim
        assert numbers(await engine.take(claim=0)) == []
        assert len(await engine.held_numbers()) == left


async def test_an_entry_with_no_room_for_its_origin_holds_up_no_other(engine: Driver) -> None:
    await spent(engine, (b"f", b"v") * ENTRY_FIELDS_MAX, (b"n", b"2"), (b"n", b"3"))
    for _ in range(2):
        assert numbers(await engine.take(claim=0)) == []
    assert await engine.held_numbers() == [1]


async def test_large_dead_letters_come_back_some_at_a_time(engine: Driver) -> None:
    await under(engine, GroupPolicy(max_deliveries=1, dead_letter_stream=D))
    fields = Origin(S, b"7-0", G, b"1", b"fatal").behind((b"f", b"v") * 9_000)
    dead_letters = [entry_id(number) for number in range(1, 8)]
    await engine.perform(Add(D, [Draft(each, fields) for each in dead_letters]))
    for request in (Redrive(S, G), Redrive(S, G, [*dead_letters, entry_id(99)])):
        part = policies.redrive(engine.keyspace, request, engine.clock.now_ms)
        counts = [len(part.reply)]
        while part.next_part is not None:
            part = part.next_part(engine.keyspace, engine.clock.now_ms)
            counts.append(len(part.reply))
        assert [redriven.id for redriven in part.reply] == dead_letters
        assert counts[:2] == [5, 7]


async def test_a_redrive_is_one_step(engine: Driver) -> None:
    await under(engine, GroupPolicy(max_deliveries=1, dead_letter_stream=D), 1, 2)
    await engine.take()
    await engine.perform(Nack(S, G, [entry_id(1), entry_id(2)], mode=NackMode.FAIL))
    await engine.perform(Delete(S, [entry_id(2)]))
    ids = [entry.id for entry in await engine.perform(Range(D))]

    commands = policies.redrive(engine.keyspace, Redrive(S, G), engine.clock.now_ms).commands

    released, added, deleted = commands
    assert released == EntriesReleased(S, G, [(entry_id(1), 0)])
    assert isinstance(added, EntriesAdded)
    assert added.entries[0].fields == (b"n", b"2")
    assert deleted == EntriesDeleted(D, ids)


async def test_consumers_go_exactly_when_their_time_is_over(engine: Driver) -> None:
    await under(engine, GroupPolicy(consumer_ttl_ms=100), 1)
    for name in (b"a", b"b"):
        await engine.perform(CreateConsumer(S, G, name))
    await engine.take(b"holder")
    at_ms = engine.clock.now_ms + 100
    assert policies.forget_consumers(engine.keyspace, S, G, at_ms - 1).commands == []
    assert policies.forget_consumers(engine.keyspace, S, G, at_ms).commands == [
        ConsumerDeleted(S, G, b"a", release=True),
        ConsumerDeleted(S, G, b"b", release=True),
    ]
    await engine.perform(acting_by(S, G, GroupPolicy()))
    assert policies.forget_consumers(engine.keyspace, S, G, at_ms).commands == []


@pytest.mark.parametrize("written", [b"1", b"x", b"", b"1-0-0", b"\xff", b"1-18446744073709551616"])
async def test_what_only_looks_like_a_letter_is_left_there(engine: Driver, written: bytes) -> None:
    await under(engine, GroupPolicy(max_deliveries=1, dead_letter_stream=D), 1)
    origin = Origin(S, written, G, b"1", b"fatal")
    await engine.perform(Add(D, [Draft(EntryId(5, 5), origin.behind((b"f", b"v")))]))
    redriven = await engine.perform(Redrive(S, G))
    assert len(redriven) == (written == b"1")
