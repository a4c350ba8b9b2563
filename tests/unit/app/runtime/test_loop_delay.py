"""Loop delay: what holds an event loop is measured and named, on either loop."""

import asyncio
import logging
import re
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop
from prometheus_client import CollectorRegistry, generate_latest

from headgate.app.backends.embedded import EmbeddedBackend
from headgate.app.redis_syntax.runs import CommandRunner
from headgate.app.runtime import loop_delay
from headgate.app.runtime.loop_delay import LoopDelay
from headgate.app.runtime.telemetry import Metrics, RequestMetrics
from headgate.engine.clock import SystemClock
from headgate.engine.engine import Engine
from headgate.engine.journal.storage import MemoryStorage

HOLD_S = 0.2
SHORT_S = 0.12
HOLD_COUNT = 8
WARN_MS = 50
HELD_MS = HOLD_S * 1000 - WARN_MS
"""At least so much of a hold is warned, as a beat may have been due later."""

BEAT_S = 0.1
"""Meanwhile a beat comes, and what held the loop before it is noted."""


def hold(cpu_s: float = HOLD_S) -> None:
    """Hold the loop as a long computation does, longer where others use the processor, too."""
    until_s = time.thread_time() + cpu_s
    while time.thread_time() < until_s:
        pass


class SlowClock(SystemClock):
    """A clock that takes long to read."""

    def wall_ms(self) -> int:
        hold()
        return super().wall_ms()


@asynccontextmanager
async def measured(registry: CollectorRegistry) -> AsyncIterator[None]:
    """Measure the running loop while the context lasts."""
    measuring = asyncio.create_task(LoopDelay(registry, WARN_MS, CommandRunner.run.__code__).run())
    await asyncio.sleep(0)
    yield
    measuring.cancel()
    await asyncio.gather(measuring, return_exceptions=True)


Warnings = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Warnings:
    """Return a function for this test's warnings of loops, without those of others beside it."""
    others = {thread.ident for thread in threading.enumerate()}

    def warned() -> list[dict[str, Any]]:
        mine = [record for record in list(caplog.records) if record.thread not in others]
        assert {(record.levelno, record.msg) for record in mine} <= {
            (logging.WARNING, "event loop held")
        }
        return list(map(vars, mine))

    return warned


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def warned_of(
    request: pytest.FixtureRequest, warnings: Warnings
) -> Callable[[Callable[[], Awaitable[Any]]], tuple[dict[str, Any], str]]:
    """Return a runner on a measured loop: it returns the warning, and the metrics."""

    def run(work: Callable[[], Awaitable[Any]]) -> tuple[dict[str, Any], str]:
        registry = CollectorRegistry()

        async def held() -> None:
            async with measured(registry):
                await work()
                await asyncio.sleep(BEAT_S)

        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(held())
        # On a busy machine the loop may have been held for longer when it was not let run.
        longest = max(warnings(), key=lambda warning: warning["cpu_ms"])
        return longest, generate_latest(registry).decode()

    return run


Warned = Callable[[Callable[[], Awaitable[Any]]], tuple[dict[str, Any], str]]


def test_a_hold_is_measured_and_its_function_named(warned_of: Warned) -> None:
    async def work() -> None:
        hold()

    warning, metrics = warned_of(work)

    assert warning["held_ms"] >= HELD_MS
    assert warning["function"].endswith("test_loop_delay:hold")
    assert warning["operation"].endswith("held")
    longest = re.search(r"^headgate_loop_delay_longest_seconds (\S+)$", metrics, re.MULTILINE)
    assert longest is not None
    assert float(longest[1]) >= HELD_MS / 1000
    assert 'headgate_loop_delay_seconds_bucket{le="0.1"}' in metrics


async def answer_slowly(scope: Any, receive: Any, send: Any) -> None:
    hold()


async def sweep() -> None:
    hold()


@pytest.mark.parametrize(
    ("scope", "operation"),
    [
        ({"type": "http", "method": "GET", "path": "/slow"}, "GET /slow"),
        ({"type": "lifespan"}, "start or stop"),
        (None, "sweep"),  # a task in the background
    ],
)
def test_a_hold_is_named_by_its_operation(
    warned_of: Warned, scope: dict[str, str] | None, operation: str
) -> None:
    def work() -> Awaitable[Any]:
        if scope is None:
            return asyncio.create_task(sweep())
        return RequestMetrics(answer_slowly, Metrics())(scope, None, None)  # type: ignore[arg-type]

    warning, _ = warned_of(work)

    assert warning["operation"].endswith(operation)


def test_a_hold_by_a_command_is_named_by_it(warned_of: Warned) -> None:
    async def work() -> None:
        engine = Engine(MemoryStorage(records_max=1), clock=SlowClock())
        await CommandRunner(EmbeddedBackend(engine)).run([b"xadd", b"orders", b"1-1", b"k", b"v"])

    warning, _ = warned_of(work)

    assert warning["operation"] == "XADD"
    assert warning["function"] == "headgate.engine.loop.appends:Appends._decided"
    assert warning["stack"][0].startswith("headgate.engine.loop.appends:Appends._decided:")


def test_one_warning_tells_of_many_holds(
    warned_of: Warned, warnings: Warnings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        for _ in range(HOLD_COUNT):
            hold(SHORT_S)
            await asyncio.sleep(BEAT_S)

    monkeypatch.setattr(loop_delay, "WARN_EVERY_S", 3600)
    warned_of(work)

    given = warnings()
    assert sum(1 + warning.get("left_out", 0) for warning in given) >= HOLD_COUNT
    assert len(given) <= 2  # the first at once, and the last when the loop ends


def test_nobody_looks_on_once_the_loop_has_ended(warned_of: Warned) -> None:
    others = threading.enumerate()

    async def work() -> None:
        hold()

    warned_of(work)

    assert "loop delay" not in [
        thread.name for thread in threading.enumerate() if thread not in others
    ]
