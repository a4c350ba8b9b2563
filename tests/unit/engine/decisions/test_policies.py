"""Decisions that a policy asks for, as the commands they come to."""

import pytest

from headgate.engine.commands import (
    ConsumerDeleted,
    EntriesAcked,
    EntriesAdded,
    EntriesDelayed,
    EntriesDeleted,
    EntriesReleased,
    StreamCreated,
)
from headgate.engine.decisions import policies, streams
from headgate.engine.decisions.deliveries import nack
from headgate.engine.decisions.policies import ORIGIN
from headgate.engine.entry import Draft, EntryId
from headgate.engine.limits import COUNT_MAX
from headgate.engine.requests import NackMode, NackRequest
from headgate.engine.state.policy import GroupPolicy
from tests.changes import acting_by
from tests.unit.driver import Driver, G, S, entry_id

D = b"d"


@pytest.fixture
def engine() -> Driver:
    return Driver()


async def under(engine: Driver, policy: GroupPolicy, *added: int) -> None:
    await engine.start(*added)
    await engine.update_group(acting_by(S, G, policy))


@pytest.mark.parametrize(
    ("backoff_ms", "count", "rest_ms"),
    [
        ((), 1, 0),
        ((10, 30), 0, 10),
        ((10, 30), 1, 10),
        ((10, 30), 2, 30),
        ((10, 30), 3, 30),
        ((10, 30), COUNT_MAX, 30),
        ((0, 30), 1, 0),
    ],
)
def test_how_long_an_entry_rests_follows_from_its_deliveries(
    backoff_ms: tuple[int, ...], count: int, rest_ms: int
) -> None:
    assert GroupPolicy(backoff_ms=backoff_ms).delay_ms(count) == rest_ms


@pytest.mark.parametrize(("count", "is_spent"), [(0, False), (2, False), (3, True), (4, True)])
def test_an_entry_is_spent_after_so_many_deliveries(count: int, is_spent: bool) -> None:
    policy = GroupPolicy(max_deliveries=3, dead_letter_stream=D)
    assert policy.is_spent(count) is is_spent
    assert not GroupPolicy().is_spent(count)


@pytest.mark.parametrize(
    ("policy", "acts"),
    [
        (GroupPolicy(), False),
        (GroupPolicy(claim_idle_ms=1, backoff_ms=(1,), max_pending=1, keeps=True), False),
        (GroupPolicy(max_deliveries=1, dead_letter_stream=D), True),
        (GroupPolicy(consumer_ttl_ms=1), True),
    ],
)
def test_only_dead_letters_and_vanished_consumers_need_a_clock(
    policy: GroupPolicy, acts: bool
) -> None:
    assert policy.acts_by_time is acts


async def test_what_fails_rests_and_the_rest_is_released(engine: Driver) -> None:
    await under(engine, GroupPolicy(backoff_ms=(0, 30)), 1, 2)
    await engine.take(limit=1)
    await engine.take(claim=0)
    ids, fail = [entry_id(1), entry_id(2)], NackRequest(NackMode.FAIL)
    decision = nack(engine.keyspace, S, G, ids, fail, None, 500)
    assert decision.commands == [
        EntriesReleased(S, G, [(entry_id(2), 1)]),
        EntriesDelayed(S, G, [(entry_id(1), 2, 530)]),
    ]


@pytest.mark.parametrize("idle_ms", [(10, None), (None, 10), (99, 10), (10, 99)])
async def test_what_is_idle_by_the_policy_or_by_the_read_is_dead(
    engine: Driver, idle_ms: tuple[int | None, int | None]
) -> None:
    policy = GroupPolicy(claim_idle_ms=idle_ms[0], max_deliveries=1, dead_letter_stream=D)
    await under(engine, policy, 1)
    await engine.take()
    now_ms = engine.hand.now_ms
    assert policies.dead_letter(engine.keyspace, S, G, idle_ms[1], now_ms + 9).commands == []
    decision = policies.dead_letter(engine.keyspace, S, G, idle_ms[1], now_ms + 10)
    assert decision.reply == 1
    [made, added, acked] = decision.commands
    assert isinstance(made, StreamCreated)
    assert isinstance(added, EntriesAdded)
    assert acked == EntriesAcked(S, G, [entry_id(1)])
    values = (S, b"1-0", G, b"1", b"max_deliveries")
    origin = tuple(part for pair in zip(ORIGIN, values, strict=True) for part in pair)
    assert added.entries[0].fields == (b"n", b"1", *origin)


@pytest.mark.parametrize("idle_ms", [None, 10**9])
async def test_what_somebody_may_still_be_at_is_not_dead(
    engine: Driver, idle_ms: int | None
) -> None:
    await under(engine, GroupPolicy(max_deliveries=1, dead_letter_stream=D), 1)
    await engine.take()
    decision = policies.dead_letter(engine.keyspace, S, G, idle_ms, engine.hand.now_ms + 10**6)
    assert (decision.reply, decision.commands) == (0, [])


