"""Groups and consumers come, go and are described."""

import pytest

from headgate.app.backends.port import Backend
from headgate.engine.config import GroupPolicy, Patch
from headgate.engine.entry import MIN_ID
from headgate.engine.errors import GroupExists, GroupNotFound, Invalid, StreamNotFound
from headgate.engine.requests.entries import Add
from headgate.engine.requests.groups import (
    CreateConsumer,
    CreateGroup,
    DeleteConsumer,
    DescribeGroup,
    DestroyGroup,
    GroupStart,
    ListConsumers,
    ListGroups,
    UpdateGroup,
)
from headgate.engine.requests.streams import DescribeStream
from tests.contract.calls import ANA, BEN, G, S, drafts, entry_id, filled, got, held, take


async def test_a_group_begins_where_it_was_told_to(backend: Backend) -> None:
    await backend.perform(Add(S, drafts(1, 2, 3)))
    await backend.perform(CreateGroup(S, b"all", GroupStart(MIN_ID)))
    await backend.perform(CreateGroup(S, b"some", GroupStart(entry_id(2))))
    await backend.perform(CreateGroup(S, b"new", GroupStart(None)))
    lags = {info.name: info.lag for info in await backend.perform(ListGroups(S))}
    assert lags == {b"all": 3, b"new": 0, b"some": None}  # unknowable, as in Redis


async def test_a_group_needs_a_stream_unless_it_makes_one(backend: Backend) -> None:
    with pytest.raises(StreamNotFound):
        await backend.perform(CreateGroup(S, G, GroupStart(MIN_ID)))
    await backend.perform(CreateGroup(S, G, GroupStart(MIN_ID), create_stream=True))
    assert (await backend.perform(DescribeStream(S))).group_count == 1


async def test_a_group_that_is_there_stays_as_it_is(backend: Backend) -> None:
    policy = GroupPolicy(max_pending=2)
    await backend.perform(Add(S, drafts(1)))
    assert (await backend.perform(CreateGroup(S, G, GroupStart(None), policy=policy))).is_new
    for asked in (policy, None):
        created = await backend.perform(CreateGroup(S, G, GroupStart(MIN_ID), policy=asked))
        assert (created.is_new, created.info.last_id) == (False, entry_id(1))
        assert created.info.policy == policy
    with pytest.raises(GroupExists):
        await backend.perform(CreateGroup(S, G, GroupStart(MIN_ID), policy=GroupPolicy()))


async def test_a_group_is_changed_as_a_whole_or_not_at_all(backend: Backend) -> None:
    await filled(backend, 1, 2)
    patch = Patch.of(GroupPolicy, max_pending=3)
    changed = await backend.perform(UpdateGroup(S, G, entry_id(1), policy=patch))
    assert (changed.last_id, changed.policy) == (entry_id(1), GroupPolicy(max_pending=3))
    with pytest.raises(Invalid):
        await backend.perform(
            UpdateGroup(S, G, entry_id(2), policy=Patch.of(GroupPolicy, max_deliveries=2))
        )
    assert await backend.perform(DescribeGroup(S, G)) == changed


async def test_a_patch_leaves_alone_what_it_does_not_name(backend: Backend) -> None:
    await filled(backend, 1)
    await backend.perform(
        UpdateGroup(S, G, policy=Patch.of(GroupPolicy, max_pending=3, on_disconnect=True))
    )
    changed = await backend.perform(
        UpdateGroup(S, G, policy=Patch.of(GroupPolicy, max_pending=None, claim_idle_ms=5))
    )
    assert changed.policy == GroupPolicy(claim_idle_ms=5, on_disconnect=True)
    assert changed.last_id == MIN_ID
    assert await got(backend, take(ANA)) == [1]


async def test_a_group_that_is_not_there_is_named(backend: Backend) -> None:
    await backend.perform(Add(S, drafts(1)))
    with pytest.raises(GroupNotFound) as caught:
        await backend.perform(DescribeGroup(S, G))
    assert (caught.value.stream, caught.value.group) == (S, G)
    with pytest.raises(GroupNotFound):
        await backend.perform(take(ANA))


async def test_groups_have_nothing_in_common(backend: Backend) -> None:
    await filled(backend, 1)
    await backend.perform(CreateGroup(S, b"other", GroupStart(MIN_ID)))
    assert await got(backend, take(ANA)) == [1]
    assert (await backend.perform(DescribeGroup(S, b"other"))).lag == 1
    assert (await backend.perform(DescribeGroup(S, G))).lag == 0


async def test_a_group_that_is_destroyed_forgets_all(backend: Backend) -> None:
    await filled(backend, 1)
    await backend.perform(take(ANA))
    assert await backend.perform(DestroyGroup(S, G))
    assert not await backend.perform(DestroyGroup(S, G))
    await backend.perform(CreateGroup(S, G, GroupStart(MIN_ID)))
    assert (await held(backend), await backend.perform(ListConsumers(S, G))) == ({}, [])


async def test_a_consumer_is_there_once_it_has_read(backend: Backend) -> None:
    await filled(backend, 1)
    assert (await backend.perform(CreateConsumer(S, G, BEN))).is_new
    assert not (await backend.perform(CreateConsumer(S, G, BEN))).is_new
    await backend.perform(take(ANA))
    pending = {info.name: info.pending_count for info in await backend.perform(ListConsumers(S, G))}
    assert pending == {ANA: 1, BEN: 0}


async def test_a_consumer_that_goes_drops_what_it_holds_or_releases_it(backend: Backend) -> None:
    await filled(backend, 1, 2)
    await backend.perform(take(ANA, 1))
    await backend.perform(take(BEN, 1))
    assert await backend.perform(DeleteConsumer(S, G, ANA, release=False)) == 1
    assert await backend.perform(DeleteConsumer(S, G, BEN, release=True)) == 1
    assert await backend.perform(DeleteConsumer(S, G, BEN, release=True)) is None
    assert await held(backend) == {2: None}


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
