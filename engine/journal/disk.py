"""Disk: one directory of files, and the only way the engine touches it.

What was appended is safe once `sync` has returned; until then a crash may take any part of it. A
name that appeared or went is safe once `sync_names` has returned. Everything raises `OSError`, in
the system's words. One kind of it is final: a sync that failed says nothing of what it lost, nor
does a later one that works.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar

from headgate.engine.errors import Unavailable
from headgate.engine.journal.descriptors import SpareDescriptors

T = TypeVar("T")

LOCK = "lock"
"""The file whose lock says that a process uses the directory; it holds the process's id."""

RESERVE = "reserve"
"""The file that holds nothing but disk space."""

_FILE_MODE = 0o600
_DIRECTORY_MODE = 0o700
_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW  # no file of the engine's is a link to somebody else's


class SyncError(OSError):
    """A sync failed: nothing is known of what was written since the last one."""


def is_full(error: OSError) -> bool:
    """Tell whether something failed because there is no room."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


class Disk(Protocol):
    """A directory of files that only grow."""

    def names(self) -> list[str]:
        """Return the names of all files, in order."""
        ...

    def size_bytes(self, name: str) -> int:
        """Return the length of a file."""
        ...

    def free_bytes(self) -> int:
        """Return how much more fits, with what is reserved."""
        ...

    def reserve(self, size_bytes: int) -> None:
        """Keep room that nobody else can take; what is kept already counts."""
        ...

    def give_up_reserve(self) -> bool:
        """Let what is written from now on take that room; tells whether there was any."""
        ...

    def open(self, name: str) -> BinaryIO:
        """Open a file to read it from its beginning."""
        ...

    def append(self, name: str, data: bytes) -> None:
        """Write behind what a file holds; it is made if it is not there."""
        ...

    def sync(self, name: str) -> None:
        """Make what was appended to a file safe. Raises `SyncError`."""
        ...

    def sync_names(self) -> None:
        """Make safe which files there are. Raises `SyncError`."""
        ...

    def truncate(self, name: str, size_bytes: int) -> None:
        """Cut a file, and make that safe."""
        ...

    def rename(self, name: str, to: str) -> None:
        """Give a file another name, at once; a file that had it is gone."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file."""
        ...

    async def in_thread(self, act: Callable[[], T]) -> T:
        """Do something with this disk while the event loop goes on."""
        ...

    async def wait_idle(self) -> None:
        """Return when nothing goes on aside any more; nothing may be begun from here on."""
        ...

    def close(self) -> None:
        """Let go of the directory."""
        ...


