"""Fair groups: keys take turns, however long the backlog of one of them is."""

import pytest

from headgate.app.backends.port import Ability, Backend
from headgate.engine.config import FieldName, GroupPolicy
from headgate.engine.entry import MIN_ID, Draft, Timing
from headgate.engine.errors import Invalid
from headgate.engine.replies import GroupState
from headgate.engine.requests.deliveries import Ack, Nack, NackMode
from headgate.engine.requests.entries import Add, Delete, Trim, TrimTo
from headgate.engine.requests.groups import (
    CreateGroup,
    DescribeGroup,
    GroupStart,
    KeyOrder,
    ListKeys,
    UpdateGroup,
)
from tests.contract.calls import (
    ANA,
    BEN,
    G,
    S,
    blocked,
    change,
    entry_id,
    got,
    held,
    ids,
    read,
    ruled,
    take,
)

pytestmark = pytest.mark.needs(Ability.PATTERNS)

FAIR = GroupPolicy(fair_field=FieldName(b"who"))
IN_ORDER = GroupPolicy(fair_field=FieldName(b"who"), key_field=FieldName(b"who"))


def orders(text: str, first: int = 1, **more: str) -> list[Draft]:
    """Return an order for each letter, by the customer of that name; `.` is by nobody."""
    others = [part.encode() for pair in more.items() for part in pair]
    return [
        Draft(entry_id(at), (*([] if who == "." else [b"who", who.encode()]), b"n", b"1", *others))
        for at, who in enumerate(text, first)
    ]


async def test_the_next_read_brings_whoever_waits_behind_a_backlog(backend: Backend) -> None:
    await ruled(backend, FAIR, *orders("aaaaaaaaab"))
    assert await got(backend, read(ANA, 2)) == [1, 10]
    assert await got(backend, read(ANA, 3)) == [2, 3, 4]


async def test_keys_take_turns_and_each_keeps_its_order(backend: Backend) -> None:
    await ruled(backend, FAIR, *orders("aaabbc"))
    assert await got(backend, read(ANA)) == [1, 4, 6, 2, 5, 3]


async def test_a_turn_goes_on_over_reads(backend: Backend) -> None:
    await ruled(backend, FAIR, *orders("aaabbbccc"))
    assert [await got(backend, read(who, 2)) for who in (ANA, BEN, ANA)] == [[1, 4], [7, 2], [5, 8]]


async def test_entries_without_the_field_share_one_turn(backend: Backend) -> None:
    await ruled(backend, FAIR, *orders("....ab"))
    assert await got(backend, read(ANA)) == [1, 5, 6, 2, 3, 4]


async def test_a_weight_is_so_many_in_a_row(backend: Backend) -> None:
    policy = GroupPolicy(fair_field=FieldName(b"who"), weights=((b"a", 2),))
    await ruled(backend, policy, *orders("aaaaabbb"))
    assert await got(backend, read(ANA, 3)) == [1, 2, 6]
    assert await got(backend, read(ANA, 1)) == [3]  # the turn goes on
    assert await got(backend, read(ANA)) == [4, 7, 5, 8]


async def test_a_key_comes_one_after_the_other_where_it_is_in_order(backend: Backend) -> None:
    await ruled(backend, IN_ORDER, *orders("aaabb"))
    assert await got(backend, read(ANA)) == [1, 4]
    [waiting] = await blocked(backend, got(backend, read(BEN), None))
    await backend.perform(Ack(S, G, ids(1)))
    assert await waiting == [2]
    assert await held(backend) == {2: BEN, 4: ANA}


async def test_nothing_is_pending_of_what_waits_for_its_turn(backend: Backend) -> None:
    await ruled(backend, IN_ORDER, *orders("a" * 20 + "b"))
    assert await got(backend, read(ANA)) == [1, 21]
    info = await backend.perform(DescribeGroup(S, G))
    assert (info.lag, info.pending_count, info.released_count) == (19, 2, 0)
    [reply] = await backend.perform(read(BEN))
    assert (reply.state, reply.lag) == (GroupState.KEY_BLOCKED, 19)


async def test_redis_words_go_by_ids(backend: Backend) -> None:
    await ruled(backend, FAIR, *orders("aaab"))
    assert await got(backend, read(ANA, 2, by_policy=False)) == [1, 2]
    assert await got(backend, read(ANA, 1)) == [3]
    assert await got(backend, read(ANA, by_policy=False)) == [4]


