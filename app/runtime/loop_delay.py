"""Measures the delay of the event loop, and finds the code that blocked it.

A timer of the loop fires regularly; its delay tells how long something blocked the loop. A thread
watches: when the timer is overdue, it notes what the loop's thread is doing, and warns when the
blocking ends.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import CodeType, FrameType
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, Gauge, Histogram

from headgate.app.runtime import periodic
from headgate.app.runtime.telemetry import RequestMetrics
from headgate.engine.threads import this_turn

_FREED_AT_ONCE = 2_000
"""Entries let go of before others have their turn: each is some objects."""


async def let_go(items: list[Any]) -> None:
    """Empty a list in turns: freeing a million items takes long."""
    while items:
        del items[-_FREED_AT_ONCE:]
        await this_turn().end()


# Stack: what a thread is doing right now, as another thread sees it.
#
# It is read only when the event loop is late, so requests are not slower for it.

_OURS = ("headgate.",)
_RUNNERS = ("asyncio.", "uvicorn.")
_RUN = frozenset({"run", "run_forever", "run_until_complete", "_run_once", "asyncio_run"})
_DEPTH_MAX = 12

_REQUEST: CodeType = RequestMetrics.__call__.__code__


class Doing(NamedTuple):
    operation: str | None  # of which request, or else of which task
    function: str | None  # the innermost of ours; None: the loop had nothing to do
    stack: tuple[str, ...]  # what of ours waits for it, with lines, from the inside


def doing(thread_id: int, loop: asyncio.AbstractEventLoop, command: CodeType) -> Doing:
    """Return what an event loop's thread is doing.

    If it does nothing, the stack is that of the other threads: one of them may keep it from
    running. `command` is the code that runs a command; its local variable `words` has the command.
    """
    frame_of = sys._current_frames()  # noqa: SLF001  # there is no other way to see another thread
    del frame_of[threading.get_ident()]
    frames = list(_in_loop(frame_of.pop(thread_id, None)))
    if not frames:
        others = (_ours(list(_in_loop(frame)))[:1] for frame in frame_of.values())
        return Doing(None, None, tuple(place for stack in others for place in map(_place, stack)))
    ours = _ours(frames)
    operation = _operation(frames, command) or _task_name(loop)
    return Doing(operation, _name((ours or frames)[0]), tuple(map(_place, ours[:_DEPTH_MAX])))


def _ours(frames: list[FrameType]) -> list[FrameType]:
    """Return the frames of our own code, without the one that times garbage collection."""
    ours = [frame for frame in frames if _module(frame).startswith(_OURS)]
    return [frame for frame in ours if _module(frame) != "headgate.app.runtime.loop_delay"]


def _in_loop(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        if frame.f_code.co_name in _RUN and _module(frame).startswith(_RUNNERS):
            return
        yield frame
        frame = frame.f_back


def _module(frame: FrameType) -> str:
    name: str = frame.f_globals.get("__name__", "?")
    return name


def _name(frame: FrameType) -> str:
    return f"{_module(frame)}:{frame.f_code.co_qualname}"


def _place(frame: FrameType) -> str:
    return f"{_name(frame)}:{frame.f_lineno}"


def _operation(frames: list[FrameType], runs_command: CodeType) -> str | None:
    request = command = None
    for frame in frames:
        if frame.f_code is _REQUEST:
            request = _of_scope(frame.f_locals["scope"])
        elif frame.f_code is runs_command:
            words = frame.f_locals["words"]
            command = b" ".join(words[:1]).decode("latin-1").upper()[:32]
    return " ".join(filter(None, (request, command))) or None


def _of_scope(scope: Any) -> str:
    operation = getattr(scope.get("route"), "operation_id", None)
    if operation is None and scope["type"] == "lifespan":
        return "start or stop"
    return operation or f"{scope.get('method', scope['type'])} {scope['path']}"


def _task_name(loop: asyncio.AbstractEventLoop) -> str | None:
    task = asyncio.current_task(loop)
    return None if task is None else getattr(task.get_coro(), "__qualname__", task.get_name())


log = logging.getLogger("headgate")

BEAT_S_MAX = 0.1
"""Ten beats a second, and five looks at them, take 0.3 % of a core that is idle."""

WARN_EVERY_S = 1.0
"""One warning a second: the longest hold, and how many others there were."""

_LONGEST_OF_S = 60.0
_STILL_HELD_S = 5.0
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)


class _Sample(NamedTuple):
    beat_at_s: float  # of the last beat before it
    doing: Doing


class _Hold(NamedTuple):
    beat_at_s: float
    delay_s: float
    cpu_s: float  # what the loop's thread used; much less than the delay: it was not let run
    gc_s: float  # what the collection of garbage took


class LoopDelay:
    def __init__(self, registry: CollectorRegistry, warn_ms: int, command: CodeType) -> None:
        """A block longer than `warn_ms` is logged as a warning; for `command` see `doing`."""
        self._command = command
        self._warn_s = warn_ms / 1000
        self._beat_s = min(BEAT_S_MAX, self._warn_s)
        self._delays = Histogram(
            "headgate_loop_delay_seconds",
            "Delay with which the event loop ran a timer.",
            buckets=_SECONDS,
            registry=registry,
        )
        longest = Gauge(
            "headgate_loop_delay_longest_seconds",
            "The longest delay of the event loop in the last minute.",
            registry=registry,
        )
        longest.set_function(self.longest_s)
        self._longest: deque[tuple[float, float]] = deque()  # at, delay: ever shorter ones
        self._timer: asyncio.TimerHandle
        self._peak_s = 0.0  # the longest delay since it was taken
        self._beat_at_s = self._cpu_s = self._gc_s = self._gc_began_s = 0.0
        self._samples: deque[_Sample] = deque(maxlen=100)  # by the thread
        self._ended: deque[_Hold] = deque(maxlen=10_000)  # by the loop, for the thread
        self._is_over = threading.Event()
        self._warned_at_s = -WARN_EVERY_S
        self._warn_held_s = _STILL_HELD_S  # how long a hold lasts when it is warned of next

    def longest_s(self) -> float:
        now_s = time.perf_counter()
        while self._longest and self._longest[0][0] < now_s - _LONGEST_OF_S:
            self._longest.popleft()
        return self._longest[0][1] if self._longest else 0.0

    def take_longest_s(self) -> float:
        """Return the longest delay since the previous call."""
        peak_s, self._peak_s = self._peak_s, 0.0
        return peak_s

    async def run(self) -> None:
        await periodic.repeat("loop delay", self._measure)

    async def _measure(self) -> None:
        loop = asyncio.get_running_loop()
        seen = threading.get_ident(), loop
        thread = threading.Thread(target=self._watch, args=seen, name="loop delay", daemon=True)
        self._is_over.clear()
        thread.start()
        self._begin(loop)
        gc.callbacks.append(self._note_collection)
        try:
            await loop.create_future()
        finally:
            self._timer.cancel()
            gc.callbacks.remove(self._note_collection)
            self._is_over.set()
            with suppress(RuntimeError):  # there is no thread to wait in
                await asyncio.to_thread(thread.join)  # it ends at once

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._beat_at_s, self._cpu_s, self._gc_s = time.perf_counter(), time.thread_time(), 0.0
        self._timer = loop.call_later(self._beat_s, self._beat, loop)

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            self._note_delay(time.perf_counter())
        finally:
            self._begin(loop)

    def _note_delay(self, now_s: float) -> None:
        delay_s = max(now_s - self._beat_at_s - self._beat_s, 0.0)
        self._delays.observe(delay_s)
        self._note_longest(now_s, delay_s)
        self._peak_s = max(self._peak_s, delay_s)
        if delay_s >= self._warn_s:
            cpu_s = time.thread_time() - self._cpu_s
            self._ended.append(_Hold(self._beat_at_s, delay_s, cpu_s, self._gc_s))

    def _note_longest(self, now_s: float, delay_s: float) -> None:
        while self._longest and self._longest[-1][1] <= delay_s:
            self._longest.pop()
        self._longest.append((now_s, delay_s))
        if self._longest[0][0] < now_s - _LONGEST_OF_S:
            self._longest.popleft()

    def _note_collection(self, phase: str, info: Mapping[str, int]) -> None:
        del info
        if phase == "start":
            self._gc_began_s = time.perf_counter()
        else:
            self._gc_s += time.perf_counter() - self._gc_began_s

    # The thread.

    def _watch(self, thread_id: int, loop: asyncio.AbstractEventLoop) -> None:
        on_outcome = periodic.watch("loop watched")
        pause_s = self._beat_s + self._warn_s
        while not self._is_over.wait(pause_s):
            try:
                pause_s = self._look(thread_id, loop)
            except Exception as error:  # noqa: BLE001  nobody else watches
                on_outcome(error)
                pause_s = WARN_EVERY_S
        if self._ended:
            self._warn_of_ended()

    def _look(self, thread_id: int, loop: asyncio.AbstractEventLoop) -> float:
        """Check whether the loop is blocked, and warn; return the seconds until the next check."""
        beat_at_s, now_s = self._beat_at_s, time.perf_counter()
        held_s = now_s - beat_at_s - self._beat_s
        if held_s < self._warn_s:
            pause_s, self._warn_held_s = self._warn_s - held_s, _STILL_HELD_S
        else:
            with suppress(Exception):  # the thread that it looks at goes on meanwhile
                self._samples.append(_Sample(beat_at_s, doing(thread_id, loop, self._command)))
            # A long hold is looked at less often, and yet reported soon after its end.
            pause_s = min(max(self._warn_s, held_s) / 4, WARN_EVERY_S)
        if held_s >= self._warn_held_s:
            self._warn_held_s *= 2
            self._warn(_Hold(beat_at_s, held_s, 0.0, 0.0), is_over=False)
        if self._ended and now_s - self._warned_at_s >= WARN_EVERY_S:
            self._warned_at_s = now_s
            self._warn_of_ended()
        return pause_s

    def _warn_of_ended(self) -> None:
        holds = [self._ended.popleft() for _ in range(len(self._ended))]
        longest = max(holds, key=lambda hold: hold.delay_s)
        self._warn(longest, left_out=len(holds) - 1)

    def _warn(self, hold: _Hold, **more: object) -> None:
        seen = [
            sample.doing for sample in list(self._samples) if sample.beat_at_s == hold.beat_at_s
        ]
        names = Counter((place.operation, place.function) for place in seen)
        operation, function = names.most_common(1)[0][0] if names else (None, None)
        stack = next((place.stack for place in seen if place.function == function), ())
        facts = {
            "held_ms": round(hold.delay_s * 1000),
            "cpu_ms": round(hold.cpu_s * 1000),
            "gc_ms": round(hold.gc_s * 1000),
            "operation": operation,
            "function": function,
            "stack": list(stack),
        }
        log.warning("event loop held", extra={**facts, **more})
