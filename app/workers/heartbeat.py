"""Notices a process that hangs, and kills it, so that it is restarted.

Each process reports every second that its event loop runs. The supervisor counts its own checks of
a process since the last report, not seconds: while the machine or all processes are stopped, or
nobody gets a processor, the supervisor does not check either.

A process that hangs is asked for its stack by a signal. `faulthandler` answers it without Python,
so also if C code does not return. Then it is killed, which leaves only what a crash would leave.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from headgate.app.runtime import periodic
from headgate.app.workers.child import Child

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
    log.critical("process hangs, and is killed", extra=facts)
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
