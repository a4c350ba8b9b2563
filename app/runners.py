"""Runners: what goes on in the process that has the streams, though nobody asks for it then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from prometheus_client import CollectorRegistry

from headgate.app.backends.port import Ability, Backend
from headgate.app.durable_streams.subscriptions.runner import SubscriptionRunner
from headgate.app.runtime.families import Collected
from headgate.app.scheduling.runner import ScheduleRunner
from headgate.app.webhooks.sending import Sender
from headgate.engine.clock import SystemClock


class Runner(Protocol):
    """Does its work until cancelled."""

    async def run(self) -> None:
        """Do it."""
        ...


def runners_of(backend: Backend, sender: Sender, registry: CollectorRegistry) -> Sequence[Runner]:
    """Return the runners of a backend; their metrics are in the registry.

    Args:
        backend: has the streams.
        sender: sends webhooks.
        registry: of this process.
    """
    schedules = ScheduleRunner(backend.perform)
    subscriptions = SubscriptionRunner(
        backend.perform,
        sender,
        SystemClock(),
        has_patterns=Ability.PATTERNS in backend.abilities,
    )
    for runner in (schedules, subscriptions):
        registry.register(Collected(runner.families))
    return schedules, subscriptions
