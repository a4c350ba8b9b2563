"""Strands: threads of which one runs at a time, and only for as long as it is told to.

A strand gives way wherever it wants to (`pause`) and goes on when somebody says so (`resume`), so
the order in which many of them act is whatever the caller chooses: nothing is left to the system.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

T = TypeVar("T")


class KilledError(BaseException):
    """The strand will never go on. No error of the program, so nothing may catch it."""


class Strand(Generic[T]):
    """One piece of work in a thread that takes turns."""

    running: ClassVar[Strand[Any] | None] = None
    """The strand whose turn it is."""

    def __init__(self, act: Callable[[], T]) -> None:
        self.is_done = False
        self.delay_s = 0.0  # how long it wants to be left alone
        self.result: T
        self.error: BaseException | None = None
        self._act = act
        self._is_killed = False
        self._carrier: _Carrier | None = None

    def resume(self) -> None:
        """Let it go on until it pauses or is done."""
        if self._carrier is None:
            self._carrier = _idle.pop() if _idle else _Carrier()
            self._carrier.work = self._work
        carrier = self._carrier
        Strand.running = self
        carrier.take_turn()
        Strand.running = None
        if self.is_done:
            _idle.append(carrier)

    def pause(self, delay_s: float) -> None:
        """Give way; called from within."""
        assert self._carrier is not None
        self.delay_s = delay_s
        self._carrier.give_way()
        if self._is_killed:
            raise KilledError

    def kill(self) -> None:
        """End it where it stands."""
        self._is_killed = True
        if self._carrier is not None and not self.is_done:
            self.resume()
            assert self.is_done

    def _work(self) -> None:
        try:
            self.result = self._act()
        except BaseException as error:  # noqa: BLE001  it belongs to whoever waits
            self.error = error
        self.is_done = True


class _Carrier:
    """A thread, kept for the next strand."""

    def __init__(self) -> None:
        self.work: Callable[[], None]
        self._go = threading.Lock()
        self._back = threading.Lock()
        self._go.acquire()
        self._back.acquire()
        threading.Thread(target=self._carry, daemon=True, name="strand").start()

    def take_turn(self) -> None:
        self._go.release()
        self._back.acquire()

    def give_way(self) -> None:
        self._back.release()
        self._go.acquire()

    def _carry(self) -> None:
        while True:
            self._go.acquire()
            self.work()
            self._back.release()


_idle: list[_Carrier] = []
