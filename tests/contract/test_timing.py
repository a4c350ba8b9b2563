"""Entries with times: groups deliver them later, or until a deadline."""

import time
from contextlib import suppress

import pytest
from msgspec.structs import replace

from headgate.app.backends.port import Ability, Backend
from headgate.engine.config import NO_POLICY, FieldName, GroupPolicy
from headgate.engine.entry import MIN_ID, Draft, Timing
from headgate.engine.errors import Invalid, StreamNotFound
from headgate.engine.limits import DELAY_MS_MAX, FORGOTTEN_TIMES_MAX
from headgate.engine.requests.bulk import CommitBatch
from headgate.engine.requests.deliveries import Ack, GroupCursor, Nack, NackMode, ReadGroup, Redrive
from headgate.engine.requests.entries import Add, Delete, FindTimes, Range, Trim, TrimTo
from headgate.engine.requests.groups import CreateGroup, GroupStart, UpdateGroup
from headgate.engine.requests.keyspace import SetCounters
from headgate.engine.requests.streams import CreateStream, DeleteStream, DescribeStream
from tests.conditions import eventually
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
    numbers,
    read,
    ruled,
)

pytestmark = pytest.mark.needs(Ability.POLICIES)

DAY_MS = 86_400_000
SOON_MS = 500
DEAD = b"dead"

LATER = Timing(delay_ms=DAY_MS)
SOON = Timing(delay_ms=SOON_MS)
OVER = Timing(expires_at_ms=1)
BRIEF = Timing(ttl_ms=SOON_MS)
IN_ORDER = GroupPolicy(key_field=FieldName(b"key"))


def entry(number: int, timing: Timing | None = None, key: bytes | None = None) -> Draft:
    fields = (b"n", b"%d" % number) if key is None else (b"n", b"%d" % number, b"key", key)
    return Draft(entry_id(number), fields, timing)


async def dead_letters(backend: Backend) -> list[dict[bytes, bytes]]:
    dead = await backend.perform(Range(DEAD))
    return [dict(zip(each.fields[::2], each.fields[1::2], strict=True)) for each in dead]


async def over(backend: Backend) -> None:
    """Wait until everything brief is over: another stream says when."""
    await backend.perform(CreateGroup(b"clock", G, GroupStart(MIN_ID), create_stream=True))
    await backend.perform(Add(b"clock", [Draft(None, (b"n", b"0"), SOON)]))
    [tick] = await backend.perform(
        ReadGroup(G, ANA, [GroupCursor(b"clock")], claim_released=True, wait_ms=None)
    )
    assert tick.deliveries


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def got_in_time(backend: Backend, policy: GroupPolicy, *drafts: Draft) -> list[int]:
    """Append entries to a new group, and return what ANA gets before any is due or over.

    If the machine took too long for that, it is done again.
    """
    while True:
        began_ms = now_ms()
        await ruled(backend, policy, *drafts)
        numbers_got = await got(backend, read(ANA))
        if now_ms() - began_ms < SOON_MS:
            return numbers_got
        for stream in (S, DEAD):
            with suppress(StreamNotFound):
                await backend.perform(DeleteStream(stream))


async def test_an_entry_that_is_due_comes_before_newer_ones(backend: Backend) -> None:
    assert await got_in_time(backend, NO_POLICY, entry(1, SOON), entry(2)) == [2]
    [reading] = await blocked(backend, got(backend, read(ANA), None))
    assert await reading == [1]
    await backend.perform(Nack(S, G, ids(1), mode=NackMode.SILENT))
    await backend.perform(Add(S, [entry(3)]))
    assert await got(backend, read(ANA)) == [1, 3]


async def test_what_nobody_holds_is_settled_when_its_deadline_is_over(backend: Backend) -> None:
    assert await got_in_time(backend, NO_POLICY, entry(1, BRIEF), entry(2)) == [1, 2]
    await backend.perform(Nack(S, G, ids(1), mode=NackMode.SILENT, delay_ms=DAY_MS))
    await eventually(lambda: held(backend), lambda items: items == {2: ANA})
    assert await numbers(backend) == [1, 2]


async def test_what_a_consumer_holds_is_settled_when_it_gives_it_back(backend: Backend) -> None:
    assert await got_in_time(backend, NO_POLICY, entry(1, BRIEF)) == [1]
    await over(backend)
    assert await held(backend) == {1: ANA}
    await backend.perform(Nack(S, G, ids(1), mode=NackMode.SILENT))
    assert await held(backend) == {}
    assert await got(backend, read(BEN)) == []


