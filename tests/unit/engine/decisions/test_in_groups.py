"""Work in groups: an entry that goes is work in each group, and one step does a bounded part."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from headgate.engine.config import FieldName, GroupPolicy, StreamConfig
from headgate.engine.entry import MIN_ID, Draft
from headgate.engine.limits import SETTLED_AT_ONCE_MAX
from headgate.engine.requests import Request
from headgate.engine.requests.deliveries import Ack, AckAndDelete, GroupCursor, ReadGroup
from headgate.engine.requests.entries import Add, Delete, References, Trim, TrimTo
from headgate.engine.requests.groups import CreateGroup, GroupStart
from tests.changes import acting_by, configured
from tests.lengths import length_of
from tests.unit.driver import Driver, S, entry_id, kept
from tests.virtual_time import VirtualClock

GROUPS = [b"%02d" % number for number in range(40)]
COUNT, KEPT = 300, 10
IDS = [entry_id(number) for number in range(1, COUNT + 1)]
GONE = IDS[:-KEPT]
TO_LENGTH = StreamConfig(max_length=KEPT)


async def begin() -> Driver:
    """Return an engine with entries that are pending in many groups, all but a few held back."""
    engine = Driver(VirtualClock())
    await engine.perform(Add(S, [Draft(each, (b"k", b"%d" % (each.ms % 7))) for each in IDS]))
    for group in GROUPS:
        await engine.perform(CreateGroup(S, group, GroupStart(MIN_ID)))
        await engine.perform(acting_by(S, group, GroupPolicy(key_field=FieldName(b"k"))))
        await engine.perform(ReadGroup(group, b"a", [GroupCursor(S)], wait_ms=0, by_policy=True))
    return engine


async def begin_ahead() -> Driver:
    """Return an engine with entries that are ahead of many fair groups, none of them pending."""
    engine = Driver(VirtualClock())
    await engine.perform(Add(S, [Draft(each, (b"k", b"%d" % (each.ms % 7))) for each in IDS]))
    for group in GROUPS:
        policy = GroupPolicy(fair_field=FieldName(b"k"))
        await engine.perform(CreateGroup(S, group, GroupStart(MIN_ID), policy=policy))
    return engine


def held_count(engine: Driver) -> int:
    """Return how many entries are pending or ahead, and how many turns there are, in all groups."""
    groups = engine.keyspace.streams[S].groups.values()
    turns = (0 if group.pel.turns is None else len(group.pel.turns) for group in groups)
    return sum(turns) + sum(len(group.pel) + group.ahead_count for group in groups)


async def gone_at_once_max(engine: Driver, work: Coroutine[Any, Any, Any]) -> int:
    """Return the maximum of pending entries or turns that go in one turn of the loop."""
    working, gone_max, before = asyncio.ensure_future(work), 0, held_count(engine)
    while not working.done():
        await asyncio.sleep(0)
        gone_max, before = max(gone_max, before - held_count(engine)), held_count(engine)
    await working
    return gone_max


GOING: list[tuple[Request[Any], int | None]] = [
    (Trim(S, TrimTo(max_length=KEPT)), KEPT),
    (Trim(S, TrimTo(min_id=IDS[-KEPT])), KEPT),
    (Trim(S, TrimTo(max_length=KEPT, references=References.DELETE)), KEPT),
    (Delete(S, GONE), KEPT),
    (Delete(S, GONE, references=References.DELETE), KEPT),
    (configured(S, TO_LENGTH), None),
    (configured(S, StreamConfig(max_age_ms=1)), None),
    (Add(S, [Draft(None, (b"k", b"v"))], trim=TrimTo(max_length=KEPT)), None),
]
SETTLING = (AckAndDelete(S, GROUPS[0], GONE, references=References.DELETE), None)


@pytest.mark.parametrize(
    ("request_", "left", "is_fair"),
    [*((*each, False) for each in (*GOING, SETTLING)), *((*each, True) for each in GOING)],
    ids=lambda each: repr(each)[:60],
)
async def test_many_groups_are_left_in_parts(
    request_: Request[Any], left: int | None, is_fair: bool
) -> None:
    engine = await (begin_ahead() if is_fair else begin())

    gone_max = await gone_at_once_max(engine, engine.perform(request_))

    assert 0 < gone_max <= SETTLED_AT_ONCE_MAX
    if left is not None:
        assert await length_of(engine, S) == left


@pytest.mark.parametrize("config", [TO_LENGTH, StreamConfig(max_age_ms=1)], ids=repr)
async def test_a_changed_retention_answers_at_once_and_is_kept_later(config: StreamConfig) -> None:
    engine = await begin()

    await engine.perform(configured(S, config))
    assert await length_of(engine, S) > COUNT // 2
    async with kept(engine):
        await asyncio.sleep(10)

    assert await length_of(engine, S) == (config.max_length or 0)


async def test_a_trim_that_spares_what_is_needed_looks_at_some_entries_at_a_time() -> None:
    engine = await begin()
    for group in GROUPS:
        await engine.perform(Ack(S, group, IDS))
    trimming = asyncio.ensure_future(
        engine.perform(Trim(S, TrimTo(max_length=KEPT, references=References.ACKED)))
    )
    await asyncio.sleep(0)

    assert not trimming.done()
    assert await trimming > 0
