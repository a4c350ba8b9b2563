"""A backend over a cluster whose servers fail, change their roles and move their slots."""

from __future__ import annotations

import asyncio

import pytest

from headgate.app.backends.redis.durability import DurabilityLevel
from headgate.app.backends.redis.keys import KeyNames
from headgate.engine.entry import MIN_ID, Draft
from headgate.engine.errors import AnswerLost, Unavailable
from headgate.engine.requests.bulk import CommitBatch
from headgate.engine.requests.deliveries import GroupCursor, ListPending, ReadGroup
from headgate.engine.requests.entries import Add
from headgate.engine.requests.groups import CreateGroup, DeleteConsumer, GroupStart, ListConsumers
from tests.conditions import WITHIN_S
from tests.contract.calls import ANA, G, got, take
from tests.outages.appending import Appender, until_served
from tests.outages.conftest import Running
from tests.servers.failures import FailingCluster, SlotMove, cut_connections, flush

S = b"orders"
READERS = 20


def another_stream(cluster: FailingCluster, prefix: str) -> bytes:
    """Return a stream that another primary has."""
    primary = cluster.primary_of(prefix + S.decode())
    names = (f"stream-{number}" for number in range(1000))
    return next(name for name in names if cluster.primary_of(prefix + name) is not primary).encode()


@pytest.fixture
def key(prefix: str) -> str:
    """Return the key of the stream."""
    return prefix + S.decode()


async def test_a_failover_that_is_ordered_loses_nothing(
    cluster: FailingCluster, running: Running, key: str
) -> None:
    async with running(cluster.url) as backend:
        await until_served(backend, S)
        appender = Appender(backend, S)
        async with appender.going_on():
            await asyncio.to_thread(cluster.fail_over, key)
        assert set(appender.answered) <= set(await appender.kept())


async def test_a_change_that_is_redirected_is_not_taken_for_lost(
    cluster: FailingCluster, running: Running, key: str
) -> None:
    async with running(cluster.url, DurabilityLevel.REPLICA) as backend:
        await until_served(backend, S)
        await asyncio.to_thread(cluster.fail_over, key)
        assert await Appender(backend, S).append()  # to what is a replica now, first


async def test_a_failover_keeps_how_often_entries_were_delivered(
    cluster: FailingCluster, running: Running, key: str
) -> None:
    async with running(cluster.url) as backend:
        await until_served(backend, S)
        await backend.perform(CreateGroup(S, G, GroupStart(MIN_ID)))
        await got(backend, take(ANA))
        for _ in range(2):  # reads again what it holds
            await got(backend, ReadGroup(G, ANA, [GroupCursor(S, MIN_ID)]))
        await asyncio.to_thread(cluster.fail_over, key)
        await until_served(backend, S)
        [pending] = await backend.perform(ListPending(S, G))
        assert pending.delivery_count == 3


async def test_a_primary_that_is_killed_loses_nothing_that_a_replica_had_to_have(
    cluster: FailingCluster, running: Running, key: str, prefix: str
) -> None:
    elsewhere = await asyncio.to_thread(another_stream, cluster, prefix)
    async with running(cluster.url, DurabilityLevel.REPLICA) as backend:
        await until_served(backend, S)
        await until_served(backend, elsewhere)
        appender, other = Appender(backend, S), Appender(backend, elsewhere)
        async with appender.going_on():
            await asyncio.to_thread(cluster.kill_primary, key)
            await other.append()
            await asyncio.to_thread(cluster.until_served)
            await asyncio.to_thread(cluster.mend)
        assert appender.refused
        assert set(appender.answered) <= set(await appender.kept())
        assert other.answered == [0]  # the other primaries served all the time


async def test_the_repeat_of_a_batch_is_answered_only_when_the_batch_is_durable(
    cluster: FailingCluster, running: Running, key: str, prefix: str
) -> None:
    primary = await asyncio.to_thread(cluster.primary_of, key)
    replica = await asyncio.to_thread(cluster.replica_of, primary)
    names = KeyNames(prefix.encode())
    writers = (b"writer-%d" % number for number in range(1000))
    writer = next(  # what is noted of it has to be durable elsewhere
        each
        for each in writers
        if cluster.primary_of(names.of_writer(each).key.decode()) is not primary
    )
    batch = CommitBatch(writer, 1, {S: [Draft(None, (b"n", b"0"))]})
    async with running(cluster.url, DurabilityLevel.REPLICA) as backend:
        await until_served(backend, S)
        with cluster.paused(replica):
            for _ in range(2):
                with pytest.raises(AnswerLost):
                    await backend.perform(batch)
                await asyncio.to_thread(cut_connections, primary)
        await until_served(backend, S)
        assert (await backend.perform(batch)).is_repeat


