"""A process that the supervisor has started, with its control channel."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Self

from headgate.app.workers.channel import Beat, Channel, FailedFrame, Frame, Orders, ReadyFrame, Stop

_MODULE = "headgate.app.workers"
_STACK_PART_BYTES = 2**16


class Role(StrEnum):
    """The role of a process: the first word of its name."""

    ENGINE = "engine"
    WORKER = "worker"


class StartFailed(Exception):
    """A process has ended before it served. The text says why."""


class Child:
    """A process of the gateway. It shares the supervisor's standard error."""

    def __init__(self, process: asyncio.subprocess.Process, number: int, name: str) -> None:
        self.number = number
        self.name = name
        self.channel: Channel
        self.silent_looks = 0  # since it was last heard of
        self.stack_descriptor = -1  # where the process writes its stack
        self._stack = -1  # the other end of it, here
        self._process = process
        self._reason: str | None = None
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._take: Callable[[int, Frame], None] = lambda _, __: None

    @classmethod
    async def start(cls, name: str, number: int, inherited: Sequence[int]) -> Self:
        """Start a process, which imports the program anew; `number` is never reused."""
        here, there = socket.socketpair()
        stack, stack_there = os.pipe()
        with there:
            try:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", _MODULE, name, str(there.fileno())),
                    stdin=asyncio.subprocess.DEVNULL,
                    pass_fds=(there.fileno(), stack_there, *inherited),
                )
            except BaseException:
                here.close()
                os.close(stack)
                raise
            finally:
                os.close(stack_there)
        child = cls(process, number, name)
        child.stack_descriptor = stack_there
        child.watch_stack(stack)
        child.channel = await Channel.open(here, child._receive, child._end)
        return child

    @property
    def process_id(self) -> int:
        return self._process.pid

    @property
    def is_ready(self) -> bool:
        return self._ready.done() and self._ready.exception() is None

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    async def serve(self, orders: Orders, take: Callable[[int, Frame], None]) -> None:
        """Send the orders, and return once the process serves, or raise StartFailed."""
        self._take = take
        self.channel.send(orders)
        await asyncio.shield(self._ready)

    async def until_end(self) -> int:
        """Wait for the end, and return the exit code; negative after a signal."""
        return await self._process.wait()

    def stop(self, *, is_replaced: bool = False) -> None:
        """Ask the process to end; with `is_replaced` it can take its time."""
        self.channel.send(Stop(is_replaced))

    def kill(self) -> None:
        if self.is_running:
            self._process.kill()

    def signal(self, number: signal.Signals) -> None:
        if self.is_running:
            self._process.send_signal(number)

    def watch_stack(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._stack = descriptor

    def read_stack(self) -> bytes:
        with suppress(OSError):  # there is nothing, or the process has ended meanwhile
            return os.read(self._stack, _STACK_PART_BYTES)
        return b""

    def close(self) -> None:
        self.channel.close()
        descriptor, self._stack = self._stack, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _receive(self, frame: Frame) -> None:
        self.silent_looks = 0
        match frame:
            case Beat():
                pass
            case ReadyFrame():
                if not self._ready.done():
                    self._ready.set_result(None)
            case FailedFrame(reason):
                self._reason = reason
            case _:
                self._take(self.number, frame)

    def _end(self) -> None:
        if not self._ready.done():
            reason = self._reason or f"the {self.name} process has ended at its start"
            self._ready.set_exception(StartFailed(reason))
            self._ready.exception()  # whoever waits gets it; nobody need wait
