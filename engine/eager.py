"""Eager calls: a coroutine runs in the callback in which it begins, without a task of its own.

A task, its first turn of the event loop and its wake-up cost more than what most requests do. An
eager call runs its coroutine until that waits for a `Completion`. Whoever completes it runs the
coroutine on, in that very call. If the coroutine waits for anything else of asyncio, it becomes a
task there. So everything works in an eager call that works in a task, with one exception:
`asyncio.current_task` is None at first, and `asyncio.timeout` and task groups refuse that. A
coroutine that needs a task from some place on says so there: `await own_task()`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import copy_context
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_is_driving = False  # a coroutine is being run by an eager call, and not by a task


class Completion(Generic[T]):
    """Something that one coroutine waits for: `await completion` returns its value.

    Complete it only in a callback of the event loop where nothing else is in progress: the
    coroutine may go on at once.
    """

    __slots__ = ("_error", "_value", "_wake", "is_done")

    _value: T

    def __init__(self) -> None:
        self.is_done = False
        self._error: BaseException | None = None
        self._wake: Callable[[], None] | None = None

    def succeed(self, value: T) -> None:
        self._value = value
        self._complete()

    def fail(self, error: BaseException) -> None:
        self._error = error
        self._complete()

    def on_done(self, wake: Callable[[], None] | None) -> None:
        self._wake = wake

    def __await__(self) -> Generator[Any, Any, T]:
        if not self.is_done:
            if _is_driving:
                yield self
            else:
                future = asyncio.get_running_loop().create_future()
                self._wake = lambda: None if future.done() else future.set_result(None)
                yield from future
        if self._error is None:
            return self._value
        try:
            raise self._error
        finally:
            self._error = None  # it knows this frame

    def _complete(self) -> None:
        self.is_done = True
        wake, self._wake = self._wake, None
        if wake is not None:
            wake()


class EagerCall:
    __slots__ = ("_awaited", "_context", "_coroutine", "_on_end", "_task", "is_done")

    def __init__(
        self, coroutine: Coroutine[Any, Any, None], on_end: Callable[[EagerCall], object]
    ) -> None:
        """Prepare a coroutine; the event loop's exception handler is told what it raises."""
        self.is_done = False
        self._coroutine = coroutine
        self._on_end = on_end
        self._context = copy_context()  # as each task has one
        self._awaited: Completion[Any] | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._advance(self._coroutine.send, None)

    def cancel(self, msg: object = None) -> bool:
        """Raise `CancelledError` where the coroutine waits; tells whether it has not ended."""
        if self.is_done:
            return False
        if self._task is not None:
            return self._task.cancel(msg)
        awaited, self._awaited = self._awaited, None
        if awaited is not None:
            awaited.on_done(None)
        args = () if msg is None else (msg,)
        # Without a name for the error here: it knows this frame.
        self._advance(self._coroutine.throw, asyncio.CancelledError(*args))
        return True

    def _go_on(self) -> None:
        self._awaited = None
        self._advance(self._coroutine.send, None)

    def _advance(self, step: Callable[[Any], object], value: object) -> None:
        global _is_driving  # noqa: PLW0603  coroutines see it, as they see the current task
        outer, _is_driving = _is_driving, True
        try:
            awaited = self._context.run(step, value)
        except (StopIteration, asyncio.CancelledError):
            self._end()
        except BaseException as error:
            self._end()
            if not isinstance(error, Exception):
                raise
            _report(error, self._coroutine)
        else:
            if type(awaited) is Completion:
                self._awaited = awaited
                awaited.on_done(self._go_on)
            else:
                self._become_task(awaited)
        finally:
            _is_driving = outer
            del value  # an error that was thrown knows this frame

    def _become_task(self, awaited: object) -> None:
        remainder = _Remainder(self._coroutine, awaited)
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(remainder, context=self._context)
        self._task.add_done_callback(self._end_with_task)

    def _end_with_task(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        self._end()
        if error is not None:
            _report(error, self._coroutine)

    def _end(self) -> None:
        self.is_done = True
        self._on_end(self)


class _OwnTask:
    def __await__(self) -> Generator[Any, Any, None]:
        if _is_driving:
            yield self


_OWN_TASK = _OwnTask()


def own_task() -> _OwnTask:
    """Return an awaitable that moves a coroutine into a task; in a task it is done at once."""
    return _OWN_TASK


class _Remainder(Coroutine[Any, Any, None]):
    """The remainder of a coroutine that waits for something: a task runs it from there on."""

    def __init__(self, coroutine: Coroutine[Any, Any, None], awaited: object) -> None:
        self._coroutine = coroutine
        self._first = awaited  # the task has to wait for it before the coroutine goes on
        self.__qualname__ = _name(coroutine)  # by which a task is known in the log

    def send(self, value: Any) -> Any:
        first, self._first = self._first, _OWN_TASK
        return self._coroutine.send(value) if first is _OWN_TASK else first

    def throw(self, *error: Any) -> Any:
        self._first = _OWN_TASK
        try:
            return self._coroutine.throw(*error)
        finally:
            del error  # it knows this frame

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._coroutine.__await__()


def _report(error: BaseException, coroutine: Coroutine[Any, Any, None]) -> None:
    facts = {"message": f"{_name(coroutine)} has failed", "exception": error}
    asyncio.get_running_loop().call_exception_handler(facts)


def _name(coroutine: Coroutine[Any, Any, None]) -> str:
    return getattr(coroutine, "__qualname__", "a coroutine")
