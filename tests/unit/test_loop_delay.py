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

from app.commands import CommandRunner
from app.loop_delay import LoopDelay
from app.telemetry import Metrics, RequestMetrics
from engine.clock import SystemClock
from engine.engine import Engine
from engine.storage import MemoryStorage

HOLD_S = 0.3
WARN_MS = 50


def hold() -> None:
    """Hold the loop as a long computation does."""
    until_s = time.perf_counter() + HOLD_S
    while time.perf_counter() < until_s:
        pass


class SlowClock(SystemClock):
    """A clock that takes long to read."""

    def wall_ms(self) -> int:
        hold()
        return super().wall_ms()


@asynccontextmanager
async def measured(registry: CollectorRegistry) -> AsyncIterator[None]:
    """Measure the running loop while the context lasts."""
    measuring = asyncio.create_task(LoopDelay(registry, WARN_MS).run())
    await asyncio.sleep(0)
    yield
    measuring.cancel()
    await asyncio.gather(measuring, return_exceptions=True)


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def told_of(
    request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> Callable[[Callable[[], Awaitable[Any]]], tuple[dict[str, Any], str]]:
    """Return how to run something on a measured loop: it tells the warning, and the metrics."""

    def run(
        work: Callable[[], Awaitable[Any]],
    ) -> tuple[dict[str, Any], str]:
        registry = CollectorRegistry()

        async def held() -> None:
            async with measured(registry), asyncio.timeout(10):
                await work()
                while not caplog.records:
                    await asyncio.sleep(0.01)

        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(held())
        longest = max(caplog.records, key=lambda one: vars(one)["held_ms"])
        assert (longest.levelno, longest.msg) == (logging.WARNING, "event loop held")
        return vars(longest), generate_latest(registry).decode()

    return run


Told = Callable[[Callable[[], Awaitable[Any]]], tuple[dict[str, Any], str]]


def test_a_hold_is_measured_and_its_function_named(told_of: Told) -> None:
    async def work() -> None:
        hold()

    warning, metrics = told_of(work)

    assert warning["held_ms"] >= HOLD_S * 1000 - WARN_MS
    assert warning["function"].endswith("test_loop_delay:hold")
    assert warning["operation"].endswith("held")
    longest = re.search(r"^headgate_loop_delay_longest_seconds (\S+)$", metrics, re.MULTILINE)
    assert longest is not None
    assert float(longest[1]) >= HOLD_S - WARN_MS / 1000
    assert 'headgate_loop_delay_seconds_bucket{le="0.1"}' in metrics


def test_a_hold_by_a_request_is_named_by_its_operation(told_of: Told) -> None:
    async def answer(scope: Any, receive: Any, send: Any) -> None:
        hold()

    async def work() -> None:
        scope = {"type": "http", "method": "GET", "path": "/slow"}
        await RequestMetrics(answer, Metrics())(scope, None, None)  # type: ignore[arg-type]

    warning, _ = told_of(work)

    assert warning["operation"] == "GET /slow"


def test_a_hold_by_a_command_is_named_by_it(told_of: Told) -> None:
    async def work() -> None:
        engine = Engine(MemoryStorage(records_max=1), clock=SlowClock())
        await CommandRunner(engine).run([b"xadd", b"orders", b"*", b"k", b"v"])

    warning, _ = told_of(work)

    assert warning["operation"] == "XADD"
    assert warning["function"] == "engine.engine:Engine._now_ms"
    assert warning["stack"][0].startswith("engine.engine:Engine._now_ms:")


def test_a_hold_by_a_task_in_the_background_is_named_by_it(told_of: Told) -> None:
    async def sweep() -> None:
        hold()

    warning, _ = told_of(lambda: asyncio.create_task(sweep()))

    assert warning["operation"].endswith("sweep")


def test_one_warning_tells_of_many_holds(told_of: Told, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        for _ in range(4):
            hold()
            await asyncio.sleep(0.12)

    told_of(work)

    assert 1 <= len(caplog.records) < 4


def test_nobody_looks_on_once_the_loop_has_ended(told_of: Told) -> None:
    async def work() -> None:
        hold()

    told_of(work)

    assert "loop delay" not in [one.name for one in threading.enumerate() if one.is_alive()]