async def test_a_higher_priority_goes_first(backend: Backend) -> None:
    policy = GroupPolicy(fair_field=FieldName(b"who"), priority_field=FieldName(b"urgency"))
    await ruled(backend, policy, *orders("aab"), *orders("ab", 4, urgency="9"))
    await backend.perform(Add(S, orders("c", 6, urgency="5") + orders("c", 7, urgency="high")))
    assert await got(backend, read(ANA)) == [4, 5, 6, 1, 3, 7, 2]


async def test_priorities_need_no_key(backend: Backend) -> None:
    await ruled(backend, GroupPolicy(priority_field=FieldName(b"urgency")), *orders("ab"))
    await backend.perform(Add(S, orders("a", 3, urgency="1")))
    assert await got(backend, read(ANA)) == [3, 1, 2]


async def test_what_has_waited_for_long_rises(backend: Backend) -> None:
    """Ids are times: the first is half a century old."""
    policy = GroupPolicy(priority_field=FieldName(b"urgency"), priority_age_ms=2**40)
    await ruled(backend, policy, *orders("a", 1, urgency="1"))
    now = [Draft(None, (b"n", b"1", b"urgency", urgency)) for urgency in (b"3", b"2")]
    reply = await backend.perform(Add(S, now))
    taken = await got(backend, read(ANA))
    assert taken == [reply.ids[0].ms, 1, reply.ids[1].ms]


async def test_the_rule_may_come_later_and_go_again(backend: Backend) -> None:
    await ruled(backend, GroupPolicy(), *orders("aaab"))
    assert await got(backend, read(ANA, 1)) == [1]
    await change(backend, fair_field=FieldName(b"who"))
    assert await got(backend, read(ANA, 2)) == [2, 4]
    await backend.perform(Add(S, orders("aabb", 5)))
    await change(backend, fair_field=None)
    await backend.perform(Add(S, orders("c", 9)))
    assert [await got(backend, read(ANA)), await got(backend, read(ANA))] == [[3, 5, 6, 7, 8], [9]]


async def test_another_field_takes_over_what_is_ahead(backend: Backend) -> None:
    await ruled(backend, FAIR, *orders("aab", kind="x"), *orders("aab", 4, kind="y"))
    assert await got(backend, read(ANA, 1)) == [1]
    await change(backend, fair_field=FieldName(b"kind"))
    assert await got(backend, read(ANA, 3)) == [2, 4, 3]
    await change(backend, fair_field=FieldName(b"who"))
    assert await got(backend, read(ANA)) == [5, 6]


async def test_failures_of_one_key_do_not_keep_the_others_waiting(backend: Backend) -> None:
    await ruled(backend, FAIR, *orders("aaaabb"))
    assert await got(backend, read(ANA, 4)) == [1, 5, 2, 6]
    await backend.perform(Nack(S, G, ids(1, 2), NackMode.FAIL))
    assert await got(backend, read(BEN, 1)) == [1]
    assert await got(backend, read(BEN, 1)) == [3]
    assert await got(backend, read(BEN, 2)) == [2, 4]


async def test_what_goes_from_the_stream_is_not_ahead(backend: Backend) -> None:
    await ruled(backend, FAIR, *orders("aaabbb"))
    await backend.perform(Delete(S, ids(5)))
    await backend.perform(Trim(S, TrimTo(min_id=entry_id(3))))
    info = await backend.perform(DescribeGroup(S, G))
    assert info.lag == 3
    assert await got(backend, read(ANA)) == [3, 4, 6]


async def test_filters_pass_by_what_is_ahead(backend: Backend) -> None:
    policy = GroupPolicy(fair_field=FieldName(b"who"), filters='{"exact":{"kind":"x"}}')
    await ruled(backend, policy, *orders("aab", kind="y"), *orders("ab", 4, kind="x"))
    assert await got(backend, read(ANA)) == [5, 4]
    assert (await backend.perform(DescribeGroup(S, G))).lag == 0


async def test_a_delayed_entry_does_not_keep_its_key_waiting(backend: Backend) -> None:
    later = Draft(entry_id(1), (b"who", b"a"), Timing(delay_ms=2**30))
    await ruled(backend, FAIR, later, *orders("ab", 2))
    assert await got(backend, read(ANA)) == [3, 2]
    assert (await backend.perform(DescribeGroup(S, G))).delayed_count == 1


