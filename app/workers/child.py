"""A process that the supervisor has started, with its control channel."""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Final, Self

from headgate.app.runtime import periodic
from headgate.app.runtime.periodic import is_shortage
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
            reason = self._reason or f"the {self.name} process ended while it was starting"
            self._ready.set_exception(StartFailed(reason))
            self._ready.exception()  # whoever waits gets it; nobody need wait


# Slot: a child that is started again when it ends.
#
# A process that ends is restarted: at once if it had served for a while, and with growing pauses if
# it ends again and again.

log = logging.getLogger("headgate")

LONG_S: Final = 2.0
"""A process that has served for so long has ended by chance, and is started anew at once."""

_PAUSE_S_MIN = 0.1
_PAUSE_S_MAX = 5.0

STARTS_MAX: Final = 5
"""So many starts that fail in a row are no chance."""


class RestartFailed(Exception):
    """A process that has ended cannot be restarted. The text says why."""


class Slot:
    """Keeps one process. Call `fill`, then run `keep` in a task."""

    def __init__(
        self,
        start: Callable[[], Awaitable[Child]],
        *,
        is_needed: Callable[[], bool],
        replaced_s_max: float = 0.0,
    ) -> None:
        """`is_needed` tells whether nothing is served while this slot is empty."""
        self.child: Child | None = None
        self.restart_count = 0
        self._start = start
        self._is_needed = is_needed
        self._replaced_s_max = replaced_s_max
        self._filled = asyncio.Event()
        self._changing = asyncio.Lock()
        self._leaving: set[asyncio.Task[None]] = set()

    async def fill(self) -> None:
        """Start a process, and return once it serves. Raises StartFailed or OSError."""
        self.child = await self._start()
        self._filled.set()

    async def keep(self) -> None:
        """Restart the process whenever it has ended; raises RestartFailed if nothing is served."""
        loop, quick_ends = asyncio.get_running_loop(), 0
        while True:
            await self._filled.wait()
            child, since_s = self.child, loop.time()
            assert child is not None
            code = await child.until_end()
            if child is not self.child:
                continue  # it was replaced
            facts = {"ended": child.name, "pid": child.process_id, "code": code}
            log.error("process has ended and is restarted", extra=facts)
            self.child = None
            self._filled.clear()
            quick_ends = 0 if loop.time() - since_s >= LONG_S else quick_ends + 1
            async with self._changing:
                await self._fill_again(quick_ends)

    async def replace(self) -> bool:
        """Start another process, and stop the present one if the new one serves; return whether."""
        async with self._changing:
            before = self.child
            try:
                self.child = await self._start()
            except Exception as error:  # noqa: BLE001  for want of a thread, for instance
                log.error("reload aborted; processes go on", extra={"reason": str(error)})  # noqa: TRY400
                return False
            self._filled.set()
        if before is not None:
            before.stop(is_replaced=True)
            leaving = asyncio.create_task(self._end_in_time(before))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)
        return True

    async def _end_in_time(self, child: Child) -> None:
        try:
            async with asyncio.timeout(self._replaced_s_max):
                await child.until_end()
        except TimeoutError:
            log.warning("process killed because it did not end", extra={"killed": child.name})
            child.kill()

    async def _fill_again(self, quick_ends: int) -> None:
        failures = 0
        while self.child is None:
            pauses = quick_ends + failures
            if pauses > 1 or failures:
                await asyncio.sleep(min(_PAUSE_S_MIN * 2**pauses, _PAUSE_S_MAX))
            try:
                await self.fill()
            except Exception as error:  # noqa: BLE001  for want of a thread, for instance
                failures += 1
                log.error("process does not start", extra={"reason": str(error)})  # noqa: TRY400
                is_passing = is_shortage(error)
                if failures >= STARTS_MAX and self._is_needed() and not is_passing:
                    raise RestartFailed(str(error)) from None
        self.restart_count += 1


# Heartbeats: notice a process that hangs, and kill it, so that it is restarted.
#
# Each process reports every second that its event loop runs. The supervisor counts its own checks
# of a process since the last report, not seconds: while the machine or all processes are stopped,
# or nobody gets a processor, the supervisor does not check either.
#
# A process that hangs is asked for its stack by a signal. `faulthandler` answers it without Python,
# so also if C code does not return. Then it is killed, which leaves only what a crash would leave.

log = logging.getLogger("headgate")

LOOK_S: Final = 1.0

SILENT_LOOKS_MAX: Final = 30
"""After so many looks a process hangs. Nothing of ours holds a loop for a thousandth of that."""

STACK_BYTES_MAX: Final = 16 * 2**10
"""Of a stack that is logged; the thread of the event loop comes last, and is kept."""

_STACK_LOOKS = 10
_STACK_LOOK_S = 0.1


def answer_with_stack(descriptor: int) -> None:
    """Write the stack of each thread to `descriptor` at SIGUSR1."""
    os.set_inheritable(descriptor, False)
    os.set_blocking(descriptor, False)  # nobody reads what nobody has asked for
    faulthandler.register(signal.SIGUSR1, file=descriptor, all_threads=True)


class Heartbeats:
    def __init__(self, children: Callable[[], Iterable[Child]]) -> None:
        self._children = children

    async def run(self) -> None:
        await periodic.repeat("heartbeats", self._look_later)

    async def _look_later(self) -> None:
        await asyncio.sleep(LOOK_S)
        await self.look()

    async def look(self) -> None:
        hung = []
        for child in self._children():
            child.silent_looks += 1
            if child.silent_looks > SILENT_LOOKS_MAX:
                hung.append(child)
        await asyncio.gather(*map(end_hung, hung))


async def end_hung(child: Child) -> None:
    stack = await _stack_of(child)
    facts = {"killed": child.name, "pid": child.process_id, "stack": stack}
    log.critical("process hangs and is killed", extra=facts)
    child.kill()


async def _stack_of(child: Child) -> list[str]:
    """Return the lines of its stack; none if it is stopped and does not answer."""
    with suppress(ProcessLookupError):
        child.signal(signal.SIGUSR1)
    text = b""
    for _ in range(_STACK_LOOKS):
        await asyncio.sleep(_STACK_LOOK_S)
        part = child.read_stack()
        if text and not part:
            break
        text += part
    return text[-STACK_BYTES_MAX:].decode(errors="replace").splitlines()
