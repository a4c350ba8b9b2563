"""A transaction is carried out on the condition that streams have not changed (WATCH)."""

from __future__ import annotations

import pytest

from headgate.app.backends.port import Ability, Backend
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.engine.entry import Draft
from headgate.engine.errors import StreamsChanged
from headgate.engine.requests.deliveries import Ack
from headgate.engine.requests.entries import Add, Delete
from headgate.engine.requests.keyspace import CountStreams, DeleteStreams, GetRevisions, IfUnchanged
from tests.contract.calls import ANA, G, S, filled, got, ids, numbers, take

pytestmark = pytest.mark.needs(Ability.COMMANDS)

T = b"{orders}copy"


async def watch(backend: Backend, *streams: bytes) -> IfUnchanged:
    return await CommandRunner(backend).watch(streams)


async def holds(backend: Backend, condition: IfUnchanged) -> bool:
    """Append to a stream on a condition; tells whether that was done."""
    try:
        replies = await CommandRunner(backend).run_all([[b"XADD", T, b"*", b"a", b"b"]], condition)
    except StreamsChanged:
        return False
    assert len(replies) == 1
    return True


async def test_a_transaction_is_done_while_nothing_has_changed(backend: Backend) -> None:
    await filled(backend, 1, 2)
    condition = await watch(backend, b"{orders}", b"{orders}none")
    await backend.perform(Add(b"{orders}", [Draft(None, (b"a", b"b"))]))
    assert not await holds(backend, condition)
    assert await backend.perform(CountStreams([T])) == 0
    condition = await watch(backend, b"{orders}", b"{orders}none")
    assert await holds(backend, condition)
    assert len(await numbers(backend, T)) == 1


async def test_changes_of_entries_and_of_existence_count(backend: Backend) -> None:
    stream = b"{orders}"
    before = await backend.perform(GetRevisions([stream]))
    [first] = (await backend.perform(Add(stream, [Draft(None, (b"a", b"b"))]))).ids
    added = await backend.perform(GetRevisions([stream]))
    await backend.perform(Delete(stream, [first]))
    deleted = await backend.perform(GetRevisions([stream]))
    await backend.perform(DeleteStreams([stream]))
    await backend.perform(Add(stream, [Draft(first, (b"a", b"b"))]))
    again = await backend.perform(GetRevisions([stream]))
    assert len({*map(tuple, (before, added, deleted, again))}) == 4
    await backend.perform(IfUnchanged([stream], again))
    for gone in (before, added, deleted):
        with pytest.raises(StreamsChanged):
            await backend.perform(IfUnchanged([stream], gone))


async def test_a_condition_is_checked_without_any_command(backend: Backend) -> None:
    condition = await watch(backend, S)
    assert await CommandRunner(backend).run_all([], condition) == []
    await filled(backend, 1)
    with pytest.raises(StreamsChanged):
        await CommandRunner(backend).run_all([], condition)


async def test_deliveries_and_acks_leave_a_revision_as_it_is(backend: Backend) -> None:
    await filled(backend, 1, 2)
    before = await backend.perform(GetRevisions([S]))
    assert await got(backend, take(ANA)) == [1, 2]
    await backend.perform(Ack(S, G, ids(1), consumer=ANA))
    assert await backend.perform(GetRevisions([S])) == before