async def test_what_its_consumer_has_left_is_settled_instead_of_claimed(backend: Backend) -> None:
    assert await got_in_time(backend, NO_POLICY, entry(1, BRIEF), entry(2)) == [1, 2]
    await over(backend)
    assert await got(backend, replace(read(BEN), claim_idle_ms=1)) == [2]
    assert await held(backend) == {2: BEN}


async def test_an_expired_entry_is_a_dead_letter_if_the_policy_says_so(backend: Backend) -> None:
    policy = GroupPolicy(max_deliveries=9, dead_letter_stream=DEAD, on_expiry=True)
    assert await got_in_time(backend, policy, entry(1, OVER), entry(2, BRIEF), entry(3)) == [2, 3]
    await over(backend)
    await backend.perform(Nack(S, G, ids(2), mode=NackMode.FAIL, error=b"no luck"))
    dead = await eventually(lambda: dead_letters(backend), lambda letters: len(letters) >= 2)
    reasons = {each[b"_id"]: (each[b"_reason"], each.get(b"_error")) for each in dead}
    assert reasons == {b"1-0": (b"expired", None), b"2-0": (b"expired", b"no luck")}
    assert await held(backend) == {3: ANA}


async def test_a_dead_letter_says_how_often_it_was_delivered(backend: Backend) -> None:
    policy = GroupPolicy(max_deliveries=9, dead_letter_stream=DEAD, on_expiry=True)
    assert await got_in_time(backend, policy, entry(1), entry(2), entry(3, BRIEF)) == [1, 2, 3]
    await backend.perform(Nack(S, G, ids(1), mode=NackMode.FAIL))
    assert await got(backend, read(ANA)) == [1]
    await backend.perform(Nack(S, G, ids(1, 2), mode=NackMode.FATAL))
    await over(backend)
    await backend.perform(Nack(S, G, ids(3), mode=NackMode.FAIL))
    dead = await eventually(lambda: dead_letters(backend), lambda letters: len(letters) >= 3)
    counts = {each[b"_id"]: (each[b"_deliveries"], each[b"_reason"]) for each in dead}
    fatal = {b"1-0": (b"2", b"fatal"), b"2-0": (b"1", b"fatal")}
    assert counts == {**fatal, b"3-0": (b"1", b"expired")}


async def test_an_expired_dead_letter_comes_back_as_a_new_entry(backend: Backend) -> None:
    policy = GroupPolicy(max_deliveries=9, dead_letter_stream=DEAD, on_expiry=True)
    await backend.perform(CreateStream(DEAD))
    await ruled(backend, policy, entry(1, OVER))
    assert await got(backend, read(ANA)) == []
    await eventually(lambda: dead_letters(backend), bool)
    [redriven] = await backend.perform(Redrive(S, G))
    assert redriven.outcome == "appended"
    assert len(await got(backend, read(ANA))) == 1


async def test_a_delayed_entry_waits_for_its_turn_once_it_is_due(backend: Backend) -> None:
    first, others = entry(1, SOON, b"a"), [entry(2, None, b"a"), entry(3, None, b"a")]
    early = await got_in_time(backend, IN_ORDER, first, *others)
    assert early == [2]  # the delayed one is in nobody's way
    [reading] = await blocked(backend, got(backend, read(BEN), SOON_MS * 2))
    assert await reading == []
    await backend.perform(Ack(S, G, ids(2)))
    assert await got(backend, read(BEN)) == [1]
    assert await got(backend, read(BEN)) == []
    await backend.perform(Ack(S, G, ids(1)))
    assert await got(backend, read(BEN)) == [3]


async def test_all_rules_together(backend: Backend) -> None:
    """A delayed entry of a held key expires while the group is paused and its holder has died."""
    both = Timing(delay_ms=1, ttl_ms=SOON_MS)
    drafts = [entry(1, None, b"a"), entry(2, both, b"a"), entry(3, None, b"a")]
    await ruled(backend, IN_ORDER, *drafts)
    assert await got(backend, read(ANA)) == [1]
    await change(backend, paused_until_ms=2**53)
    await over(backend)
    assert await got(backend, replace(read(BEN), claim_idle_ms=1)) == []
    await change(backend, paused_until_ms=None)
    assert await got(backend, replace(read(BEN), claim_idle_ms=1)) == [1]
    await backend.perform(Ack(S, G, ids(1)))
    assert await got(backend, read(BEN)) == [3]


