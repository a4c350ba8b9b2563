"""A repeated append, and a repeated batch, append once."""

import asyncio

import pytest

from headgate.app.backends.port import Ability, Backend
from headgate.engine.entry import Draft
from headgate.engine.errors import IdNotGreater
from headgate.engine.limits import IDEMPOTENCY_ID_BYTES_MAX
from headgate.engine.requests.bulk import CommitBatch, LastCommit
from headgate.engine.requests.entries import Add
from headgate.engine.requests.idempotency import Idempotent
from headgate.engine.requests.keyspace import RememberKey
from headgate.engine.requests.streams import ListStreams
from tests.contract.calls import S, drafts, numbers

ENTRY = [Draft(None, (b"n", b"1"))]
LEFT, RIGHT = b"{batch}left", b"{batch}right"  # in one slot, where there are slots
KEY = Idempotent(b"producer", b"key", b"digest")


@pytest.mark.parametrize("place", ["producer", "key"])
async def test_ids_may_be_long(backend: Backend, place: str) -> None:
    key = KEY._replace(**{place: b"\xff" * IDEMPOTENCY_ID_BYTES_MAX})
    first = await backend.perform(Add(S, ENTRY, key))
    again = await backend.perform(Add(S, ENTRY, key))
    assert (again.is_repeat, again.ids) == (True, first.ids)
    await backend.perform(RememberKey(S, key.producer, key.key, first.ids[0]))
    other = await backend.perform(Add(S, ENTRY, key._replace(**{place: b"\xfe" * 65_536})))
    assert not other.is_repeat


async def test_repeats_at_the_same_time_append_once(backend: Backend) -> None:
    replies = await asyncio.gather(*(backend.perform(Add(S, ENTRY, KEY)) for _ in range(20)))
    assert len({tuple(reply.ids) for reply in replies}) == 1
    assert len(await numbers(backend)) == 1


@pytest.mark.needs(Ability.BULK)
async def test_a_batch_is_appended_once_and_as_a_whole(backend: Backend) -> None:
    batch = {LEFT: ENTRY, RIGHT: ENTRY * 2}
    first = await backend.perform(CommitBatch(b"writer", 3, batch))
    again = await backend.perform(CommitBatch(b"writer", 3, batch))
    older = await backend.perform(CommitBatch(b"writer", 2, batch))
    assert (first.is_repeat, again.is_repeat, older.is_repeat) == (False, True, True)
    assert {each.stream: each.entries for each in first.streams} == {LEFT: 1, RIGHT: 2}
    last = await backend.perform(LastCommit(b"writer"))
    assert last is not None
    assert last.batch == 3


@pytest.mark.needs(Ability.BULK)
async def test_a_batch_with_a_wrong_entry_appends_nothing(backend: Backend) -> None:
    await backend.perform(Add(LEFT, drafts(5)))
    with pytest.raises(IdNotGreater) as refused:
        await backend.perform(CommitBatch(b"writer", 1, {RIGHT: ENTRY, LEFT: drafts(4)}))
    assert refused.value.stream == LEFT
    assert [info.name for info in await backend.perform(ListStreams())] == [LEFT]
    assert await backend.perform(LastCommit(b"writer")) is None