async def test_a_position_that_is_set_brings_all_behind_it(backend: Backend) -> None:
    await ruled(backend, FAIR, *orders("aaab"))
    assert await got(backend, take(ANA)) == [1, 4, 2, 3]
    await backend.perform(UpdateGroup(S, G, last_id=entry_id(1)))
    assert await got(backend, take(BEN)) == [2, 4, 3]
    await backend.perform(UpdateGroup(S, G, last_id=entry_id(9)))
    assert await got(backend, take(BEN)) == []


async def test_reading_without_acks_takes_turns(backend: Backend) -> None:
    await ruled(backend, FAIR, *orders("aab"))
    request = read(ANA, 2)
    assert await got(backend, request.__class__(G, ANA, request.cursors, 2, no_ack=True)) == [1, 3]
    assert await got(backend, read(ANA)) == [2]


async def test_the_position_is_before_what_is_ahead(backend: Backend) -> None:
    await ruled(backend, FAIR, *orders("aab"))
    assert await got(backend, read(ANA, 2)) == [1, 3]
    info = await backend.perform(DescribeGroup(S, G))
    assert entry_id(1) <= info.last_id < entry_id(2)


async def test_more_than_may_be_indexed_waits_in_order(backend: Backend) -> None:
    policy = GroupPolicy(fair_field=FieldName(b"who"), key_ahead_max=4)
    await ruled(backend, policy, *orders("aaaa"))
    await backend.perform(Add(S, orders("aab", 5)))
    taken = [await got(backend, read(ANA, 1)) for _ in range(7)]
    assert sorted(each for [each] in taken) == [1, 2, 3, 4, 5, 6, 7]
    assert taken.index([7]) < taken.index([6])


REFUSED = {
    "weights": {"weights": ((b"a", 2),)},
    "priority_age_ms": {"priority_age_ms": 1},
    "fair_field": {"fair_field": b"who", "key_field": b"other"},
    "key_ahead_max": {"key_field": b"who", "key_ahead_max": 1_000_000},
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_rule_that_makes_no_sense_is_refused(backend: Backend, name: str) -> None:
    start = GroupStart(MIN_ID)
    policy = GroupPolicy(**REFUSED[name])  # type: ignore[arg-type]
    with pytest.raises(Invalid) as error:
        await backend.perform(CreateGroup(S, G, start, create_stream=True, policy=policy))
    assert error.value.location == ("policy", name)


async def test_keys_tell_what_waits_of_them(backend: Backend) -> None:
    await ruled(backend, IN_ORDER, *orders("bbaaaac."))
    assert await got(backend, read(ANA, 2)) == [1, 3]
    reply = await backend.perform(ListKeys(S, G))
    assert [(each.key, each.waiting_count, each.pending_count) for each in reply.keys] == [
        (b"a", 3, 1),
        (b"b", 1, 1),
        (b"c", 1, 0),
        (None, 1, 0),
    ]
    assert [(each.share, each.is_resting) for each in reply.keys[:3]] == [
        (0.5, True),
        (0.5, True),
        (0.0, False),
    ]
    assert (reply.key_count, reply.waiting_count, reply.is_complete) == (4, 6, True)
    oldest = await backend.perform(ListKeys(S, G, KeyOrder.AGE, limit=1))
    assert [(each.key, each.first_id) for each in oldest.keys] == [(b"b", entry_id(2))]


async def test_a_group_names_the_key_that_has_most_of_what_waits(backend: Backend) -> None:
    await ruled(backend, FAIR, *orders("b" + 150 * "a" + 20 * "c"))
    assert (await backend.perform(DescribeGroup(S, G))).noisy_key == (b"a", 150)
    await got(backend, read(ANA, 160))
    assert (await backend.perform(DescribeGroup(S, G))).noisy_key is None


async def test_many_keys_that_are_trimmed_together_are_not_ahead(backend: Backend) -> None:
    many = [Draft(entry_id(at), (b"who", b"%d" % at)) for at in range(1, 2_001)]
    await ruled(backend, FAIR, *many, *orders("aab", 2_001))
    left = 1_500
    while left:  # at most: a group is looked through in portions
        taken = await got(backend, read(ANA, left, by_policy=False))
        assert taken
        left -= len(taken)
    assert await got(backend, read(ANA, 1)) == [1_501]
    await backend.perform(Trim(S, TrimTo(min_id=entry_id(2_001))))
    assert await got(backend, read(ANA)) == [2_001, 2_003, 2_002]
    assert (await backend.perform(DescribeGroup(S, G))).lag == 0
