"""Dead letters reach their stream once, whatever is interrupted."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.app.backends.redis.backend import RedisBackend, perform_together
from headgate.app.backends.redis.library import Effect
from headgate.app.backends.redis.performing.deliveries import PERFORMERS
from headgate.app.backends.redis.performing.policies import relay
from headgate.engine.config import GroupPolicy
from headgate.engine.entry import MIN_ID
from headgate.engine.errors import WrongType
from headgate.engine.replies import Outcome, RedriveOutcome
from headgate.engine.requests import Request
from headgate.engine.requests.deliveries import Autoclaim, Claim, Nack, NackMode, Redrive
from headgate.engine.requests.entries import Add, Delete, Range
from headgate.engine.requests.groups import CreateGroup, GroupStart
from headgate.engine.requests.streams import DeleteStream
from tests.contract.calls import ANA, BEN, G, S, drafts, held, ids, numbers, ruled, take
from tests.unit.app.backends.redis.performing.conftest import side

DEAD = b"orders-dead"
HOUR_MS = 3_600_000
ONCE = GroupPolicy(max_deliveries=1, dead_letter_stream=DEAD)


async def governed(redis: RedisBackend, *numbers: int) -> None:
    await redis.perform(Add(S, drafts(*numbers)))
    await redis.perform(CreateGroup(S, G, GroupStart(MIN_ID), policy=ONCE))


async def waiting(redis: RedisBackend, *numbers: int) -> None:
    """Leave dead letters in the outbox, as a gateway does that dies before it relays them."""
    await governed(redis, *numbers)
    await redis.perform(take(ANA))
    await redis.client.perform(Effect.FREE, Nack(S, G, ids(*numbers), NackMode.FAIL))
    assert await held(redis) == {}
    assert await side(redis, b"outbox", "XLEN") == len(numbers)


async def test_a_dead_letter_that_waits_is_relayed_with_the_next(redis: RedisBackend) -> None:
    await waiting(redis, 1, 2)
    await redis.perform(Add(S, drafts(3)))
    await redis.perform(take(ANA))
    await redis.perform(Nack(S, G, ids(3), NackMode.FATAL))
    entries = await redis.perform(Range(DEAD))
    assert [entry.fields[5] for entry in entries] == [b"1-0", b"2-0", b"3-0"]
    assert [entry.fields[11] for entry in entries] == [b"max_deliveries"] * 2 + [b"fatal"]


async def test_a_relay_that_was_broken_off_appends_nothing_twice(redis: RedisBackend) -> None:
    await waiting(redis, 1, 2)
    key = redis.client.names.of(S)
    outbox = key.side(b"outbox")
    copies = await redis.client.execute(S, b"XRANGE", outbox, b"-", b"+", changes=False)
    for outbox_id, (_, _, _, fields) in copies:  # the first step, and never the second one
        dead_letters = [(outbox_id, fields)]
        await redis.client.call(
            Effect.WRITE, "relay", DEAD, source=key.key, dead_letters=dead_letters
        )
    await relay(redis.client, S)
    assert len(await numbers(redis, DEAD)) == 2
    assert await side(redis, b"outbox", "XLEN") == 0
    await redis.perform(Add(S, drafts(3)))
    await redis.perform(take(ANA))
    await redis.perform(Nack(S, G, ids(3), NackMode.FAIL))
    assert len(await numbers(redis, DEAD)) == 3


async def test_dead_letters_of_a_stream_that_is_gone_are_relayed(redis: RedisBackend) -> None:
    await waiting(redis, 1)
    await redis.perform(DeleteStream(S))
    await relay(redis.client, S)
    assert len(await numbers(redis, DEAD)) == 1


async def test_a_dead_letter_whose_stream_is_no_stream_waits(redis: RedisBackend) -> None:
    await waiting(redis, 1)
    key = redis.client.names.of(DEAD).key
    await redis.client.execute(DEAD, b"SET", key, b"text", changes=True)
    with pytest.raises(WrongType):
        await relay(redis.client, S)
    await redis.client.execute(DEAD, b"DEL", key, changes=True)
    await relay(redis.client, S)
    assert len(await numbers(redis, DEAD)) == 1


async def test_a_redrive_that_was_broken_off_sends_nothing_back_twice(redis: RedisBackend) -> None:
    await waiting(redis, 1, 2)
    await relay(redis.client, S)
    await redis.perform(Delete(S, ids(2)))
    dead_letters = await redis.perform(Range(DEAD))
    first = await redis.perform(Redrive(S, G))
    assert [each.outcome for each in first] == [RedriveOutcome.RELEASED, RedriveOutcome.APPENDED]
    assert len(await numbers(redis)) == 2  # one of them is new
    key = redis.client.names.of(DEAD).key
    await redis.client.execute(DEAD, b"DEL", key, changes=True)
    for entry in dead_letters:  # as if they had never been deleted
        entry_id = str(entry.id)
        await redis.client.execute(DEAD, b"XADD", key, entry_id, *entry.fields, changes=True)
    assert await redis.perform(Redrive(S, G)) == first
    assert len(await numbers(redis)) == 2
    assert await numbers(redis, DEAD) == []


DELIVERING: dict[str, Request[Any]] = {
    "read": take(BEN, claim_idle_ms=HOUR_MS),
    "autoclaim": Autoclaim(S, G, BEN, HOUR_MS),
}


@pytest.mark.parametrize("request_", DELIVERING.values(), ids=DELIVERING)
async def test_deliveries_do_not_wait_until_the_dead_letters_among_them_are_relayed(
    quiet: RedisBackend, request_: Request[Any]
) -> None:
    await ruled(quiet, GroupPolicy(max_deliveries=2, dead_letter_stream=DEAD), *drafts(1, 2))
    await quiet.perform(take(ANA))
    await quiet.perform(Claim(S, G, ANA, ids(1), 0, idle_ms=HOUR_MS, retry_count=2))
    await quiet.perform(Claim(S, G, ANA, ids(2), 0, idle_ms=HOUR_MS, retry_count=1))
    await quiet.perform(request_)
    assert await held(quiet) == {2: BEN}
    assert await side(quiet, b"outbox", "XLEN") == 1
    await quiet.perform(Claim(S, G, ANA, ids(2), 0, idle_ms=HOUR_MS, retry_count=2))
    await quiet.perform(request_)  # it delivers nothing
    assert await held(quiet) == {}
    assert await side(quiet, b"outbox", "XLEN") == 0
    assert len(await numbers(quiet, DEAD)) == 2


async def test_a_transaction_leaves_dead_letters_to_others(quiet: RedisBackend) -> None:
    await governed(quiet, 1)
    await quiet.perform(take(ANA))
    giving_back: Request[Any] = Nack(S, G, ids(1), NackMode.FAIL)
    assert await perform_together(quiet.client, PERFORMERS[Nack].perform, [giving_back]) == [
        [Outcome.RELEASED]
    ]
    assert await side(quiet, b"outbox", "XLEN") == 1
    await relay(quiet.client, S)
    assert len(await numbers(quiet, DEAD)) == 1
