"""Eager calls: a coroutine runs without a task until it needs one, and nobody can tell."""

import asyncio
import gc
import weakref
from collections.abc import Coroutine, Iterator
from contextvars import ContextVar
from typing import Any

import pytest

from headgate.engine.eager import Completion, EagerCall, own_task

SOMEBODY: ContextVar[str] = ContextVar("SOMEBODY", default="nobody")


class Failure(Exception):
    """Nothing else raises it."""


class Calls:
    """Starts eager calls; knows the ended ones, and the errors reported to the loop."""

    def __init__(self) -> None:
        self.ended: list[EagerCall] = []
        self.reported: list[BaseException] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, facts: self.reported.append(facts["exception"])
        )

    def start(self, coroutine: Coroutine[Any, Any, None]) -> EagerCall:
        call = EagerCall(coroutine, self.ended.append)
        call.start()
        return call

    async def end(self, call: EagerCall) -> None:
        for _ in range(10):
            if call.is_done:
                break
            await asyncio.sleep(0)
        assert self.ended == [call]


def current_task() -> asyncio.Task[Any] | None:
    return asyncio.current_task()


def in_callback(what: Coroutine[Any, Any, None]) -> asyncio.Future[tuple[Calls, EagerCall]]:
    """Start a call in a callback of the loop, where there is no task, as a server does."""
    loop = asyncio.get_running_loop()
    started: asyncio.Future[tuple[Calls, EagerCall]] = loop.create_future()

    def start() -> None:
        calls = Calls()
        started.set_result((calls, calls.start(what)))

    loop.call_soon(start)
    return started


async def test_a_call_that_waits_for_nothing_ends_where_it_begins() -> None:
    seen: list[object] = []

    async def look() -> None:
        seen.append(current_task())

    calls, call = await in_callback(look())
    assert seen == [None]
    assert call.is_done
    assert calls.ended == [call]


async def test_a_call_goes_on_where_its_completion_is_completed() -> None:
    completion, seen = Completion[str](), list[str]()

    async def wait() -> None:
        seen.append(await completion)

    calls = Calls()
    call = calls.start(wait())
    assert not call.is_done
    completion.succeed("value")
    assert seen == ["value"]
    assert call.is_done
    assert calls.ended == [call]


async def test_a_completion_whose_task_was_cancelled_may_still_be_completed() -> None:
    completion = Completion[int]()
    wait = asyncio.ensure_future(_value(completion))
    await asyncio.sleep(0)
    wait.cancel()
    await asyncio.sleep(0)
    completion.succeed(7)
    assert wait.cancelled()


async def _value(completion: Completion[int]) -> int:
    return await completion


async def test_a_call_that_waits_for_anything_else_becomes_a_task() -> None:
    loop = asyncio.get_running_loop()
    future, completion, seen = loop.create_future(), Completion[str](), list[object]()

    async def wait() -> None:
        seen.append(await future)
        seen.append(current_task() is not None)
        async with asyncio.timeout(1):
            await asyncio.sleep(0)
        seen.append(await completion)

    calls = Calls()
    call = calls.start(wait())
    future.set_result("value")
    assert seen == []  # as in any task: in a later turn
    for _ in range(5):
        await asyncio.sleep(0)
    assert seen == ["value", True]
    completion.succeed("last")
    await calls.end(call)
    assert seen == ["value", True, "last"]


async def test_a_call_has_a_task_once_it_asks_for_one() -> None:
    seen: list[object] = []

    async def ask() -> None:
        await own_task()
        task = current_task()
        await own_task()
        seen.append(task is not None and task is current_task())
        seen.append(getattr(task and task.get_coro(), "__qualname__", None))

    calls, call = await in_callback(ask())
    await calls.end(call)
    assert seen == [True, ask.__qualname__]


# Cancelling


async def _noting(waits: Any, seen: list[str]) -> None:
    try:
        await waits
    except asyncio.CancelledError as error:
        seen.append(str(error))
        raise
    finally:
        seen.append("end")


async def test_a_cancelled_call_ends_where_it_waits() -> None:
    completion, seen, calls = Completion[None](), list[str](), Calls()
    call = calls.start(_noting(completion, seen))
    assert call.cancel("the time is over")
    assert seen == ["the time is over", "end"]
    assert calls.ended == [call]
    assert not call.cancel()
    completion.succeed(None)
    assert seen == ["the time is over", "end"]
    assert calls.reported == []


@pytest.mark.parametrize("turns", [0, 1, 2])
async def test_a_cancelled_call_that_has_become_a_task_ends_where_it_waits(turns: int) -> None:
    seen, calls = list[str](), Calls()
    call = calls.start(_noting(asyncio.get_running_loop().create_future(), seen))
    for _ in range(turns):
        await asyncio.sleep(0)
    assert call.cancel("enough")
    await calls.end(call)
    assert seen == ["enough", "end"]
    assert calls.reported == []


@pytest.mark.parametrize("becomes_task", [True, False])
async def test_counting_references_frees_what_a_cancelled_call_knew(becomes_task: bool) -> None:
    class Known:
        """An object that the call knows."""

    async def wait() -> None:
        known = Known()
        left.append(weakref.ref(known))
        await (asyncio.Event().wait() if becomes_task else Completion[None]())

    left: list[weakref.ref[Known]] = []
    gc.collect()
    gc.disable()
    try:
        calls = Calls()
        call = calls.start(wait())
        await asyncio.sleep(0)
        call.cancel()
        await calls.end(call)
        calls.ended.clear()
        del call
        await asyncio.sleep(0)
        assert left[0]() is None
    finally:
        gc.enable()


async def test_a_call_may_outlive_its_cancelling() -> None:
    first, second, seen = Completion[None](), Completion[str](), list[str]()

    async def insist() -> None:
        try:
            await first
        except asyncio.CancelledError:
            seen.append(await second)

    calls = Calls()
    call = calls.start(insist())
    call.cancel()
    assert not call.is_done
    second.succeed("value")
    assert seen == ["value"]
    assert calls.ended == [call]


# Errors


def _waits() -> Iterator[Any]:
    yield None
    yield asyncio.sleep(0)
    yield own_task()


async def test_what_a_call_raises_is_reported() -> None:
    async def fail(waits: Any) -> None:
        if waits is not None:
            await waits
        raise Failure

    for waits in _waits():
        calls = Calls()
        call = calls.start(fail(waits))
        await calls.end(call)
        assert [type(error) for error in calls.reported] == [Failure]


# Surroundings


async def test_each_call_has_context_variables_of_its_own() -> None:
    completions, seen = [Completion[None]() for _ in range(2)], list[str]()

    async def remember(name: str, completion: Completion[None]) -> None:
        SOMEBODY.set(name)
        await completion
        seen.append(SOMEBODY.get())
        await own_task()
        seen.append(SOMEBODY.get())

    for name, completion in zip("ab", completions, strict=True):
        Calls().start(remember(name, completion))
    for completion in completions:
        completion.succeed(None)
    for _ in range(3):
        await asyncio.sleep(0)
    assert seen == ["a", "b", "a", "b"]
    assert SOMEBODY.get() == "nobody"
