"""Process: what measures in one process of a gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from headgate.app.measuring.families import observed_families
from headgate.app.measuring.recorder import HistoryReader, Recorder
from headgate.app.measuring.sample import Sample
from headgate.app.measuring.sampler import Sampler
from headgate.app.measuring.shared import SharedHistory
from headgate.app.runtime.families import Collected
from headgate.app.runtime.siblings import Siblings
from headgate.app.runtime.telemetry import Metrics
from headgate.engine.clock import Clock


class Measuring:
    """Measures this process. The only process of a gateway keeps the history as well."""

    def __init__(
        self,
        sampler: Sampler,
        metrics: Metrics,
        clock: Clock,
        siblings: Siblings | None,
    ) -> None:
        """Get ready.

        Args:
            sampler: takes samples of this process.
            metrics: where they are shown, if there is no other process.
            clock: dates the history.
            siblings: the other processes of the gateway, if there are any.
        """
        self.history: HistoryReader
        self._sampler = sampler
        self._recorder: Recorder | None = None
        if siblings is not None:
            sampler.answer_siblings(siblings)
            self.history = SharedHistory(siblings)
            return
        self.history = self._recorder = recorder = Recorder(self._own_sample, clock)
        metrics.observed.register(Collected(lambda: observed_families(recorder.observed)))
        sampler.observe(is_wanted=True)

    async def run(self) -> None:
        """Measure until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._sampler.run())
            if self._recorder is not None:
                tasks.create_task(self._recorder.run())

    async def _own_sample(self) -> Mapping[int, Sample]:
        return {0: self._sampler.take()}
