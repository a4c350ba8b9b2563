"""The same random histories through a group in order by key, and through a FIFO queue of SQS.

`README.md` says where the two mean different things; the last tests here show it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from pydantic import SecretStr

from deploy.local_cluster.server import Server
from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.gateway.backends import open_backend
from headgate.app.settings import Settings
from headgate.engine.config import FieldName
from headgate.engine.engine import Engine
from headgate.engine.journal.storage import MemoryStorage
from tests.oracles.group import DEAD, GroupQueue
from tests.oracles.queue import STEPS, VISIBLE_S, History, Received
from tests.oracles.sqs import DELIVERIES_MAX, FifoQueue
from tests.running import running
from tests.virtual_time import ManualClock

HISTORIES, LONG_HISTORIES = 8, 300

RULES = {
    "key_field": FieldName(b"key"),
    "key_pending_max": 1,
    "max_deliveries": DELIVERIES_MAX,
    "dead_letter_stream": DEAD,
}
BEGIN_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def aws() -> Iterator[None]:
    """Let the client of AWS meet `moto` in this process."""
    with mock_aws():
        yield


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """Return a clock that `moto` goes by."""
    clock = ManualClock(BEGIN_MS)
    monkeypatch.setattr("moto.sqs.models.unix_time_millis", lambda: float(clock.now_ms))
    monkeypatch.setattr("moto.sqs.models.unix_time", lambda: clock.now_ms / 1000)
    return clock


def engine(clock: ManualClock) -> EmbeddedBackend:
    return EmbeddedBackend(Engine(MemoryStorage(records_max=0), clock=clock))


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(HISTORIES), id="quick"),
        pytest.param(range(LONG_HISTORIES), id="long", marks=pytest.mark.long),
    ],
)
async def test_the_engine_gives_what_sqs_gives(clock: ManualClock, seeds: range) -> None:
    received_count = dead_letter_count = 0
    for seed in seeds:
        group = GroupQueue(engine(clock))
        await group.create(**RULES)
        history = History(
            seed, [FifoQueue(f"orders-{seed}"), group], clock, deliveries_max=DELIVERIES_MAX
        )
        await history.run()
        received_count += history.received_count
        dead_letter_count += history.dead_letter_count
    assert received_count > len(seeds) * STEPS // 3
    assert dead_letter_count > len(seeds)


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(HISTORIES // 2 - 1), id="quick"),
        pytest.param(range(LONG_HISTORIES // 6), id="long", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("fixture", ["redis_7", "valkey_9"])
async def test_servers_give_what_sqs_gives(
    fixture: str, request: pytest.FixtureRequest, seeds: range
) -> None:
    server: Server = request.getfixturevalue(fixture)
    received_count = 0
    for seed in seeds:
        prefix = f"fifo{seed}-{len(seeds)}:"  # the other length may have been tried before
        settings = Settings(backend=SecretStr(server.url), redis_prefix=prefix)
        async with running(open_backend(settings)) as backend:
            group = GroupQueue(backend)
            await group.create(**RULES)
            history = History(
                seed, [FifoQueue(f"orders-{seed}"), group], deliveries_max=DELIVERIES_MAX
            )
            await history.run()
            received_count += history.received_count
    assert received_count > len(seeds) * STEPS // 3


# Where they differ


@pytest.fixture
async def group(clock: ManualClock) -> GroupQueue:
    group = GroupQueue(engine(clock))
    await group.create(**RULES)
    return group


@pytest.fixture
def queue(clock: ManualClock) -> FifoQueue:
    return FifoQueue("orders")


async def test_one_request_to_sqs_gets_several_of_a_key(
    queue: FifoQueue, group: GroupQueue
) -> None:
    first, second = Received("a", "1", 1), Received("a", "2", 1)
    for each in (queue, group):
        await each.send("a", "1")
        await each.send("a", "2")
    assert await queue.receive_many(10) == [first, second]
    assert await group.receive_many(10) == [first]


async def test_sqs_makes_a_dead_letter_when_an_entry_would_come_again(
    queue: FifoQueue, group: GroupQueue, clock: ManualClock
) -> None:
    for each in (queue, group):
        await each.send("a", "1")
        for _ in range(DELIVERIES_MAX):
            assert await each.receive() is not None
            await each.retry("1", 0)
            clock.now_ms += 1
    assert await group.dead_letters() == [("a", "1")]
    assert await queue.dead_letters() == []
    assert await queue.receive() is None
    assert await queue.dead_letters() == [("a", "1")]


async def test_who_was_too_slow_may_settle_an_entry_of_sqs(
    queue: FifoQueue, group: GroupQueue, clock: ManualClock
) -> None:
    for each in (queue, group):
        await each.send("a", "1")
        assert await each.receive() is not None
        clock.now_ms += (VISIBLE_S + 1) * 1000
        assert await each.receive() == Received("a", "1", 2)
        await each.delete("1", delivery=0)
        clock.now_ms += (VISIBLE_S + 1) * 1000
    assert await queue.receive() is None
    assert await group.receive() == Received("a", "1", 3)


async def test_an_entry_of_sqs_has_a_key(queue: FifoQueue, group: GroupQueue) -> None:
    with pytest.raises(ClientError, match="MessageGroupId"):
        await queue.send("", "1")
    await group.send("", "1")
    await group.send("", "2")
    assert await group.receive_many(10) == [Received("", "1", 1)]  # an empty key is a key
