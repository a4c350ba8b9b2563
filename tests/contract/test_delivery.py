"""Deliveries, acknowledgements, fencing, claims, and what is given back."""

import pytest

from headgate.app.backends.port import Ability, Backend
from headgate.engine.config import GroupPolicy, Patch
from headgate.engine.entry import MIN_ID
from headgate.engine.errors import StreamNotFound
from headgate.engine.requests.entries import Add
from headgate.engine.requests.groups import (
    CreateConsumer,
    CreateGroup,
    GroupStart,
    ListConsumers,
    ListGroups,
    UpdateGroup,
)
from tests.contract.calls import G, S, drafts

DEAD = b"orders-dead"


async def test_groups_and_consumers_are_listed_a_page_at_a_time(backend: Backend) -> None:
    await backend.perform(Add(S, drafts(1)))
    for name in (b"c", b"a", b"b"):
        await backend.perform(CreateGroup(S, name, GroupStart(MIN_ID)))
        await backend.perform(CreateConsumer(S, b"c", name)) if name != b"c" else None
    first = [info.name for info in await backend.perform(ListGroups(S, limit=2))]
    assert first == [b"a", b"b"]
    assert [
        info.name for info in await backend.perform(ListGroups(S, after=first[-1], limit=2))
    ] == [b"c"]
    assert [info.name for info in await backend.perform(ListConsumers(S, b"c", after=b"a"))] == [
        b"b"
    ]


@pytest.mark.needs(Ability.POLICIES)
async def test_a_policy_may_have_to_name_a_stream_that_exists(backend: Backend) -> None:
    await backend.perform(Add(S, drafts(1)))
    patch = Patch.of(GroupPolicy, max_deliveries=1, dead_letter_stream=DEAD)
    bound = CreateGroup(
        S,
        G,
        GroupStart(MIN_ID),
        policy=GroupPolicy(max_deliveries=1, dead_letter_stream=DEAD),
        targets_exist=True,
    )
    with pytest.raises(StreamNotFound) as missing:
        await backend.perform(bound)
    assert missing.value.stream == DEAD
    await backend.perform(CreateGroup(S, b"other", GroupStart(MIN_ID), targets_exist=True))
    with pytest.raises(StreamNotFound):
        await backend.perform(UpdateGroup(S, b"other", policy=patch, targets_exist=True))
    await backend.perform(Add(DEAD, drafts(1)))
    await backend.perform(bound)
    await backend.perform(UpdateGroup(S, b"other", policy=patch, targets_exist=True))
