"""The directory of the machine: its lock, and its files."""

import asyncio
import errno
import os
import resource
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from headgate.engine.errors import Unavailable
from headgate.engine.journal.disk import LOCK, RESERVE, SystemDisk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SystemDisk]:
    opened = SystemDisk(tmp_path / "data")
    yield opened
    opened.close()


def content(disk: SystemDisk, name: str) -> bytes:
    with disk.open(name) as file:
        return file.read()


@contextmanager
def file_size_bytes_max(size_bytes: int) -> Iterator[None]:
    """Let no file of this process grow above a size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


# Who holds it


def test_who_comes_second_is_told_who_holds_the_directory(disk: SystemDisk, tmp_path: Path) -> None:
    holder = f"in use by process {os.getpid()} on {os.uname().nodename}"
    with pytest.raises(Unavailable, match=holder):
        SystemDisk(tmp_path / "data")


def test_the_lock_goes_with_its_holder_and_the_old_name_with_the_lock(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text("process 1 on a machine with a rather long name, long ago\n")
    SystemDisk(tmp_path).close()
    assert (tmp_path / LOCK).read_text() == f"process {os.getpid()} on {os.uname().nodename}\n"
    SystemDisk(tmp_path).close()


def test_a_lock_that_names_nobody_holds_all_the_same(disk: SystemDisk, tmp_path: Path) -> None:
    (tmp_path / "data" / LOCK).write_bytes(b"")
    with pytest.raises(Unavailable, match="in use by another process"):
        SystemDisk(tmp_path / "data")


def test_the_process_that_rewrites_shares_the_directory(disk: SystemDisk, tmp_path: Path) -> None:
    disk.append("x", b"1")
    shared = SystemDisk(tmp_path / "data", is_shared=True)
    assert content(shared, "x") == b"1"
    shared.close()
    with pytest.raises(Unavailable):
        SystemDisk(tmp_path / "data")


def test_a_directory_that_cannot_be_made_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="Not a directory"):
        SystemDisk(tmp_path / "file" / "data")


# What is written


def test_what_does_not_fit_is_an_error_and_its_beginning_is_there(disk: SystemDisk) -> None:
    disk.append("x", b"a" * 60)
    with file_size_bytes_max(100), pytest.raises(OSError, match="File too large") as refusal:
        disk.append("x", b"b" * 60)
    assert refusal.value.errno == errno.EFBIG
    assert content(disk, "x") == b"a" * 60 + b"b" * 40


@pytest.mark.parametrize("ask", ["append", "sync", "truncate", "open"])
def test_a_link_to_another_file_is_refused_and_that_file_untouched(
    disk: SystemDisk, tmp_path: Path, ask: str
) -> None:
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / "data" / "x").symlink_to(tmp_path / "precious")
    more: dict[str, tuple[object, ...]] = {"append": (b"1",), "truncate": (0,)}
    with pytest.raises(OSError, match="symbolic links"):
        getattr(disk, ask)("x", *more.get(ask, ()))
    assert (tmp_path / "precious").read_bytes() == b"precious"


def test_a_lock_that_is_a_link_is_refused_and_what_it_links_to_untouched(tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / LOCK).symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic links"):
        SystemDisk(tmp_path)
    assert (tmp_path / "precious").read_bytes() == b"precious"


# Who may read it


def mode(path: Path) -> str:
    return oct(path.stat().st_mode & 0o777)


def test_nobody_else_may_read_what_is_kept(disk: SystemDisk, tmp_path: Path) -> None:
    disk.append("x", b"1")
    disk.reserve(1000)
    assert mode(tmp_path / "data") == "0o700"
    assert {mode(path) for path in (tmp_path / "data").iterdir()} == {"0o600"}


def test_files_of_an_earlier_version_are_closed_and_the_directory_left(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for name in ("read", "written", LOCK):
        (tmp_path / name).touch(0o644)
    disk = SystemDisk(tmp_path)
    disk.open("read").close()
    disk.append("written", b"1")
    disk.close()
    assert mode(tmp_path) == "0o755"
    assert {mode(path) for path in tmp_path.iterdir()} == {"0o600"}


# When little is left


def test_a_reserve_takes_room_and_gives_it_back(disk: SystemDisk, tmp_path: Path) -> None:
    assert not disk.give_up_reserve()
    disk.reserve(2**20)
    disk.reserve(2**19)  # there is more already
    assert (tmp_path / "data" / RESERVE).stat().st_blocks * 512 >= 2**20
    assert disk.names() == []
    free_bytes = disk.free_bytes()
    disk.close()

    again = SystemDisk(tmp_path / "data")  # it knows what is there
    assert abs(again.free_bytes() - free_bytes) < 2**29  # others use this disk too
    assert again.give_up_reserve()
    assert not again.give_up_reserve()
    assert not (tmp_path / "data" / RESERVE).exists()
    again.close()


def test_a_reserve_that_does_not_fit_is_none(disk: SystemDisk, tmp_path: Path) -> None:
    with file_size_bytes_max(100), pytest.raises(OSError, match="File too large"):
        disk.reserve(2**20)
    assert not (tmp_path / "data" / RESERVE).exists()
    assert not disk.give_up_reserve()


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Let this process open nothing more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))  # noqa: PTH208
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, before[1]))
    taken: list[int] = []
    try:
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
def test_files_can_be_opened_when_no_descriptor_is_left(disk: SystemDisk) -> None:
    with no_descriptors():
        with pytest.raises(OSError, match="Too many open files"):
            os.open(os.devnull, os.O_RDONLY)
        for name in ("a", "b", "c"):
            disk.append(name, b"1")
            disk.sync(name)
            disk.sync_names()
        assert disk.names() == ["a", "b", "c"]
        assert content(disk, "a") == b"1"


# Aside


async def test_two_things_go_on_aside_at_once(disk: SystemDisk) -> None:
    both = threading.Barrier(2)

    def meet() -> int:
        both.wait(10)
        return threading.get_ident()

    here, there = await asyncio.gather(disk.in_thread(meet), disk.in_thread(meet))
    assert len({here, there, threading.get_ident()}) == 3


async def test_what_goes_on_aside_is_waited_for_while_the_loop_goes_on(disk: SystemDisk) -> None:
    begun, let_go = threading.Event(), threading.Event()

    def act() -> None:
        begun.set()
        assert let_go.wait(10)

    acting = asyncio.create_task(disk.in_thread(act))
    await asyncio.to_thread(begun.wait, 10)
    acting.cancel()  # its thread does not end with it
    idle = asyncio.create_task(disk.wait_idle())
    await asyncio.sleep(0)
    assert not idle.done()
    let_go.set()
    await asyncio.wait_for(idle, 10)
