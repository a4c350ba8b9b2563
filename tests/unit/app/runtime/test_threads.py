"""Threads and the machine: guards go on while clients keep theirs busy; limits and departures."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest

from headgate.app.backends.payloads import PAYLOADS
from headgate.app.bulk.arrow import THREADS_MAX
from headgate.app.runtime.connections import LEAVERS_AT_ONCE_MAX, Departures
from headgate.app.runtime.machine import core_count, memory_bytes
from headgate.app.runtime.small_file import stamp_of
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
    arrow = Threads(THREADS_MAX, "arrow")
    calls: list[Call] = [PAYLOADS.run, PAGES.call, *[arrow.call_if_awaited] * THREADS_MAX]
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
    await asyncio.to_thread(arrow.shutdown)


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


MIB = 2**20


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("line", "folder", "file"),
    [
        ("0::/slice/unit", "groups", "memory.max"),
        ("4:memory:/slice/unit", "groups/memory", "memory.limit_in_bytes"),
    ],
)
def test_the_smallest_limit_counts(tmp_path: Path, line: str, folder: str, file: str) -> None:
    put(tmp_path / "of_us", f"9:name=systemd:/\n{line}\n")
    for *limits, expected in ((1, 2, None, 1), (None, 2, 3, 2), (None, None, 3, 3)):
        for place, limit in zip(("slice/unit", "slice", ""), limits, strict=True):
            put(tmp_path / folder / place / file, f"{limit * MIB if limit else 'max'}\n")
        assert memory_bytes(tmp_path / "of_us", tmp_path / "groups") == (expected or 0) * MIB


@pytest.mark.parametrize(
    ("limit", "count"),
    [("100000 100000", 1), ("150000 100000", 1), ("50000 100000", 1), ("max 100000", None)],
)
def test_a_control_group_bounds_cores(tmp_path: Path, limit: str, count: int | None) -> None:
    group = tmp_path / "groups" / "outer" / "inner"
    group.mkdir(parents=True)
    (tmp_path / "of_us").write_text("0::/outer/inner\n")
    (group.parent / "cpu.max").write_text(f"{limit}\n")

    expected = core_count(tmp_path / "none", tmp_path) if count is None else count
    assert core_count(tmp_path / "of_us", tmp_path / "groups") == expected


def test_a_file_in_the_place_of_another_has_another_stamp(tmp_path: Path) -> None:
    file, other, link = tmp_path / "keys", tmp_path / "new", tmp_path / "link"
    for path in (file, other):
        path.write_text("a")
        os.utime(path, ns=(1, 1))
    link.symlink_to(file)
    before = stamp_of(file)
    assert stamp_of(link) == before
    other.rename(file)
    assert stamp_of(link) == stamp_of(file) != before
    assert stamp_of(other) is None
    other.symlink_to(other)
    assert "symbolic links" in str(stamp_of(other))


async def test_many_leave_in_turns_and_in_order() -> None:
    departures, gone, counts = Departures(), list[int](), list[int]()
    many = 5 * LEAVERS_AT_ONCE_MAX + 1
    for number in range(many):
        departures.add(partial(gone.append, number))
    while departures:
        counts.append(len(gone))
        await asyncio.sleep(0)
    counts.append(len(gone))

    assert gone == list(range(many))
    assert counts == [*range(LEAVERS_AT_ONCE_MAX, many, LEAVERS_AT_ONCE_MAX), many]


async def test_one_that_fails_does_not_hold_up_the_others() -> None:
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, what: reported.append(what["exception"])
    )
    departures, gone, error = Departures(), list[int](), ValueError()

    def fail() -> None:
        raise error

    for number in range(LEAVERS_AT_ONCE_MAX):
        departures.add(partial(gone.append, number))
    departures.add(fail)
    for number in range(2 * LEAVERS_AT_ONCE_MAX):
        departures.add(partial(gone.append, number))
    for _ in range(10):
        await asyncio.sleep(0)

    assert not departures
    assert reported == [error]
    assert len(gone) == 3 * LEAVERS_AT_ONCE_MAX
