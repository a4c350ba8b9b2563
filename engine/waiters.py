"""Waiters: who is blocked on what. First come, first served; nobody polls.

A blocked read stands in one *lane* per stream it names: the lane of its group, whose waiters
compete for the same entries, or the stream's plain lane, whose waiters all get every entry. When a
command has touched a stream, its waiters are re-run in order of arrival: the whole read, from
scratch. One that gets something leaves all its lanes; one that does not keeps its place and its
deadline. In a group's lane the first that goes away empty speaks for all behind it, so an append
costs what it serves and not what waits.

A read that claims idle entries also waits for time to pass. Each lane has one timer for that, set
to the moment at which the longest-idle pending entry becomes claimable by somebody in the lane.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Generic, NamedTuple, TypeVar

from engine.clock import Clock
from engine.errors import Draining, LimitExceeded, StreamError

T = TypeVar("T")

_TIMER_MS_MAX = 10 * 365 * 86_400_000
"""An idle time of ten years or more is nobody's wish to wait, but "only what nobody owns"."""


class LaneKey(NamedTuple):
    """A stream, and the group that reads it; None is the plain lane."""

    stream: bytes
    group: bytes | None


class Waiter(Generic[T]):
    """One blocked read."""

    __slots__ = ("attempt", "claim_idle_ms", "is_full", "lanes", "served", "spared")

    def __init__(
        self,
        lanes: Sequence[LaneKey],
        attempt: Callable[[], T | None],
        *,
        claim_idle_ms: int | None = None,
        spared: bytes | None = None,
    ) -> None:
        """Describe a blocked read.

        Args:
            lanes: where it stands.
            attempt: the whole read, done again; None when there is nothing yet.
            claim_idle_ms: it takes pending entries idle for so long; None: it takes none.
            spared: a consumer whose pending entries it does not take.
        """
        self.lanes = list(dict.fromkeys(lanes))  # a read may name a stream twice
        self.attempt = attempt
        self.claim_idle_ms = claim_idle_ms
        self.spared = spared
        self.is_full = False  # its consumer holds all it may: only an acknowledgement helps
        self.served: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()

    def expire(self) -> None:
        """End the wait with nothing."""
        if not self.served.done():
            self.served.set_result(None)


class _Signal(Enum):
    """What happened to a lane, and so who has to look again."""

    APPENDED = "appended"  # all; in a group's lane up to the first that goes away empty
    FREED = "freed"  # those whose consumer holds all it may
    CHANGED = "changed"  # all
    DUE = "due"  # those that claim: a pending entry may be idle enough by now


class _Lane:
    """Waiters in order of arrival, and the timer of those that claim."""

    __slots__ = ("timer", "timer_at_ms", "waiters")

    def __init__(self) -> None:
        self.waiters: dict[Waiter[Any], None] = {}
        self.timer: asyncio.TimerHandle | None = None
        self.timer_at_ms = 0  # wall time the timer is set to


