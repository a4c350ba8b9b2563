"""Order by key: the next entry of a key comes when the one before is settled."""

import pytest

from headgate.app.backends.port import Ability, Backend
from headgate.engine.config import FieldName, GroupPolicy, Patch
from headgate.engine.entry import MIN_ID, Draft
from headgate.engine.requests.deliveries import Ack, GroupCursor, ReadGroup
from headgate.engine.requests.entries import Add
from headgate.engine.requests.groups import CreateGroup, GroupStart, UpdateGroup
from tests.contract.calls import ANA, BEN, G, S, entry_id, got, ids

pytestmark = pytest.mark.needs(Ability.POLICIES)

KEY = FieldName(b"key")
IN_ORDER = GroupPolicy(key_field=KEY)


def keyed(**ids_by_key: list[int]) -> list[Draft]:
    """Return entries with these ids, each with its key."""
    pairs = sorted((number, key) for key, numbers in ids_by_key.items() for number in numbers)
    return [Draft(entry_id(number), (b"key", key.encode())) for number, key in pairs]


def read(consumer: bytes, limit: int | None = None, *, by_policy: bool = True) -> ReadGroup:
    cursors = [GroupCursor(S)]
    return ReadGroup(G, consumer, cursors, limit, claim_released=True, by_policy=by_policy)


async def ordered(backend: Backend, drafts: list[Draft], policy: GroupPolicy = IN_ORDER) -> None:
    await backend.perform(CreateGroup(S, G, GroupStart(MIN_ID), create_stream=True, policy=policy))
    await backend.perform(Add(S, drafts))


async def ack(backend: Backend, *numbers: int) -> None:
    await backend.perform(Ack(S, G, ids(*numbers)))


async def change(backend: Backend, **changes: object) -> None:
    await backend.perform(UpdateGroup(S, G, policy=Patch.of(GroupPolicy, **changes)))


async def test_fewer_of_a_key_may_be_pending_from_now_on(backend: Backend) -> None:
    policy = GroupPolicy(key_field=KEY, key_pending_max=3)
    # So many are held that servers do not look at all keys at once.
    await ordered(backend, keyed(a=[1, 2, 3, 4, 5], B=[*range(100, 1_000)]), policy)
    assert await got(backend, read(ANA)) == [1, 2, 3, 100, 101, 102]
    await ack(backend, 1)
    await change(backend, key_pending_max=1)
    assert await got(backend, read(BEN)) == []
    await ack(backend, 2)
    assert await got(backend, read(BEN)) == []
    await ack(backend, 3)
    assert await got(backend, read(BEN)) == [4]


async def test_long_keys_are_told_apart_by_their_ends(backend: Backend) -> None:
    first, second = b"x" * 100_000 + b"1", b"x" * 100_000 + b"2"
    keys = {1: first, 2: second, 3: first, 4: b"x" * 64, 5: b"x" * 65}
    await ordered(backend, [Draft(entry_id(at), (b"key", key)) for at, key in keys.items()])
    assert await got(backend, read(ANA)) == [1, 2, 4, 5]
    await ack(backend, 1)
    assert await got(backend, read(BEN)) == [3]
