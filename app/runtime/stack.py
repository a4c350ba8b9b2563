"""Stack: what a thread is doing right now, as another thread sees it.

It is read only when the event loop is late, so requests are not slower for it.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any, NamedTuple

from headgate.app.runtime.telemetry import RequestMetrics

_OURS = ("headgate.",)
_RUNNERS = ("asyncio.", "uvicorn.")
_RUN = frozenset({"run", "run_forever", "run_until_complete", "_run_once", "asyncio_run"})
_DEPTH_MAX = 12

_REQUEST: CodeType = RequestMetrics.__call__.__code__


class Doing(NamedTuple):
    """The activity of a thread."""

    operation: str | None  # of which request, or else of which task
    function: str | None  # the innermost of ours; None: the loop had nothing to do
    stack: tuple[str, ...]  # what of ours waits for it, with lines, from the inside


def doing(thread_id: int, loop: asyncio.AbstractEventLoop, command: CodeType) -> Doing:
    """Return the activity of an event loop's thread.

    If it does nothing, the stack is that of the other threads: one of them may keep it from
    running.

    Args:
        thread_id: of the loop's thread, as `threading.get_ident` tells it.
        loop: runs there.
        command: what runs a command; its local variable `words` says which.
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
    """Yield a frame and its callers, up to the event loop."""
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
    """Return the operation of the request that is being answered, and its command, if any."""
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