async def test_a_primary_that_does_not_answer_is_left_for_its_replica(
    cluster: FailingCluster, running: Running, key: str
) -> None:
    async with running(cluster.url) as backend:
        await until_served(backend, S)
        primary = await asyncio.to_thread(cluster.primary_of, key)
        primary.pause()
        asked = [
            asyncio.create_task(backend.perform(Add(S, [Draft(None, (b"n", b"%d" % number))])))
            for number in range(3)
        ]
        async with asyncio.timeout(WITHIN_S):
            done, _ = await asyncio.wait(asked)
            await until_served(backend, S)
        primary.resume()
        # Whoever asked gets an answer: the servers are there, or they are not.
        assert all(not task.cancelled() for task in done)
        assert all(isinstance(task.exception(), Unavailable | None) for task in done)


async def test_a_slot_that_moves_loses_and_doubles_nothing(
    cluster: FailingCluster, running: Running, key: str
) -> None:
    async with running(cluster.url) as backend:
        await until_served(backend, S)
        appender = Appender(backend, S)
        async with appender.going_on():
            slot = await asyncio.to_thread(cluster.slot_of, key)
            target = await asyncio.to_thread(cluster.move_slot, slot)
        kept = await appender.kept()
        assert kept[1:] == appender.answered
        assert await asyncio.to_thread(cluster.owner_of, slot) is target


async def test_a_stream_that_is_half_moved_is_not_changed(
    cluster: FailingCluster, running: Running, key: str
) -> None:
    async with running(cluster.url) as backend:
        await until_served(backend, S)
        appender = Appender(backend, S)
        slot = await asyncio.to_thread(cluster.slot_of, key)
        source = await asyncio.to_thread(cluster.owner_of, slot)
        target = await asyncio.to_thread(cluster.other_primary, source)
        move = SlotMove(cluster, slot, target)
        await asyncio.to_thread(move.begin)
        for step in range(3):
            await asyncio.to_thread(move.move_keys, step)
            await appender.append()
        await asyncio.to_thread(move.move_keys)
        await asyncio.to_thread(move.end)
        await until_served(backend, S)
        kept = await appender.kept()
        assert kept[1 : 1 + len(appender.answered)] == appender.answered
        assert len(kept) == len(appender.answered) + 2  # and those of `until_served`


async def test_a_consumer_that_is_deleted_is_not_made_again_by_a_read_that_was_cancelled(
    cluster: FailingCluster, running: Running, key: str
) -> None:
    async with running(cluster.url) as backend:
        await until_served(backend, S)
        await backend.perform(CreateGroup(S, G, GroupStart(MIN_ID)))
        slot = await asyncio.to_thread(cluster.slot_of, key)
        source = await asyncio.to_thread(cluster.owner_of, slot)
        move = SlotMove(cluster, slot, await asyncio.to_thread(cluster.other_primary, source))
        await asyncio.to_thread(move.begin)
        await asyncio.to_thread(move.move_keys, 1)
        deleting = []
        for number in range(READERS):  # all is sent again and again until the slot has moved
            consumer = b"%d" % number
            reading = asyncio.create_task(got(backend, take(consumer)))
            await asyncio.sleep(0.005)  # else all would be sent again at the same times
            reading.cancel()
            await asyncio.wait([reading])
            deletion = DeleteConsumer(S, G, consumer, release=True)
            deleting.append(asyncio.create_task(backend.perform(deletion)))
        await asyncio.to_thread(move.move_keys)
        await asyncio.to_thread(move.end)
        await asyncio.gather(*deleting)
    async with running(cluster.url) as backend:  # the reads are over
        await until_served(backend, S)
        assert await backend.perform(ListConsumers(S, G)) == []


async def test_functions_that_are_lost_are_loaded_again(
    cluster: FailingCluster, running: Running
) -> None:
    async with running(cluster.url) as backend:
        await until_served(backend, S)
        for primary in await asyncio.to_thread(cluster.primaries):
            await asyncio.to_thread(flush, primary)
        assert await Appender(backend, S).append()


async def test_a_cluster_that_lacks_slots_is_used_again_when_it_has_them(
    cluster: FailingCluster, running: Running, key: str, prefix: str
) -> None:
    elsewhere = await asyncio.to_thread(another_stream, cluster, prefix)
    async with running(cluster.url) as backend:
        await until_served(backend, S)
        await until_served(backend, elsewhere)
        primary = await asyncio.to_thread(cluster.primary_of, key)
        replica = await asyncio.to_thread(cluster.replica_of, primary)
        replica.kill()
        primary.kill()
        appender, other = Appender(backend, S), Appender(backend, elsewhere)
        assert not await appender.append()
        async with asyncio.timeout(WITHIN_S):  # until the others know, and answer CLUSTERDOWN
            while await other.append():
                pass
        await asyncio.to_thread(cluster.mend)
        await until_served(backend, S)
        await until_served(backend, elsewhere)
