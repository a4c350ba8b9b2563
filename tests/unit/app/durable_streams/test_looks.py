"""Looks of subscriptions at the streams of their patterns have a share of the time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from itertools import pairwise
from typing import TypeVar

import msgspec

from headgate.app.automation.targets import Targets
from headgate.app.automation.webhooks import Sender
from headgate.app.durable_streams.subscriptions.runner import SubscriptionRunner
from headgate.app.durable_streams.subscriptions.store import (
    SubscriptionDefinition,
    SubscriptionState,
    WakeKind,
)
from headgate.engine.engine import Engine
from headgate.engine.entry import Draft
from headgate.engine.journal.storage import MemoryStorage
from headgate.engine.requests import Request
from headgate.engine.requests.entries import Add
from headgate.engine.requests.streams import AttributeChange, CreateStream, ListStreams
from tests.virtual_time import VirtualClock, in_virtual_time, now_ms

T = TypeVar("T")

LOOK_S = 0.1


@in_virtual_time
async def test_looks_at_all_streams_take_a_fifth_of_the_time_at_most() -> None:
    clock = VirtualClock()
    engine = Engine(MemoryStorage(), clock=clock)
    looks = list[int]()

    def perform(request: Request[T]) -> Awaitable[T]:
        return slow(request) if is_look(request) else engine.perform(request)

    async def slow(request: Request[T]) -> T:
        looks.append(now_ms())
        await asyncio.sleep(LOOK_S)
        return await engine.perform(request)

    for number in range(3):
        name = b"__ds:%d" % number
        wanted = SubscriptionDefinition(
            WakeKind.PULL_WAKE, "**", (), None, f"wakes-{number}", 1_000, None
        )
        state = msgspec.json.encode(SubscriptionState(wanted, "http://here/", 0))
        await engine.perform(CreateStream(name, attributes=AttributeChange({b"state": state})))
    runner = SubscriptionRunner(perform, Sender(Targets()), clock, has_patterns=True)
    running = asyncio.create_task(runner.run())
    for _ in range(100):
        await engine.perform(Add(b"orders", [Draft(None, (b"f", b"v"))]))
        await asyncio.sleep(LOOK_S)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    pauses = [after - before for before, after in pairwise(looks)]
    assert len(looks) > 10
    assert min(pauses) >= 5 * LOOK_S * 1000


def is_look(request: Request[T]) -> bool:
    return isinstance(request, ListStreams) and not request.prefix
