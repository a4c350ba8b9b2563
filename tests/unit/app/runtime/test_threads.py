"""Threads: while clients keep theirs busy, what guards a gateway goes on."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest

from headgate.app.backends.payloads import PAYLOADS
from headgate.app.bulk.arrow import THREADS_MAX, ArrowThreads
from headgate.app.runtime.telemetry import Metrics
from headgate.app.runtime.threads import PAGES
from headgate.app.transport.certificate import Certificate
from headgate.engine.threads import Threads
from tests.unit.app.auth.test_replaced_files import JwksOfFile, KeysFile
from tests.unit.app.transport.test_certificate import write

Call = Callable[[Callable[[], Any]], Coroutine[Any, Any, Any]]


@asynccontextmanager
async def busy() -> AsyncIterator[None]:
    """Keep every thread busy that does what clients ask for."""
    arrow = ArrowThreads()
    calls: list[Call] = [PAYLOADS.run, PAGES.call, *[arrow.run] * THREADS_MAX]
    all_busy, may_end = Barrier(len(calls) + 1), Event()

    def hold() -> None:
        all_busy.wait()
        may_end.wait()

    async with asyncio.TaskGroup() as tasks:
        for call in calls:
            tasks.create_task(call(hold))
        await asyncio.to_thread(all_busy.wait)
        try:
            yield
        finally:
            may_end.set()
    await arrow.close()


async def revoke_keys(path: Path) -> None:
    for kind in (KeysFile, JwksOfFile):
        keys = kind(path / "keys")
        (path / "keys").write_bytes(keys.new)
        await keys.file.look()
        assert (keys.holds("old"), keys.holds("new")) == (False, True)


async def renew_certificate(path: Path) -> None:
    files = path / "cert.pem", path / "key.pem"
    write(*files)
    certificate = Certificate(*files)
    before = certificate.context
    write(*files)
    await certificate.look_beside()
    assert certificate.context is not before


async def answer_metrics(path: Path) -> None:
    del path
    assert b"headgate_" in await Metrics().text()


async def find_host(path: Path) -> None:
    """As a fetch of a key set does, and a connection to a server."""
    del path
    assert await asyncio.get_running_loop().getaddrinfo("127.0.0.1", 80)


@pytest.mark.parametrize("guard", [revoke_keys, renew_certificate, answer_metrics, find_host])
async def test_guards_are_not_kept_busy(
    guard: Callable[[Path], Awaitable[None]], tmp_path: Path
) -> None:
    async with busy():
        await guard(tmp_path)


async def test_a_call_that_nobody_awaits_any_more_does_not_begin() -> None:
    threads, may_end, began = Threads(1, "test"), Event(), list[str]()
    first = asyncio.create_task(threads.call(may_end.wait))
    left = asyncio.create_task(threads.call_if_awaited(lambda: began.append("left")))
    stays = asyncio.create_task(threads.call(lambda: began.append("stays")))
    await asyncio.sleep(0)
    left.cancel()
    stays.cancel()
    await asyncio.gather(left, stays, return_exceptions=True)
    may_end.set()
    await first
    await asyncio.to_thread(threads.shutdown)
    assert began == ["stays"]