class Waiters:
    """All blocked reads."""

    def __init__(
        self,
        clock: Clock,
        claimable_at: Callable[[LaneKey, Waiter[Any]], int | None],
        limit: int,
    ) -> None:
        """Start with nobody waiting.

        Args:
            clock: for the claim timers.
            claimable_at: when a waiter may claim something of a group, if nothing happens before
                (unix ms); None if nothing is pending.
            limit: how many may wait at once.
        """
        self._clock = clock
        self._claimable_at = claimable_at
        self._limit = limit
        self._count = 0
        self._lanes: dict[bytes, dict[bytes | None, _Lane]] = {}
        self._signals: dict[tuple[bytes, bytes | None, _Signal], None] = {}
        self._is_serving = False
        self.is_draining = False  # nobody may wait any more

    def __len__(self) -> int:
        """Return how many reads are blocked."""
        return self._count

    @property
    def stream_count(self) -> int:
        """Return on how many streams somebody waits."""
        return len(self._lanes)

    @property
    def grouped_stream_count(self) -> int:
        """Return on how many streams somebody waits as a consumer of a group."""
        return sum(any(group is not None for group in lanes) for lanes in self._lanes.values())

    def add(self, waiter: Waiter[Any]) -> None:
        """Put a blocked read at the end of its lanes.

        Raises:
            LimitExceeded: too many wait already.
            Draining: nobody may wait any more.
        """
        self.check_room()
        self._count += 1
        for key in waiter.lanes:
            self._lane(key).waiters[waiter] = None
        self._arm(waiter)

    def _lane(self, key: LaneKey) -> _Lane:
        """Return a lane; it is made if nobody stands in it."""
        lanes = self._lanes.get(key.stream)
        if lanes is None:
            lanes = self._lanes[key.stream] = {}
        lane = lanes.get(key.group)
        if lane is None:
            lane = lanes[key.group] = _Lane()
        return lane

    def check_room(self) -> None:
        """Raise what `add` would raise."""
        if self.is_draining:
            raise Draining
        if self._count >= self._limit:
            raise LimitExceeded("blocked reads", self._limit)

    def remove(self, waiter: Waiter[Any]) -> None:
        """Take a read out of all its lanes; one that is out already stays out."""
        for key in waiter.lanes:
            lanes = self._lanes.get(key.stream, {})
            lane = lanes.get(key.group)
            if lane is None or waiter not in lane.waiters:
                return
            del lane.waiters[waiter]
            if not lane.waiters:
                if lane.timer is not None:
                    lane.timer.cancel()
                del lanes[key.group]
                if not lanes:
                    del self._lanes[key.stream]
        self._count -= 1

    def drain(self) -> None:
        """Answer everyone that nothing will come, and let nobody wait from now on."""
        self.is_draining = True
        self.fail(Draining())

    def fail(self, error: StreamError) -> None:
        """Answer everyone that what they wait for cannot come."""
        for lanes in list(self._lanes.values()):
            for lane in list(lanes.values()):
                for waiter in list(lane.waiters):
                    if not waiter.served.done():
                        waiter.served.set_exception(error)
                    self.remove(waiter)

    def appended(self, stream: bytes) -> None:
        """Note that a stream has new entries."""
        if stream in self._lanes:
            for group in self._lanes[stream]:
                self._signals[stream, group, _Signal.APPENDED] = None

    def freed(self, stream: bytes, group: bytes) -> None:
        """Note that a consumer of the group holds less than before."""
        if group in self._lanes.get(stream, ()):
            self._signals[stream, group, _Signal.FREED] = None

    def changed(self, stream: bytes, group: bytes | None = None) -> None:
        """Note that everyone waiting on the stream, or one group of it, must look again."""
        for name in self._lanes.get(stream, ()):
            if group is None or name == group:
                self._signals[stream, name, _Signal.CHANGED] = None

    def serve(self) -> None:
        """Re-run the waiters of all that was noted, in order of arrival."""
        if self._is_serving:  # a re-run notes things too; the outer loop will see to them
            return
        self._is_serving = True
        try:
            while self._signals:
                stream, group, signal = next(iter(self._signals))
                del self._signals[stream, group, signal]
                self._serve_lane(LaneKey(stream, group), signal)
        finally:
            self._is_serving = False

    def _serve_lane(self, key: LaneKey, signal: _Signal) -> None:
        lane = self._lanes.get(key.stream, {}).get(key.group)
        for waiter in list(lane.waiters) if lane is not None else ():
            if waiter.served.done() or (signal is _Signal.FREED and not waiter.is_full):
                continue
            if signal is _Signal.DUE and not self._is_due(key, waiter):
                continue
            is_served = self._rerun(waiter)
            is_competing = key.group is not None and not waiter.is_full
            if signal is _Signal.APPENDED and is_competing and not is_served:
                break

    def _rerun(self, waiter: Waiter[Any]) -> bool:
        try:
            reply = waiter.attempt()
        except Exception as error:  # noqa: BLE001  the stream may be gone: that is its answer
            if not waiter.served.done():  # it is if everything has failed
                waiter.served.set_exception(error)
        else:
            if reply is None:
                self._arm(waiter)
                return False
            waiter.served.set_result(reply)
        self.remove(waiter)
        return True

    def _arm(self, waiter: Waiter[Any]) -> None:
        if waiter.claim_idle_ms is None:
            return
        now_ms = self._clock.wall_ms()
        for key in waiter.lanes:
            due_ms = self._due_ms(key, waiter, waiter.claim_idle_ms)
            # Due and still not taken: its consumer holds too much, and an ack will signal that.
            if due_ms > now_ms:
                self._set_timer(key, self._lanes[key.stream][key.group], due_ms)

    def _is_due(self, key: LaneKey, waiter: Waiter[Any]) -> bool:
        """Tell whether a waiter may claim something by now; if not, see to its timer."""
        if waiter.claim_idle_ms is None:
            return False
        if self._due_ms(key, waiter, waiter.claim_idle_ms) <= self._clock.wall_ms():
            return True
        self._arm(waiter)
        return False

    def _due_ms(self, key: LaneKey, waiter: Waiter[Any], claim_idle_ms: int) -> int:
        at_ms = self._claimable_at(key, waiter)
        # With nothing pending, whatever is delivered from now on is not idle enough before then.
        return self._clock.wall_ms() + claim_idle_ms if at_ms is None else at_ms

    def _set_timer(self, key: LaneKey, lane: _Lane, due_ms: int) -> None:
        if lane.timer is not None:
            if lane.timer_at_ms <= due_ms:
                return
            lane.timer.cancel()
        delay_ms = max(due_ms - self._clock.wall_ms(), 1)
        if delay_ms > _TIMER_MS_MAX:
            lane.timer = None
            return
        loop = asyncio.get_running_loop()
        lane.timer = loop.call_later(delay_ms / 1000, self._on_timer, key, lane)
        lane.timer_at_ms = due_ms

    def _on_timer(self, key: LaneKey, lane: _Lane) -> None:
        lane.timer = None
        self._signals[key.stream, key.group, _Signal.DUE] = None
        self.serve()
