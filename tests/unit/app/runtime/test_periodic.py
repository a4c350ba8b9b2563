"""Periodic work of the gateway goes on after a failure, and says once that it fails."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from prometheus_client import CollectorRegistry

from headgate.app.auth.credentials import CredentialOptions, Credentials
from headgate.app.auth.grants import UsageLimits
from headgate.app.auth.keys.watch import KeyWatch
from headgate.app.auth.limits.shared_usage import SharedUsage
from headgate.app.auth.limits.usage import Usages
from headgate.app.backends.redis.address import Address, read_url
from headgate.app.backends.redis.client import Client, ClientOptions
from headgate.app.backends.redis.durability import Durability
from headgate.app.backends.redis.faults import Lost
from headgate.app.backends.redis.keys import KeyNames
from headgate.app.backends.redis.node import Node
from headgate.app.backends.redis.waiting.wait_queues import QueuedRead, WaitQueues
from headgate.app.backends.redis.waiting.wake_ups import WakeUps
from headgate.app.runtime import collector, periodic
from headgate.app.runtime.collector import MemoryUse
from headgate.app.runtime.families import Collected
from headgate.app.runtime.siblings import SharedCounts
from headgate.engine.loop.wait_queue import QueueKey
from tests.failures import FAILURES, each_failure
from tests.siblings import Sibling
from tests.virtual_time import in_virtual_time, settle

TIMES = [1, 20]

_FAILED, _AGAIN = "periodic work has failed, and is tried again", "periodic work goes again"


class Scene(NamedTuple):
    """A work that runs, and what fails in it."""

    run: Callable[[], Coroutine[Any, Any, object]]
    owner: Any
    attribute: str
    value: Any = None  # what it returns once it does not fail; a function is called
    before: Callable[[], object] = lambda: None  # it is to be done, so that there is work
    bears: tuple[type[Exception], ...] = ()  # it looks for servers again by itself


async def nothing(*_: object, **__: object) -> None:
    """Do nothing."""


def memory() -> Scene:
    return Scene(
        lambda: collector.keep_low(lambda: 0), asyncio, "to_thread", value=MemoryUse(2**20, 0)
    )


def changes_announced() -> Scene:
    siblings = Sibling(has_engine=False)
    credentials = Credentials(CredentialOptions(siblings=siblings))
    credentials._shared_usage = SharedUsage(Usages(UsageLimits(), lambda: 0.0), siblings)
    return Scene(credentials.run, siblings, "announce", before=credentials._note_change)


def usage_shared() -> Scene:
    shared = SharedUsage(Usages(UsageLimits(), lambda: 0.0), Sibling(has_engine=False))
    reports = shared._reports
    return Scene(shared.run, shared, "_reports", reports, lambda: shared._changed.add("anybody"))


def counts_shared() -> Scene:
    siblings, counts = Sibling(has_engine=False), {"connections": 0}

    def change() -> None:
        counts["connections"] += 1

    shared = SharedCounts(siblings, "connections", lambda: dict(counts))
    return Scene(shared.run, siblings, "announce", before=change)


def options() -> ClientOptions:
    return ClientOptions(read_url("redis://127.0.0.1:1"))


def topology() -> Scene:
    client = Client(options())
    return Scene(client.run, client, "_discover", before=client.look_again)


def wake_ups() -> Scene:
    made = WakeUps(options(), [b"p"], lambda _: None, lambda: None, lambda: None)
    made.follow([Address("127.0.0.1", 1)])
    return Scene(made.run, made, "_listen_once", bears=(OSError,))


WORKS = [memory, changes_announced, usage_shared, counts_shared, topology, wake_ups]
"""What must not forget in a round that fails what it had to do, and one of the others."""


class Cause:
    """Makes something fail so many times, and counts how often it did not fail after that."""

    def __init__(self, failure: Exception, times: int) -> None:
        self.failure = failure
        self.left = times
        self.success_count = 0

    def patched(self, scene: Scene) -> Any:
        def act(*args: Any, **options: Any) -> Any:
            if self.left:
                self.left -= 1
                raise self.failure
            self.success_count += 1
            return scene.value(*args, **options) if callable(scene.value) else scene.value

        async def act_later(*args: Any, **options: Any) -> Any:
            await asyncio.sleep(0)
            return act(*args, **options)

        is_async = inspect.iscoroutinefunction(getattr(scene.owner, scene.attribute))
        return act_later if is_async else act


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    # `message` is there only if a handler has formatted the line, which another test may change.
    texts = [line.getMessage() for line in caplog.records]
    return [text for text in texts if text.startswith("periodic work")]


@each_failure
@pytest.mark.parametrize("times", TIMES, ids=["once", "for a while"])
@pytest.mark.parametrize("make", WORKS)
@in_virtual_time
async def test_the_work_goes_on(
    make: Callable[[], Scene],
    times: int,
    failure: Exception,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    scene, cause = make(), Cause(failure, times)
    is_borne = isinstance(failure, scene.bears)
    monkeypatch.setattr(scene.owner, scene.attribute, cause.patched(scene))
    running = asyncio.ensure_future(scene.run())

    for _ in range(40_000):
        if cause.success_count > 1 and (is_borne or _AGAIN in lines(caplog)):
            break
        scene.before()
        await asyncio.sleep(0.2)
        assert not running.done()

    running.cancel()
    await asyncio.wait([running])
    assert (cause.left, cause.success_count > 1) == (0, True)
    if not is_borne:
        failed, *after = lines(caplog)
        assert (failed, _AGAIN in after) == (_FAILED, True)
        assert len(after) <= 3, "a line of each kind of failure for each work"


def families() -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(Collected(periodic.failure_families))
    return {
        sample.labels["work"]: sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == "headgate_periodic_failures_total"
    }


def test_failures_are_logged_once_and_counted_all(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    note = periodic.watch("work of a test")
    before = families().get("work of a test", 0)

    for _ in range(50):
        for failure in FAILURES:
            note(failure)
        note(None)

    assert families()["work of a test"] == before + 200
    assert len(lines(caplog)) == len(FAILURES) + 1
    first = caplog.records[0]
    assert (first.levelname, first.work) == ("ERROR", "work of a test")  # type: ignore[attr-defined]
    assert first.reason == "OSError: [Errno 24] Too many open files"  # type: ignore[attr-defined]


# What needs more than one call to fail.


@each_failure
async def test_who_asks_a_server_hears_of_a_failure_and_the_next_one_is_answered(
    failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(lambda: None, Durability(), 1.0)  # type: ignore[arg-type, return-value]
    running = asyncio.create_task(node.run())
    replies: Iterator[Exception | list[Any]] = iter([failure, [b"PONG"]])

    async def exchange(packed: bytes, count: int) -> list[Any]:
        reply = next(replies)
        if isinstance(reply, Exception):
            raise reply
        return reply

    monkeypatch.setattr(node, "_exchange", exchange)
    async with asyncio.timeout(10):
        with pytest.raises(Lost):
            await node.ask((b"PING",), changes=False)
        assert await node.ask((b"PING",), changes=False) == b"PONG"
    running.cancel()
    await asyncio.wait([running])


@each_failure
@in_virtual_time
async def test_a_blocked_read_is_served_although_its_queue_has_failed(failure: Exception) -> None:
    queues = WaitQueues(KeyNames(b"headgate:"), 10, lambda: True)
    running = asyncio.create_task(queues.run())
    await settle()
    key, left = QueueKey(b"orders", b"billing"), 3

    async def attempt() -> list[int]:
        return [1]

    class Read(QueuedRead[list[int] | None]):
        """Fails when it is given what it has got."""

        def give(self, outcome: Any) -> None:
            nonlocal left
            if left:
                left -= 1
                raise failure
            super().give(outcome)

    read = Read([key], None, attempt, lambda _: None)
    with queues.watching([key]) as watch:
        waiting = asyncio.create_task(queues.block(read, None, watch))
        await settle()
        queues.signal(key)
        async with asyncio.timeout(3600):
            assert await waiting == [1]
    assert not running.done()
    running.cancel()
    await asyncio.wait([running])


async def test_an_expired_key_ends_although_its_file_cannot_be_looked_at(tmp_path: Path) -> None:
    watch = KeyWatch(tmp_path / "keys.json", data_dir=tmp_path, now_ms=lambda: 1)
    ended = asyncio.Event()

    async def look() -> None:
        raise RuntimeError("can't start new thread")

    watch._file.look = look  # type: ignore[method-assign]
    watch.ring.end_expired = lambda _: ended.set()  # type: ignore[method-assign, assignment]
    running = asyncio.create_task(watch.run())
    async with asyncio.timeout(10):
        await ended.wait()
    running.cancel()
    await asyncio.wait([running])
