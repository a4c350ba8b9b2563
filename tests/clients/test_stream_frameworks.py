"""coredis, which speaks RESP3 only, and frameworks: walrus, FastStream, taskiq."""

import asyncio
from typing import Any

import coredis
import pytest
import redis
import redis.asyncio
from coredis.exceptions import StreamDuplicateConsumerGroupError
from coredis.patterns.streams import Consumer, GroupConsumer
from faststream.redis import PubSub, RedisBroker, StreamSub
from redis.exceptions import ResponseError
from taskiq import AckableMessage
from taskiq.receiver import Receiver
from taskiq_redis import RedisStreamBroker
from walrus import Database

from tests.conditions import WITHIN_S, moment
from tests.processes.gateway import HOST, GatewayProcess

pytestmark = pytest.mark.usefixtures("left_by_others")


@pytest.fixture
def client(gateway: GatewayProcess) -> Any:
    return redis.asyncio.Redis(host=HOST, port=gateway.redis_port)


async def pending_count(client: Any, stream: str, group: str) -> int:
    return int((await client.xpending(stream, group))["pending"])


async def test_walrus_reads_as_a_group(gateway: GatewayProcess, stream: str) -> None:
    def read_and_settle() -> None:
        with Database(HOST, gateway.redis_port) as database:
            log = database.Stream(stream)
            ids = [log.add({"n": number}, id=f"{number}-0") for number in (1, 2, 3)]
            assert (ids, len(log)) == ([b"1-0", b"2-0", b"3-0"], 3)
            assert log["2-0"] == (b"2-0", {b"n": b"2"})
            assert [entry_id for entry_id, _ in log["2-0":]] == [b"2-0", b"3-0"]
            assert [entry_id for entry_id, _ in log.read(last_id="1-0")] == [b"2-0", b"3-0"]

            group = database.consumer_group("g", [stream], consumer="me")
            assert group.create() == {stream: True}
            group.set_id("0")
            [[name, entries]] = group.read(count=2)
            assert (name.decode(), [entry_id for entry_id, _ in entries]) == (stream, ids[:2])
            member = getattr(group.consumer("you"), stream.replace("-", "_"))
            assert [entry_id for entry_id, _ in member.read(block=1)] == [b"3-0"]
            assert [pending["message_id"] for pending in member.pending()] == ids
            assert [entry_id for entry_id, _ in member.claim(b"1-0")] == [b"1-0"]
            assert member.ack(b"1-0", b"3-0") == 2
            del log["3-0"]
            assert log.trim(1, approximate=False) == 1
            assert [pending["message_id"] for pending in member.pending()] == [b"2-0"]
            group.destroy()
            log.clear()

    await asyncio.to_thread(read_and_settle)


async def test_faststream_takes_over(gateway: GatewayProcess, client: Any, stream: str) -> None:
    broker = RedisBroker(gateway.redis_url)
    followed: list[list[str]] = []
    is_taken_over, is_followed = asyncio.Event(), asyncio.Event()

    @broker.subscriber(stream=StreamSub(stream, last_id="0", batch=True, polling_interval=100))
    async def follow(texts: list[str]) -> None:
        followed.append(texts)
        if sum(map(len, followed)) == 3:
            is_followed.set()

    claiming = StreamSub(stream, group="g", consumer="you", min_idle_time=1, polling_interval=100)

    @broker.subscriber(stream=claiming)
    async def take_over(text: str) -> None:
        if text == "c":
            is_taken_over.set()

    async with broker, client:
        await client.xgroup_create(stream, "g", mkstream=True)
        for text in "abc":
            await broker.publish(text, stream=stream)
        await client.xreadgroup("g", "me", {stream: ">"})  # and dies
        await broker.start()
        async with asyncio.timeout(WITHIN_S):
            await is_followed.wait()
            await is_taken_over.wait()
            while await pending_count(client, stream, "g"):
                await moment()
    assert [text for texts in followed for text in texts] == ["a", "b", "c"]


