"""A process that hangs is noticed and killed; one that is only stopped with all others is not."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from headgate.app.workers.child import Child
from headgate.app.workers.frames import Beat
from headgate.app.workers.heartbeat import SILENT_LOOKS_MAX, Heartbeats

HANGS = """
import sys, time
from headgate.app.workers.heartbeat import answer_with_stack

def held_by_this():
    print(flush=True)
    time.sleep(1e6)

answer_with_stack(int(sys.argv[1]))
held_by_this()
"""


@pytest.fixture
async def child() -> AsyncIterator[Child]:
    stack, there = os.pipe()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HANGS, str(there)), stdout=subprocess.PIPE, pass_fds=(there,)
    )
    os.close(there)
    assert process.stdout is not None
    await process.stdout.readline()
    child = Child(process, 1, "worker 1")
    child.watch_stack(stack)
    yield child
    child.kill()
    await child.until_end()
    os.close(stack)


def killed(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.levelno == logging.CRITICAL]


async def test_a_process_that_hangs_is_killed_and_its_stack_is_logged(
    child: Child, caplog: pytest.LogCaptureFixture
) -> None:
    heartbeats = Heartbeats(lambda: [child])
    for _ in range(SILENT_LOOKS_MAX):
        await heartbeats.look()
    assert child.is_running
    assert not killed(caplog)
    await heartbeats.look()

    assert await child.until_end() == -signal.SIGKILL
    [record] = killed(caplog)
    assert "held_by_this" in str(record.__dict__["stack"])


async def test_a_process_that_is_stopped_is_killed_without_a_stack(
    child: Child, caplog: pytest.LogCaptureFixture
) -> None:
    child.signal(signal.SIGSTOP)
    child.silent_looks = SILENT_LOOKS_MAX
    await Heartbeats(lambda: [child]).look()

    assert await child.until_end() == -signal.SIGKILL
    assert [record.__dict__["stack"] for record in killed(caplog)] == [[]]


async def test_a_process_that_is_heard_of_now_and_then_goes_on(child: Child) -> None:
    heartbeats = Heartbeats(lambda: [child])
    for _ in range(3):
        for _ in range(SILENT_LOOKS_MAX):
            await heartbeats.look()
        child._receive(Beat())
    assert child.is_running
