"""How a push goes: its attempts, and how many requests of it may be in flight."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from headgate.app.automation import pushes
from headgate.app.automation.pushes import PushAnswer, PushRecord
from headgate.app.backends.port import Perform
from headgate.app.wire.pushes import PushPhase
from headgate.engine.errors import StreamsChanged, Unavailable

# Window: how many requests of a push may be in flight, given the outcomes of the last ones.

FAILURES_MAX = 5
"""Failures in a row, behind which a push rests and is tried with one request now and then."""

BACKOFF_MS_MIN, BACKOFF_MS_MAX = 1_000, 300_000
"""Rests of a push, and of entries in a group whose policy has no `backoff_ms`."""


class Window:
    """A window like that of TCP: it grows with each success, and halves with each failure.

    A receiver that always fails gets one request per backoff.
    """

    def __init__(self, size_max: int, failures: int = 0) -> None:
        """Start with one request; `failures` is the number of consecutive failures so far."""
        self._size_max = size_max
        self._size = 1
        self._delay_until_ms = 0
        self._delay_count = max(failures - FAILURES_MAX, 0)
        self.failures = failures

    def free(self, in_flight: int, now_ms: int) -> int:
        """Return how many more requests may be sent; `now_ms` is monotonic."""
        return 0 if now_ms < self._delay_until_ms else max(self._size - in_flight, 0)

    def delay_ms(self, now_ms: int) -> int:
        return max(self._delay_until_ms - now_ms, 0)

    def succeed(self) -> None:
        self.failures = self._delay_count = 0
        self._size = min(self._size + 1, self._size_max)

    def fail(self, now_ms: int, length_ms: Callable[[int], int]) -> None:
        """Note a failed request; requests that fail together start one backoff."""
        self.failures += 1
        self._size = max(self._size // 2, 1)
        if self.failures >= FAILURES_MAX and now_ms >= self._delay_until_ms:
            self._size = 1
            self._delay_count += 1
            self._delay_until_ms = now_ms + length_ms(self._delay_count)

    def delay_until(self, until_ms: int) -> None:
        """Send nothing until a monotonic time, as the receiver asks."""
        self._delay_until_ms = max(self._delay_until_ms, until_ms)

    def end_delay(self) -> None:
        """Resume at once, as a user asks."""
        self._delay_until_ms = 0


def backoff_ms(failures: int) -> int:
    """Return the backoff after so many failures; it doubles up to five minutes."""
    return min(BACKOFF_MS_MIN << min(max(failures - 1, 0), 20), BACKOFF_MS_MAX)


# Log: the attempts of a push and its health, written about once a second. A gateway that dies loses
# the newest attempts.
#
# 1. Keep the attempts, and count them.
# 2. Note the moment since when there were only failures; a success clears it.
# 3. If that lasts as long as the push allows, the push is disabled.

_PAUSE_S = 1.0
_WRITTEN_AT_ONCE = 1_000
_UNWRITTEN_MAX = 5_000
"""Attempts that wait to be written; with more, the oldest ones are lost."""


class PushTally:
    def __init__(self) -> None:
        self.acknowledged = self.failed = self.delivered = 0
        self.took_ms = 0


class PushLog:
    def __init__(
        self,
        perform: Perform,
        push: PushRecord,
        tally: PushTally,
        on_phase: Callable[[PushPhase], None],
    ) -> None:
        self._on_phase = on_phase
        self._perform, self._name, self._tally = perform, push.name, tally
        self._disable_after_ms = push.definition.disable_after_ms
        self._attempts: deque[PushAnswer] = deque(maxlen=_UNWRITTEN_MAX)
        self._are_kept = push.definition.attempts_days > 0
        self._delivered = self._failed = 0
        self._last_error: str | None = None
        self._last_ms = 0  # when the last attempt ended
        self._sealed, self._retry_count = push.sealed, push.retry_count
        self._failing_since_ms, self._failures = push.failing_since_ms, push.failures
        self._written = push.failing_since_ms
        self._news = asyncio.Event()

    def begin_anew(self, push: PushRecord) -> None:
        """Forget the failures, but no success, from before a user changed the push."""
        self._retry_count, self._written = push.retry_count, push.failing_since_ms
        if self._failing_since_ms is not None:
            self._failing_since_ms, self._failures = push.failing_since_ms, push.failures
        self._news.set()

    def succeed(self, answer: PushAnswer) -> None:
        self._note(answer)
        self._delivered += answer.entry_count
        self._failing_since_ms, self._failures = None, 0
        self._tally.acknowledged += 1
        self._tally.delivered += answer.entry_count

    def fail(self, answer: PushAnswer) -> None:
        self._note(answer)
        self._failed += 1
        self._failures += 1
        if self._failing_since_ms is None:
            self._failing_since_ms = answer.at_ms
        self._last_error = answer.error
        self._tally.failed += 1

    def _note(self, answer: PushAnswer) -> None:
        self._last_ms = answer.at_ms
        if self._are_kept:
            self._attempts.append(answer)
        self._tally.took_ms += answer.took_ms
        self._news.set()

    async def run(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self.write()
            except (Unavailable, StreamsChanged):
                self._news.set()
            await asyncio.sleep(_PAUSE_S)

    async def write_last(self) -> None:
        with suppress(Unavailable, StreamsChanged, TimeoutError):
            async with asyncio.timeout(_PAUSE_S):
                await self.write()

    async def write(self) -> None:
        """Write what is new, or raise Unavailable or StreamsChanged."""
        await self._write_health()
        while self._attempts:
            await self._write_attempts()
        if self._delivered or self._failed:
            delivered, failed = self._delivered, self._failed
            await pushes.add_counts(self._perform, self._name, delivered, failed)
            self._delivered -= delivered
            self._failed -= failed

    async def _write_attempts(self) -> None:
        count = min(len(self._attempts), _WRITTEN_AT_ONCE)
        new = [self._attempts.popleft() for _ in range(count)]
        try:
            await pushes.add_attempts(self._perform, self._name, new)
        except BaseException:
            self._attempts.extendleft(reversed(new))
            raise

    async def _write_health(self) -> None:
        since_ms, failures = self._failing_since_ms, self._failures
        if since_ms is None and self._written is None:
            return
        if since_ms is not None and failures < FAILURES_MAX and self._written is None:
            return  # a failure now and then is nothing

        def changed(push: PushRecord) -> PushRecord:
            if (push.sealed, push.retry_count) != (self._sealed, self._retry_count):
                return push  # a user has set something since
            if since_ms is None:
                return replace(push, failing_since_ms=None, failures=0)
            new = replace(push, failing_since_ms=since_ms, failures=failures)
            last_ms = max(self._last_ms, since_ms)
            if last_ms - since_ms < self._disable_after_ms:
                return new
            reason = f"all requests failed for {last_ms - since_ms} ms: {self._last_error}"
            return replace(new, disabled_at_ms=last_ms, disabled_reason=reason)

        push = await pushes.change(self._perform, self._name, changed)
        self._written = since_ms
        if push is not None:
            self._on_phase(push.phase)