async def test_what_still_rests_is_not_dead(engine: Driver) -> None:
    await under(engine, GroupPolicy(), 1)
    await engine.take()
    await engine.nack(S, G, [entry_id(1)], mode=NackMode.FAIL, delay_ms=100)
    await engine.update_group(acting_by(S, G, GroupPolicy(max_deliveries=1, dead_letter_stream=D)))
    at_ms = engine.hand.now_ms + 100
    ids = [entry_id(1)]
    for nacked in (None, ids):
        decide = policies.dead_letter
        assert decide(engine.keyspace, S, G, 0, at_ms - 1, nacked=nacked).reply == 0
        assert decide(engine.keyspace, S, G, 0, at_ms, nacked=nacked).reply == 1


async def test_of_what_was_given_back_only_what_is_nobodys_and_spent_is_dead(
    engine: Driver,
) -> None:
    await under(engine, GroupPolicy(0, 1, D), 1, 2, 3, 4)
    await engine.take()
    ids = [entry_id(number) for number in (4, 1, 4, 3, 9)]
    for number, mode in [(4, NackMode.FAIL), (3, NackMode.SILENT)]:
        request = NackRequest(mode)
        commands = nack(engine.keyspace, S, G, [entry_id(number)], request, None, 0).commands
        engine._record_and_apply(commands)
    decision = policies.dead_letter(engine.keyspace, S, G, None, engine.hand.now_ms, nacked=ids)
    assert decision.commands[-1] == EntriesAcked(S, G, [entry_id(4)])


async def test_a_redrive_is_one_step(engine: Driver) -> None:
    await under(engine, GroupPolicy(max_deliveries=1, dead_letter_stream=D), 1, 2)
    await engine.take()
    await engine.nack(S, G, [entry_id(1), entry_id(2)], mode=NackMode.FAIL)
    await engine.delete(S, [entry_id(2)])
    ids = [one.id for one in await engine.range(D)]

    commands = policies.redrive(engine.keyspace, S, G, None, 10, engine.hand.now_ms).commands

    released, added, deleted = commands
    assert released == EntriesReleased(S, G, [(entry_id(1), 0)])
    assert isinstance(added, EntriesAdded)
    assert added.entries[0].fields == (b"n", b"2")
    assert deleted == EntriesDeleted(D, ids)


async def test_two_letters_of_one_entry_are_one_entry_again(engine: Driver) -> None:
    await under(engine, GroupPolicy(max_deliveries=1, dead_letter_stream=D), 1)
    await engine.take()
    await engine.nack(S, G, [entry_id(1)], mode=NackMode.FAIL)
    [letter] = await engine.range(D)
    await engine.perform(
        lambda keyspace, now_ms: streams.add(
            keyspace,
            D,
            [Draft(None, letter.fields)],
            create_stream=False,
            expected_last_id=None,
            idempotent=None,
            trim=None,
            now_ms=now_ms,
        )
    )
    redriven = await engine.redrive(S, G)
    assert [one.entry_id for one in redriven] == [entry_id(1)] * 2
    assert await engine.held_numbers() == [1]


async def test_consumers_go_exactly_when_their_time_is_over(engine: Driver) -> None:
    await under(engine, GroupPolicy(consumer_ttl_ms=100), 1)
    for name in (b"a", b"b"):
        await engine.create_consumer(S, G, name)
    await engine.take(b"holder")
    at_ms = engine.hand.now_ms + 100
    assert policies.forget_consumers(engine.keyspace, S, G, at_ms - 1).commands == []
    assert policies.forget_consumers(engine.keyspace, S, G, at_ms).commands == [
        ConsumerDeleted(S, G, b"a", release=True),
        ConsumerDeleted(S, G, b"b", release=True),
    ]
    await engine.update_group(acting_by(S, G, GroupPolicy()))
    assert policies.forget_consumers(engine.keyspace, S, G, at_ms).commands == []


@pytest.mark.parametrize(
    "written",
    [
        b"1",
        b"x",
        b"",
        b"1-0-0",
        b"\xff",
        b"1-18446744073709551616",
    ],
)
async def test_what_only_looks_like_a_letter_is_left_where_it_is(
    engine: Driver, written: bytes
) -> None:
    await under(engine, GroupPolicy(max_deliveries=1, dead_letter_stream=D), 1)
    values = (S, written, G, b"1", b"fatal")
    origin = tuple(part for pair in zip(ORIGIN, values, strict=True) for part in pair)
    await engine.add(D, [Draft(EntryId(5, 5), (b"f", b"v", *origin))])
    redriven = await engine.redrive(S, G)
    assert len(redriven) == (written == b"1")
