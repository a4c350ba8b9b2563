"""Background work in the process that has the streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from prometheus_client import CollectorRegistry

from headgate.app.automation.push_runner import PushRunner
from headgate.app.automation.pusher import Parts
from headgate.app.automation.schedules import ScheduleRunner
from headgate.app.automation.signing import Sealing
from headgate.app.automation.webhooks import Sender
from headgate.app.backends.port import Ability, Backend
from headgate.app.durable_streams.subscriptions.runner import SubscriptionRunner
from headgate.app.runtime.telemetry import Collected
from headgate.engine.clock import SystemClock


class Runner(Protocol):
    async def run(self) -> None: ...


def runners_of(
    backend: Backend, sender: Sender, sealing: Sealing, registry: CollectorRegistry
) -> Sequence[Runner]:
    clock = SystemClock()
    schedules = ScheduleRunner(backend.perform)
    subscriptions = SubscriptionRunner(
        backend.perform, sender, clock, has_patterns=Ability.PATTERNS in backend.abilities
    )
    pushes = PushRunner(
        Parts(backend.perform, backend.leases, sender, clock),
        sealing,
        is_shared=backend.servers is not None,
    )
    for runner in (schedules, subscriptions, pushes):
        registry.register(Collected(runner.families))
    return schedules, subscriptions, pushes