async def test_faststream_asks_and_is_answered_over_channels(
    gateway: GatewayProcess, stream: str
) -> None:
    broker = RedisBroker(gateway.redis_url)

    @broker.subscriber(stream)
    async def double(number: int) -> int:
        return 2 * number

    @broker.subscriber(PubSub(f"{stream}.*", pattern=True))
    async def triple(number: int) -> int:
        return 3 * number

    async with broker:
        await broker.start()
        answers = [
            await broker.request(number, channel, timeout=WITHIN_S)
            for channel in (stream, f"{stream}.any")
            for number in range(50)
        ]
    wanted = [factor * number for factor in (2, 3) for number in range(50)]
    assert [await answer.decode() for answer in answers] == wanted


async def test_taskiq_runs_and_acknowledges_tasks(
    gateway: GatewayProcess, client: Any, stream: str
) -> None:
    """Up to the end of the first batch, after which the broker takes a lock with SET and Lua."""
    broker = RedisStreamBroker(
        gateway.redis_url, queue_name=stream, consumer_group_name="g", xread_block=100
    )
    results: list[int] = []

    @broker.task(task_name="add")
    async def add(left: int, right: int) -> None:
        results.append(left + right)

    await broker.startup()
    async with client:
        for number in range(5):
            await add.kiq(number, 1)
        assert await client.xlen(stream) == 5
        receiver, tasks = Receiver(broker), broker.listen()
        for _ in range(5):
            message = await anext(tasks)
            assert isinstance(message, AckableMessage)
            await receiver.callback(message)
        assert sorted(results) == [1, 2, 3, 4, 5]
        assert await pending_count(client, stream, "g") == 0
        with pytest.raises(ResponseError, match="unknown subcommand 'EXISTS'"):
            await anext(tasks)
    await broker.shutdown()


@pytest.fixture
def core(gateway: GatewayProcess) -> Any:
    """Return a client; a test enters it itself, as its tasks belong to the task of the test."""
    return coredis.Redis(
        HOST, gateway.redis_port, decode_responses=True, client_name="coredis-test"
    )


async def test_a_group_shares_entries(core: Any, stream: str) -> None:
    async with core as client:
        for number in (1, 2, 3):
            await client.xadd(stream, {"n": number}, identifier=f"{number}-0")
        assert await client.xgroup_create(stream, "g", identifier="0")
        with pytest.raises(StreamDuplicateConsumerGroupError):
            await client.xgroup_create(stream, "g")
        read = await client.xreadgroup("g", "me", {stream: ">"}, count=2)
        assert [entry.identifier for entry in read[stream]] == ["1-0", "2-0"]
        assert await client.xack(stream, "g", ["1-0"]) == 1
        pending = await client.xpending(stream, "g")
        assert (pending.pending, pending.minimum_identifier) == (1, "2-0")
        about = await client.xinfo_stream(stream)
        assert (about["length"], about["last-entry"].identifier) == (3, "3-0")
        assert await client.client_getname() == "coredis-test"
        assert (await client.client_info())["resp"] == "3"
        following, claimed, deleted = await client.xautoclaim(stream, "g", "you", 0, "0")
        assert (following, [entry.identifier for entry in claimed], deleted) == ("0-0", ["2-0"], ())
        [group] = await client.xinfo_groups(stream)
        assert (group["name"], group["pending"], group["lag"]) == ("g", 1, 1)


async def test_a_consumer_goes_on_where_it_left_off(core: Any, stream: str) -> None:
    async with core as client:
        for number in (1, 2):
            await client.xadd(stream, {"n": number}, identifier=f"{number}-0")
        await client.xgroup_create(stream, "g", identifier="0")
        await client.xreadgroup("g", "me", {stream: ">"}, count=1)  # and dies
        async with GroupConsumer(
            client, [stream], group="g", consumer="me", start_from_backlog=True
        ) as consumer:
            entries = [await consumer.get_entry() for _ in range(3)]
        ids = [None if entry is None else entry.identifier for _, entry in entries]
        assert ids == ["1-0", "2-0", None]

        async with Consumer(client, [stream], timeout=20_000) as follower:
            following = asyncio.create_task(follower.get_entry())
            async with asyncio.timeout(WITHIN_S):
                while not any("b" in each["flags"] for each in await client.client_list()):
                    await moment()
                await client.xadd(stream, {"n": 3}, identifier="3-0")
                name, entry = await following
        assert entry is not None
        assert (name, entry.identifier, dict(entry.field_values)) == (stream, "3-0", {"n": "3"})