async def test_times_go_with_their_entry(backend: Backend) -> None:
    await ruled(backend, NO_POLICY, entry(1, LATER), entry(2, LATER), entry(3))
    await backend.perform(Delete(S, ids(1)))
    await backend.perform(Trim(S, TrimTo(max_length=1)))
    assert await backend.perform(FindTimes(S, ids(1, 2))) == {}


async def test_an_id_that_comes_again_has_no_times_of_before(backend: Backend) -> None:
    count = FORGOTTEN_TIMES_MAX + 100  # those of a long trim are forgotten bit by bit
    await ruled(backend, NO_POLICY, *[entry(number, OVER) for number in range(1, count + 1)])
    assert await got(backend, read(ANA)) == []
    await backend.perform(Trim(S, TrimTo(max_length=0)))
    await backend.perform(SetCounters(S, MIN_ID, max_deleted_id=MIN_ID))
    await backend.perform(UpdateGroup(S, G, MIN_ID))
    await backend.perform(Add(S, [entry(number) for number in range(count - 2, count + 1)]))
    assert await got(backend, read(ANA)) == [count - 2, count - 1, count]
    await backend.perform(Add(S, [Draft(entry_id(count + 1), (b"n", b"1"))]))
    assert await got(backend, read(ANA)) == [count + 1]


async def test_a_relative_time_counts_from_the_append(backend: Backend) -> None:
    before_ms = now_ms()
    await ruled(backend, NO_POLICY, entry(1, Timing(delay_ms=DAY_MS, ttl_ms=2 * DAY_MS)))
    [times] = (await backend.perform(FindTimes(S, ids(1)))).values()
    assert times.deliver_at_ms is not None
    assert before_ms + DAY_MS <= times.deliver_at_ms <= now_ms() + DAY_MS
    assert times.expires_at_ms == times.deliver_at_ms + DAY_MS


@pytest.mark.parametrize(
    ("timing", "field"),
    [
        (Timing(delay_ms=1, deliver_at_ms=1), "deliver_at_ms"),
        (Timing(ttl_ms=1, expires_at_ms=1), "expires_at_ms"),
        (Timing(delay_ms=DELAY_MS_MAX + 1), "delay_ms"),
        (Timing(deliver_at_ms=2**62), "deliver_at_ms"),
        (Timing(delay_ms=10_000, ttl_ms=10_000), "ttl_ms"),
        (Timing(delay_ms=10_000, expires_at_ms=9), "expires_at_ms"),
    ],
)
async def test_senseless_times_append_nothing(backend: Backend, timing: Timing, field: str) -> None:
    await backend.perform(Add(S, [entry(1)]))
    with pytest.raises(Invalid) as caught:
        await backend.perform(Add(S, [entry(2), entry(3, timing)]))
    assert caught.value.location == ("drafts", 1, field)
    assert await numbers(backend) == [1]


@pytest.mark.needs(Ability.BULK)
async def test_the_streams_of_a_batch_share_the_bound_on_times(backend: Backend) -> None:
    half = [entry(number, LATER) for number in range(1, 1_302)]
    with pytest.raises(Invalid):
        await backend.perform(CommitBatch(b"w", 1, {b"{a}1": half, b"{a}2": half}))
    committed = await backend.perform(CommitBatch(b"w", 1, {b"{a}1": half}))
    assert [each.entries for each in committed.streams] == [1_301]
    assert len(await backend.perform(FindTimes(b"{a}1", ids(1, 1_301)))) == 2


async def test_times_survive_what_a_batch_is_packed_into(backend: Backend) -> None:
    many = [entry(number, LATER if number % 2 else None) for number in range(1, 5001)]
    with pytest.raises(Invalid) as caught:
        await backend.perform(Add(S, [entry(number, LATER) for number in range(1, 5001)]))
    assert caught.value.location == ("drafts", 2500)
    await ruled(backend, NO_POLICY, *many)
    assert await got(backend, read(ANA, 3)) == [2, 4, 6]
    assert (await backend.perform(DescribeStream(S))).timed_count == 2500
