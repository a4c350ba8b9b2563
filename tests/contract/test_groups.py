"""Groups and consumers come, go and are described."""

import pytest

from headgate.app.backends.port import Backend
from headgate.engine.entry import MIN_ID
from headgate.engine.errors import GroupExists, GroupNotFound, Invalid, StreamNotFound
from headgate.engine.requests import GroupStart, PolicyPatch, UpdateGroup
from headgate.engine.state.policy import GroupPolicy
from tests.contract.calls import ANA, BEN, G, S, drafts, entry_id, filled, got, held, take


async def test_a_group_begins_where_it_was_told_to(backend: Backend) -> None:
    await backend.add(S, drafts(1, 2, 3))
    await backend.create_group(S, b"all", GroupStart(MIN_ID))
    await backend.create_group(S, b"some", GroupStart(entry_id(2)))
    await backend.create_group(S, b"new", GroupStart(None))
    lags = {info.name: info.lag for info in await backend.groups(S)}
    assert lags == {b"all": 3, b"new": 0, b"some": None}  # unknowable, as in Redis


async def test_a_group_needs_a_stream_unless_it_makes_one(backend: Backend) -> None:
    with pytest.raises(StreamNotFound):
        await backend.create_group(S, G, GroupStart(MIN_ID))
    await backend.create_group(S, G, GroupStart(MIN_ID), create_stream=True)
    assert (await backend.stream_info(S)).group_count == 1


async def test_a_group_that_is_there_stays_as_it_is(backend: Backend) -> None:
    policy = GroupPolicy(max_pending=2)
    await backend.add(S, drafts(1))
    assert (await backend.create_group(S, G, GroupStart(None), policy=policy)).is_new
    for asked in (policy, None):
        created = await backend.create_group(S, G, GroupStart(MIN_ID), policy=asked)
        assert (created.is_new, created.info.last_id) == (False, entry_id(1))
        assert created.info.policy == policy
    with pytest.raises(GroupExists):
        await backend.create_group(S, G, GroupStart(MIN_ID), policy=GroupPolicy())


async def test_a_group_is_changed_as_a_whole_or_not_at_all(backend: Backend) -> None:
    await filled(backend, 1, 2)
    patch = PolicyPatch(max_pending=3)
    changed = await backend.update_group(UpdateGroup(S, G, entry_id(1), policy=patch))
    assert (changed.last_id, changed.policy) == (entry_id(1), GroupPolicy(max_pending=3))
    with pytest.raises(Invalid):
        await backend.update_group(
            UpdateGroup(S, G, entry_id(2), policy=PolicyPatch(max_deliveries=2))
        )
    assert await backend.group(S, G) == changed


async def test_a_patch_leaves_alone_what_it_does_not_name(backend: Backend) -> None:
    await filled(backend, 1)
    await backend.update_group(UpdateGroup(S, G, policy=PolicyPatch(max_pending=3, keeps=True)))
    changed = await backend.update_group(
        UpdateGroup(S, G, policy=PolicyPatch(max_pending=None, claim_idle_ms=5))
    )
    assert changed.policy == GroupPolicy(claim_idle_ms=5, keeps=True)
    assert changed.last_id == MIN_ID
    assert await got(backend, take(ANA)) == [1]


async def test_a_group_that_is_not_there_is_named(backend: Backend) -> None:
    await backend.add(S, drafts(1))
    with pytest.raises(GroupNotFound) as caught:
        await backend.group(S, G)
    assert (caught.value.stream, caught.value.group) == (S, G)
    with pytest.raises(GroupNotFound):
        await backend.read_group(take(ANA))


async def test_groups_have_nothing_in_common(backend: Backend) -> None:
    await filled(backend, 1)
    await backend.create_group(S, b"other", GroupStart(MIN_ID))
    assert await got(backend, take(ANA)) == [1]
    assert (await backend.group(S, b"other")).lag == 1
    assert (await backend.group(S, G)).lag == 0


async def test_a_group_that_is_destroyed_forgets_all(backend: Backend) -> None:
    await filled(backend, 1)
    await backend.read_group(take(ANA))
    assert await backend.destroy_group(S, G)
    assert not await backend.destroy_group(S, G)
    await backend.create_group(S, G, GroupStart(MIN_ID))
    assert (await held(backend), await backend.consumers(S, G)) == ({}, [])


async def test_a_consumer_is_there_once_it_has_read(backend: Backend) -> None:
    await filled(backend, 1)
    assert (await backend.create_consumer(S, G, BEN)).is_new
    assert not (await backend.create_consumer(S, G, BEN)).is_new
    await backend.read_group(take(ANA))
    pending = {info.name: info.pending_count for info in await backend.consumers(S, G)}
    assert pending == {ANA: 1, BEN: 0}


async def test_a_consumer_that_goes_drops_what_it_holds_or_releases_it(backend: Backend) -> None:
    await filled(backend, 1, 2)
    await backend.read_group(take(ANA, 1))
    await backend.read_group(take(BEN, 1))
    assert await backend.delete_consumer(S, G, ANA, release=False) == 1
    assert await backend.delete_consumer(S, G, BEN, release=True) == 1
    assert await backend.delete_consumer(S, G, BEN, release=True) is None
    assert await held(backend) == {2: None}


async def test_groups_and_consumers_are_listed_a_page_at_a_time(backend: Backend) -> None:
    await backend.add(S, drafts(1))
    for name in (b"c", b"a", b"b"):
        await backend.create_group(S, name, GroupStart(MIN_ID))
        await backend.create_consumer(S, b"c", name) if name != b"c" else None
    first = [info.name for info in await backend.groups(S, limit=2)]
    assert first == [b"a", b"b"]
    assert [info.name for info in await backend.groups(S, after=first[-1], limit=2)] == [b"c"]
    assert [info.name for info in await backend.consumers(S, b"c", after=b"a")] == [b"b"]
