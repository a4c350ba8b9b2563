"""redis-py, blocking and with asyncio, over RESP2 and RESP3."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.exceptions import ResponseError, WatchError
from redis.retry import Retry

from tests.conditions import eventually
from tests.processes.gateway import HOST, GatewayProcess

pytestmark = pytest.mark.usefixtures("left_by_others")

BOTH = pytest.mark.parametrize("protocol", [2, 3])


@pytest.fixture
def protocol() -> int:
    return 3


@pytest.fixture
def client(gateway: GatewayProcess, protocol: int) -> Iterator[Any]:
    with redis.Redis(HOST, gateway.redis_port, protocol=protocol, decode_responses=True) as client:
        yield client


@pytest.fixture
async def async_client(gateway: GatewayProcess, protocol: int) -> AsyncIterator[Any]:
    client = redis.asyncio.Redis(
        host=HOST, port=gateway.redis_port, protocol=protocol, decode_responses=True
    )
    yield client
    await client.aclose()


def entries_of(reply: Any, stream: str) -> list[Any]:
    """Return the entries of a stream in a reply: in RESP3 it is a map with a list of batches."""
    if isinstance(reply, dict):
        [batch] = reply[stream]
        return list(batch)
    [[name, entries]] = reply
    assert name == stream
    return list(entries)


@BOTH
def test_entries_are_written_and_read(client: Any, stream: str) -> None:
    assert client.ping() is True
    assert client.xadd(stream, {"sku": "a", "name": "é"}, id="1-1") == "1-1"
    assert client.xadd(stream, {"sku": "b"}, id="2-0", maxlen=10, approximate=False) == "2-0"
    assert client.xadd("none", {"sku": "c"}, nomkstream=True) is None
    with pytest.raises(ResponseError, match="equal or smaller than the target stream top item"):
        client.xadd(stream, {"sku": "c"}, id="1-1")
    assert client.xlen(stream) == 2
    assert client.xrange(stream) == [("1-1", {"sku": "a", "name": "é"}), ("2-0", {"sku": "b"})]
    assert client.xrevrange(stream, count=1) == [("2-0", {"sku": "b"})]
    assert entries_of(client.xread({stream: "1-1"}), stream) == [("2-0", {"sku": "b"})]
    about = client.xinfo_stream(stream)
    assert (about["length"], about["first-entry"]) == (2, ("1-1", {"sku": "a", "name": "é"}))
    assert client.xtrim(stream, maxlen=1, approximate=False) == 1
    assert client.xdel(stream, "2-0") == 1
    assert client.type(stream) == "stream"
    assert client.expire(stream, 100)
    assert 0 < client.ttl(stream) <= 100
    assert stream in client.scan_iter(match="stream-*")
    assert client.delete(stream) == 1


@BOTH
def test_a_group_shares_entries(client: Any, stream: str) -> None:
    for number in (1, 2, 3, 4):
        client.xadd(stream, {"n": number}, id=f"{number}-0")
    assert client.xgroup_create(stream, "g", id="0") is True
    with pytest.raises(ResponseError, match="BUSYGROUP"):
        client.xgroup_create(stream, "g")

    mine = entries_of(client.xreadgroup("g", "me", {stream: ">"}, count=3), stream)
    assert mine == [(f"{number}-0", {"n": str(number)}) for number in (1, 2, 3)]
    assert entries_of(client.xreadgroup("g", "you", {stream: ">"}), stream) == [("4-0", {"n": "4"})]
    pending = client.xpending(stream, "g")
    assert (pending["pending"], pending["min"], pending["max"]) == (4, "1-0", "4-0")
    assert pending["consumers"] == [{"name": "me", "pending": 3}, {"name": "you", "pending": 1}]
    assert client.xack(stream, "g", "1-0", "9-0") == 1
    [second, _] = client.xpending_range(stream, "g", "-", "+", 10, "me")
    assert (second["message_id"], second["consumer"], second["times_delivered"]) == ("2-0", "me", 1)
    assert client.xclaim(stream, "g", "you", 0, ["2-0"]) == [("2-0", {"n": "2"})]
    following, claimed, deleted = client.xautoclaim(stream, "g", "third", 0, count=2)
    assert (following, [entry for entry, _ in claimed], deleted) == ("4-0", ["2-0", "3-0"], [])
    [group] = client.xinfo_groups(stream)
    assert (group["name"], group["pending"], group["lag"]) == ("g", 3, 0)
    pending_counts = {each["name"]: each["pending"] for each in client.xinfo_consumers(stream, "g")}
    assert pending_counts == {"me": 0, "you": 1, "third": 2}
    assert client.xgroup_delconsumer(stream, "g", "third") == 2
    assert client.xgroup_destroy(stream, "g") == 1


@BOTH
def test_a_pipeline_is_answered_in_order(client: Any, stream: str) -> None:
    with client.pipeline(transaction=False) as pipeline:
        for number in range(1, 1001):
            pipeline.xadd(stream, {"n": number}, id=f"{number}-0")
        pipeline.xlen(stream)
        replies = pipeline.execute()
    assert replies == [*(f"{number}-0" for number in range(1, 1001)), 1000]


@BOTH
def test_a_transaction_is_undone_by_another_writer(
    gateway: GatewayProcess, client: Any, stream: str
) -> None:
    attempts = []

    def append_after_last(pipeline: Any) -> None:
        attempts.append(pipeline.xlen(stream))
        if len(attempts) == 1:  # a writer that comes between
            client.xadd(stream, {"by": "another"}, id="1-0")
        pipeline.multi()
        pipeline.xadd(stream, {"by": "me"}, id=f"{attempts[-1] + 1}-0")
        pipeline.xlen(stream)

    assert client.transaction(append_after_last, stream) == ["2-0", 2]
    assert attempts == [0, 1]

    with client.pipeline() as pipeline:
        pipeline.watch(stream)
        client.xtrim(stream, maxlen=0, approximate=False)
        pipeline.multi()
        pipeline.xlen(stream)
        with pytest.raises(WatchError):
            pipeline.execute()


def test_a_connection_that_was_ended_is_made_anew(gateway: GatewayProcess, stream: str) -> None:
    retry = Retry(NoBackoff(), 3)
    with (
        redis.Redis(HOST, gateway.redis_port, client_name="victim", retry=retry) as victim,
        redis.Redis(HOST, gateway.redis_port, health_check_interval=1) as other,
    ):
        before = victim.client_id()
        [line] = [each for each in other.client_list() if each["name"] == "victim"]
        assert (int(line["id"]), line["lib-name"], line["resp"]) == (before, "redis-py", "3")
        assert other.client_kill_filter(_id=str(before)) == 1
        assert victim.xadd(stream, {"a": "b"}, id="1-0") == b"1-0"
        assert victim.client_id() != before
        assert victim.client_getname() in ("victim", b"victim")


async def blocked_count(client: Any) -> int:
    """Return how many clients wait in a read that blocks."""
    return sum("b" in each["flags"] for each in await client.client_list())


@BOTH
async def test_a_read_waits_for_an_entry(async_client: Any, stream: str) -> None:
    await async_client.xgroup_create(stream, "g", mkstream=True)
    reads = [
        asyncio.create_task(async_client.xread({stream: "$"}, block=20_000)),
        *(
            asyncio.create_task(
                async_client.xreadgroup("g", consumer, {stream: ">"}, count=1, block=20_000)
            )
            for consumer in ("me", "you")
        ),
    ]
    await eventually(lambda: blocked_count(async_client), lambda count: count == 3)
    async with async_client.pipeline(transaction=True) as pipeline:
        pipeline.xadd(stream, {"n": 1}, id="1-0").xadd(stream, {"n": 2}, id="2-0")
        assert await pipeline.execute() == ["1-0", "2-0"]
    followed, *shared = [entries_of(reply, stream) for reply in await asyncio.gather(*reads)]
    first, second = ("1-0", {"n": "1"}), ("2-0", {"n": "2"})
    assert followed == [first, second]
    assert sorted(shared) == [[first], [second]]
    assert await async_client.xack(stream, "g", "1-0", "2-0") == 2
    assert not await async_client.xreadgroup("g", "me", {stream: ">"}, block=1)
