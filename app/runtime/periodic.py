"""Periodic work of the gateway: rounds that go on whatever fails, and log failures.

`engine/periodic.py` defines how a round is retried. Here an operator is told: a line when work
begins to fail, one for each other kind of failure, at most one a minute of each kind, and one when
the work succeeds again. `headgate_periodic_failures_total` counts all failures.
"""

from __future__ import annotations

import errno
import logging
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Never

from prometheus_client.core import CounterMetricFamily

from headgate.engine import periodic
from headgate.engine.periodic import OnOutcome, Round

log = logging.getLogger("headgate")

SAME_LINE_S = 60.0
"""Time before work that fails in the same way is logged again."""

_SHORTAGES = (errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

_counts: Counter[str] = Counter()  # failures of this process, by work


async def repeat(name: str, work: Round) -> Never:
    """Repeat rounds of work until cancelled; failures are logged and retried."""
    await periodic.repeat(work, watch(name))


async def complete(name: str, work: Round) -> None:
    """Repeat one round of work until it succeeds. See `repeat`."""
    await periodic.complete(work, watch(name))


def watch(name: str) -> OnOutcome:
    return _Failures(name).note


def is_shortage(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno in _SHORTAGES
    is_thread = isinstance(error, RuntimeError) and str(error) == "can't start new thread"
    return isinstance(error, MemoryError) or is_thread


def failure_families() -> Iterator[CounterMetricFamily]:
    family = CounterMetricFamily(
        "headgate_periodic_failures", "Failures of periodic work.", None, ["work"]
    )
    for name, count in _counts.items():
        family.add_metric([name], count)
    yield family


class _Failures:
    def __init__(self, name: str) -> None:
        self._name = name
        self._written_s: dict[str, float] = {}  # when a line was written, by kind of failure
        self._count = 0  # since the work last went well
        self._is_reported = False

    def note(self, error: Exception | None) -> None:
        """Note a failure; None means that the work succeeds again."""
        with suppress(Exception):  # there may be no memory for a line
            if error is None:
                self._note_success()
            else:
                self._note_failure(error)

    def _note_failure(self, error: Exception) -> None:
        _counts[self._name] += 1
        self._count += 1
        kind, now_s = _kind_of(error), time.perf_counter()
        if now_s - self._written_s.get(kind, -SAME_LINE_S) < SAME_LINE_S:
            return
        self._written_s[kind] = now_s
        self._is_reported = True
        facts = {"work": self._name, "reason": _text_of(error), "failures": self._count}
        # What the system refuses needs no traceback; anything else may be a fault of ours.
        trace = None if isinstance(error, OSError | MemoryError) else error
        log.error("periodic work has failed and is retried", extra=facts, exc_info=trace)

    def _note_success(self) -> None:
        if self._is_reported:
            log.info(
                "periodic work succeeds again", extra={"work": self._name, "failures": self._count}
            )
        self._count, self._is_reported = 0, False


def _kind_of(error: Exception) -> str:
    number = error.errno if isinstance(error, OSError) else None
    name = errno.errorcode.get(number, "") if number is not None else ""
    return f"{type(error).__name__} {name}".rstrip()


def _text_of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")