class SystemDisk:
    """A directory of the machine, held by this process alone."""

    def __init__(self, directory: Path, *, is_shared: bool = False) -> None:
        """Make the directory if need be, and take hold of it.

        Args:
            directory: where the files are.
            is_shared: do not take hold: another process does, and knows of this one.

        Raises:
            Unavailable: another process holds it.
        """
        self._directory = directory
        self._files: dict[str, int] = {}  # descriptors of files that are appended to
        self.spare = SpareDescriptors(0) if is_shared else SpareDescriptors()
        directory.mkdir(_DIRECTORY_MODE, parents=True, exist_ok=True)
        self._lock = None if is_shared else _locked(directory)
        self._itself = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._is_closed = False
        self._reserved_bytes = self._size_of_reserve()
        # Two: a sync that takes long must not hold up the writes behind it.
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="disk")

    def names(self) -> list[str]:
        """Return the names of all files but the lock and the reserve, in order."""
        paths = self.spare.use(lambda: list(self._directory.iterdir()))
        return sorted(path.name for path in paths if path.name not in (LOCK, RESERVE))

    def size_bytes(self, name: str) -> int:
        """Return the length of a file."""
        return self._path(name).stat().st_size

    def free_bytes(self) -> int:
        """Return how much more fits, with what is reserved."""
        statistics = os.fstatvfs(self._itself)
        return statistics.f_bavail * statistics.f_frsize + self._reserved_bytes

    def reserve(self, size_bytes: int) -> None:
        """Keep room in a file, so that nobody else takes it; what is kept already counts."""
        if size_bytes <= self._reserved_bytes:
            return
        descriptor = self._open(RESERVE, os.O_WRONLY | os.O_CREAT)
        try:
            _allocate(descriptor, size_bytes)
        except OSError:
            self._path(RESERVE).unlink()
            self._reserved_bytes = 0
            raise
        finally:
            os.close(descriptor)
        self._reserved_bytes = size_bytes

    def give_up_reserve(self) -> bool:
        """Remove that file, if it is there: what is written from now on may take its room."""
        if not self._reserved_bytes:
            return False
        self._reserved_bytes = 0
        with suppress(FileNotFoundError):
            self._path(RESERVE).unlink()
        return True

    def open(self, name: str) -> BinaryIO:
        """Open a file to read it from its beginning."""
        return os.fdopen(self._open(name, os.O_RDONLY), "rb")

    def append(self, name: str, data: bytes) -> None:
        """Write behind what a file holds; it is made if it is not there."""
        descriptor = self._descriptor(name)
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]

    def sync(self, name: str) -> None:
        """Make what was appended to a file safe."""
        _sync(self._descriptor(name))

    def sync_names(self) -> None:
        """Make safe which files there are."""
        _sync(self._itself)

    def truncate(self, name: str, size_bytes: int) -> None:
        """Cut a file, and make that safe."""
        os.ftruncate(self._descriptor(name), size_bytes)
        self.sync(name)

    def rename(self, name: str, to: str) -> None:
        """Give a file another name, at once; a file that had it is gone."""
        self._path(name).rename(self._path(to))
        self._let_go(to)
        if name in self._files:
            self._files[to] = self._files.pop(name)

    def remove(self, name: str) -> None:
        """Remove a file."""
        self._path(name).unlink()
        self._let_go(name)

    async def in_thread(self, act: Callable[[], T]) -> T:
        """Do something with this disk in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, act)

    async def wait_idle(self) -> None:
        """Return when nothing goes on aside any more; nothing may be begun from here on.

        A thread does not end with the task that waited for it.
        """
        await asyncio.to_thread(self._threads.shutdown)

    def close(self) -> None:
        """Let go of the directory; what still runs aside is waited for."""
        self._threads.shutdown()
        if self._is_closed:
            return
        self._is_closed = True
        for name in list(self._files):
            self._let_go(name)
        self.spare.close()
        os.close(self._itself)
        if self._lock is not None:
            os.close(self._lock)

    def _path(self, name: str) -> Path:
        return self._directory / name

    def _open(self, name: str, flags: int) -> int:
        """Return the descriptor of a file, which nobody else may read from now on."""
        path = self._path(name)
        descriptor = self.spare.use(lambda: os.open(path, flags | _FLAGS, _FILE_MODE))
        if os.fstat(descriptor).st_mode & 0o077:  # of a version that did not mind
            with suppress(OSError):
                os.fchmod(descriptor, _FILE_MODE)
        return descriptor

    def _descriptor(self, name: str) -> int:
        if name not in self._files:
            self._files[name] = self._open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        return self._files[name]

    def _let_go(self, name: str) -> None:
        descriptor = self._files.pop(name, None)
        if descriptor is not None:
            os.close(descriptor)

    def _size_of_reserve(self) -> int:
        try:
            return self.size_bytes(RESERVE)
        except FileNotFoundError:
            return 0


def _allocate(descriptor: int, size_bytes: int) -> None:
    if sys.platform == "linux":
        os.posix_fallocate(descriptor, 0, size_bytes)
    else:
        left = size_bytes
        while left:
            left -= os.write(descriptor, bytes(min(left, 2**20)))


def _sync(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise SyncError(error.errno, error.strerror) from error


def _locked(directory: Path) -> int:
    """Return the descriptor that holds the lock, for as long as it stays open."""
    descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | _FLAGS, _FILE_MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(descriptor, 100).decode(errors="replace").strip() or "another process"
        os.close(descriptor)
        raise Unavailable(f"in use by {holder}") from None
    with suppress(OSError):  # a full disk keeps the lock all the same
        os.fchmod(descriptor, _FILE_MODE)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()} on {os.uname().nodename}\n".encode())
    return descriptor
