"""What measures in one process of a gateway, and what the processes share of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from headgate.app.measuring.families import observed_families
from headgate.app.measuring.recorder import (
    HISTORY,
    HistoryPart,
    HistoryQuestion,
    HistoryReader,
    Recorder,
)
from headgate.app.measuring.sampler import Sampler
from headgate.app.measuring.series import Sample
from headgate.app.runtime.siblings import Siblings
from headgate.app.runtime.telemetry import Collected, Metrics
from headgate.engine.clock import Clock
from headgate.engine.errors import Unavailable

_WITHIN_S: Final = 5.0

encode_question = msgspec.msgpack.Encoder().encode
decode_question = msgspec.msgpack.Decoder(HistoryQuestion).decode
encode_answer = msgspec.msgpack.Encoder().encode
_decode_answer = msgspec.msgpack.Decoder(HistoryPart).decode


class SharedHistory:
    def __init__(self, siblings: Siblings) -> None:
        self._siblings = siblings

    async def read(self, question: HistoryQuestion) -> HistoryPart:
        body = encode_question(question)
        answers = await self._siblings.gather(HISTORY, body, within_s=_WITHIN_S)
        if not answers or not answers[0]:
            raise Unavailable("the other processes of the gateway do not answer")
        return _decode_answer(answers[0])


class Measuring:
    """Measures this process. If it is the only one, it keeps the history as well."""

    def __init__(
        self, sampler: Sampler, metrics: Metrics, clock: Clock, siblings: Siblings | None
    ) -> None:
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
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._sampler.run())
            if self._recorder is not None:
                tasks.create_task(self._recorder.run())

    async def _own_sample(self) -> Mapping[int, Sample]:
        return {0: self._sampler.take()}
