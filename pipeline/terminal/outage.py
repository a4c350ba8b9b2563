"""Outage: the absence of the gateway while a job goes on, said when it begins and ends."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

import click

from headgate.client import HeadgateError
from headgate.pipeline.terminal.duration import text_of
from headgate.pipeline.terminal.flags import Flags

_LOOK_S = 5.0
_ANSWER_S = 1.0  # somebody may ask the job to end meanwhile


class OutageWatch:
    """Looks at the gateway of a job now and then, and writes a line for each change.

    Args:
        job: whose lines they are.
        flags: the gateway, and how long the job waits for it.
        look_s: how long after a look the next one may be.
    """

    def __init__(self, job: str, flags: Flags, *, look_s: float = _LOOK_S) -> None:
        self._job = job
        self._outage_ms = flags.outage_ms
        self._url = flags.url
        self._client = flags.client(retry_s=0, answer_s=_ANSWER_S)
        self._look_s = look_s
        self._looked_s = time.monotonic()
        self._gone_s: float | None = None  # since when it is away

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._client.close()

    def look(self) -> None:
        """Ask the gateway whether it is there, unless that was asked a moment ago."""
        now_s = time.monotonic()
        if now_s - self._looked_s < self._look_s:
            return
        self._looked_s = now_s
        try:
            self._client.ready()
        except HeadgateError as error:
            if self._gone_s is None:
                self._gone_s = now_s
                waits = text_of(self._outage_ms)
                self._say(f"the gateway at {self._url} is away, waiting up to {waits}: {error}")
        else:
            if self._gone_s is not None:
                away_s = round(now_s - self._gone_s)
                self._gone_s = None
                self._say(f"the gateway is back after {away_s} s")

    def _say(self, text: str) -> None:
        click.echo(f"{self._job}: {' '.join(text.splitlines())}", err=True)
