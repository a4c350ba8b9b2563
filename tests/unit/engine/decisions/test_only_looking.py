"""A decision only looks: its discoveries on the way, too, are changed by the executor."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headgate.engine.config import GroupPolicy
from headgate.engine.decisions import Decision
from headgate.engine.decisions.group_reads import settling
from headgate.engine.decisions.group_reads.reads import read_group
from headgate.engine.journal import snapshot
from headgate.engine.requests.deliveries import GroupCursor, ReadGroup
from headgate.engine.requests.entries import Delete
from headgate.engine.state.keyspace import Keyspace
from tests.unit.driver import Driver, G, S, entry_id

DEAD = GroupPolicy(claim_idle_ms=10, max_deliveries=1, dead_letter_stream=b"d")

LATER_MS = 10_000


def read(keyspace: Keyspace) -> Decision[object]:
    request = ReadGroup(G, b"b", [GroupCursor(S)], claim_idle_ms=10)
    return read_group(keyspace, request, LATER_MS).replied_as(str)


def dead_letter(keyspace: Keyspace) -> Decision[object]:
    return settling.settle(keyspace, S, G, None, LATER_MS).replied_as(str)


def everything(keyspace: Keyspace) -> bytes:
    return b"".join(snapshot.pieces(keyspace, 1))


@pytest.mark.parametrize(("decide", "policy"), [(read, GroupPolicy()), (dead_letter, DEAD)])
async def test_a_search_for_idle_entries_leaves_those_that_are_gone_as_they_are(
    decide: Callable[[Keyspace], Decision[object]], policy: GroupPolicy
) -> None:
    engine = Driver()
    await engine.start(1, 2, 3)
    await engine.take()
    await engine.perform(Delete(S, [entry_id(1), entry_id(2)]))
    engine.keyspace.group(S, G).policy = policy
    before = everything(engine.keyspace)
    decision = decide(engine.keyspace)
    assert everything(engine.keyspace) == before
    [unclaimable] = decision.unclaimable
    assert unclaimable == (S, G, [entry_id(1), entry_id(2)])


async def test_who_carries_it_out_need_not_come_by_them_again() -> None:
    engine = Driver()
    await engine.start(1, 2, 3)
    await engine.take()
    await engine.perform(Delete(S, [entry_id(1), entry_id(2)]))
    engine.clock.now_ms = LATER_MS
    assert read(engine.keyspace).unclaimable
    [taken] = await engine.take(b"b", claim=10)
    assert [delivery.id for delivery in taken.deliveries] == [entry_id(3)]
    engine.clock.now_ms = 2 * LATER_MS
    assert not read(engine.keyspace).unclaimable
