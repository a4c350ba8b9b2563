"""An event loop in which time passes only when nothing else can happen, and then at once.

A test that waits for an hour takes no time, timers fire at their exact moment, and a wait that
nothing can ever end is an error instead of a hang.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, ParamSpec

P = ParamSpec("P")


class DeadlockError(Exception):
    """Everybody waits, no timer is set: nothing can ever happen again."""


class JumpingSelector(selectors.BaseSelector):
    """Instead of waiting for a timeout, moves its own time on by it."""

    def __init__(self) -> None:
        self._real = selectors.DefaultSelector()
        self.now_ns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._real.select(0)
        if not ready and timeout is None:
            raise DeadlockError
        if not ready and timeout is not None and timeout > 0:
            self.now_ns += max(round(timeout * 1e9), 1)
        return ready

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is virtual and starts at zero."""

    def __init__(self) -> None:
        self._jumping = JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_ns / 1e9

    def time_ms(self) -> int:
        return self._jumping.now_ns // 1_000_000


class VirtualClock:
    """A wall clock that goes with the running virtual loop, and can be set."""

    def __init__(self, start_ms: int = 1_000_000) -> None:
        self._start_ms = start_ms

    def wall_ms(self) -> int:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        return self._start_ms + loop.time_ms()

    def monotonic_ms(self) -> int:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        return loop.time_ms()

    def step(self, delta_ms: int) -> None:
        """Set the clock forward or back; timers of the loop do not notice."""
        self._start_ms += delta_ms


class ManualClock:
    """A wall clock that moves when it is told to, also backwards."""

    def __init__(self, now_ms: int = 1_000) -> None:
        self.now_ms = now_ms
        self._set_ms = 0

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms - self._set_ms

    def step(self, delta_ms: int) -> None:
        """Set the clock forward or back, without time passing."""
        self.now_ms += delta_ms
        self._set_ms += delta_ms


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test on a virtual loop of its own."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run


def now_ms() -> int:
    """Return the virtual time since the loop began."""
    return round(asyncio.get_running_loop().time() * 1000)


async def settle() -> None:
    """Return once everything that can happen without waiting has happened.

    Time moves by a microsecond, and it moves only when no callback is ready any more.
    """
    await asyncio.sleep(1e-6)
