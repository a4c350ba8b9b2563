"""Disk: one directory of files. The engine has no other way to its files.

Appended data is safe once `sync` has returned; before that, a crash may take any part of it. A file
that was made, renamed or removed is safely so once `sync_names` has returned. Every method raises
`OSError`, with the system's text. A failed sync is final: it does not say what was lost, and a
later sync that works does not say so either.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar

from headgate.engine.errors import Unavailable
from headgate.engine.limits import SPARE_DESCRIPTORS
from headgate.engine.threads import Threads

# Descriptors: spare file descriptors, so that the engine can open a file when none are left.
#
# A process that has used up its descriptors can accept no more connections. The journal must go
# on: it needs a descriptor now and then, for a segment or a rewrite.

T = TypeVar("T")


def none_are_left(error: OSError) -> bool:
    return error.errno in (errno.EMFILE, errno.ENFILE)


class SpareDescriptors:
    def __init__(self, count: int = SPARE_DESCRIPTORS) -> None:
        self._count = count
        self._kept: list[int] = []
        self._refill()

    def use(self, act: Callable[[], T]) -> T:
        """Call a function that opens a file; if no descriptor is left, free one and call again."""
        try:
            return act()
        except OSError as error:
            if not none_are_left(error):
                raise
        self.close()
        try:
            return act()
        finally:
            self._refill()

    def close(self) -> None:
        with suppress(IndexError):
            while True:
                os.close(self._kept.pop())

    def _refill(self) -> None:
        with suppress(OSError):
            while len(self._kept) < self._count:
                self._kept.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))


LOCK = "lock"
"""The file whose lock says that a process uses the directory; it holds the process's id."""

RESERVE = "reserve"
"""The file that holds nothing but disk space."""

_READERS = 2
"""Threads for reads. They take turns on the interpreter, and wait for the disk together."""

_FILE_MODE = 0o600
_DIRECTORY_MODE = 0o700
_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW  # a link may lead to a file of somebody else


class SyncError(OSError):
    """A sync failed: what was written since the last one may be lost."""


def is_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


class Disk(Protocol):
    """A directory of files that only grow."""

    def names(self) -> list[str]: ...

    def size_bytes(self, name: str) -> int: ...

    @property
    def remote_bytes(self) -> int:
        """Return the length of all files that are elsewhere, and take no room here."""
        ...

    def free_bytes(self) -> int:
        """Return the free bytes of the disk, reserved ones included."""
        ...

    def reserve(self, size_bytes: int) -> None:
        """Reserve so many bytes of the disk in all."""
        ...

    def give_up_reserve(self) -> bool: ...

    def open(self, name: str) -> BinaryIO: ...

    def read(self, name: str, offset: int, size_bytes: int) -> bytes:
        """Return a part of a file; it is shorter if the file ends before."""
        ...

    def content(self, name: str) -> bytes | Path: ...

    def append(self, name: str, data: bytes) -> None:
        """Append to a file; it is made if it does not exist."""
        ...

    def sync(self, name: str) -> None:
        """Sync the bytes appended to a file. Raises `SyncError`."""
        ...

    def sync_names(self) -> None:
        """Sync the names of the files. Raises `SyncError`."""
        ...

    def truncate(self, name: str, size_bytes: int) -> None:
        """Cut a file to a length, and sync it."""
        ...

    def rename(self, name: str, to: str) -> None:
        """Rename a file atomically; it replaces a file of that name."""
        ...

    def remove(self, name: str) -> None: ...

    def link(self, name: str, target: Disk, to: str) -> None:
        """Give a finished file a second name, also in another directory; OSError if it cannot."""
        ...

    async def in_thread(self, act: Callable[[], T]) -> T: ...

    async def read_in_thread(self, act: Callable[[], T]) -> T:
        """Call a function that reads, while the event loop and what is written go on."""
        ...

    async def wait_idle(self) -> None:
        """Return when no thread works on this disk any more; no call may begin from here on."""
        ...

    def close(self) -> None: ...


class SystemDisk:
    """A directory of the machine, held by this process alone."""

    def __init__(self, directory: Path, *, is_shared: bool = False) -> None:
        """Make and lock the directory, or raise Unavailable; `is_shared`: another has the lock."""
        self._directory = directory
        self._files: dict[str, int] = {}  # descriptors of files that are appended to
        self.spare = SpareDescriptors(0) if is_shared else SpareDescriptors()
        directory.mkdir(_DIRECTORY_MODE, parents=True, exist_ok=True)
        self._lock = None if is_shared else _locked(directory)
        self._itself = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._is_closed = False
        self._reserved_bytes = self._size_of_reserve()
        # Two: a sync that takes long must not hold up the writes behind it.
        self._threads = Threads(2, "disk")
        self._readers = Threads(_READERS, "cold reads")

    def names(self) -> list[str]:
        paths = self.spare.use(lambda: list(self._directory.iterdir()))
        return sorted(path.name for path in paths if path.name not in (LOCK, RESERVE))

    def size_bytes(self, name: str) -> int:
        return self._path(name).stat().st_size

    @property
    def remote_bytes(self) -> int:
        return 0

    def free_bytes(self) -> int:
        statistics = os.fstatvfs(self._itself)
        return statistics.f_bavail * statistics.f_frsize + self._reserved_bytes

    def reserve(self, size_bytes: int) -> None:
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
        if not self._reserved_bytes:
            return False
        self._reserved_bytes = 0
        with suppress(FileNotFoundError):
            self._path(RESERVE).unlink()
        return True

    def open(self, name: str) -> BinaryIO:
        return os.fdopen(self._open(name, os.O_RDONLY), "rb")

    def read(self, name: str, offset: int, size_bytes: int) -> bytes:
        descriptor = self._open(name, os.O_RDONLY)
        try:
            return os.pread(descriptor, size_bytes, offset)
        finally:
            os.close(descriptor)

    def content(self, name: str) -> Path:
        return self._path(name)

    def append(self, name: str, data: bytes) -> None:
        descriptor = self._descriptor(name)
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]

    def sync(self, name: str) -> None:
        _sync(self._descriptor(name))

    def sync_names(self) -> None:
        _sync(self._itself)

    def truncate(self, name: str, size_bytes: int) -> None:
        os.ftruncate(self._descriptor(name), size_bytes)
        self.sync(name)

    def rename(self, name: str, to: str) -> None:
        self._path(name).rename(self._path(to))
        self._let_go(to)
        if name in self._files:
            self._files[to] = self._files.pop(name)

    def remove(self, name: str) -> None:
        self._path(name).unlink()
        self._let_go(name)

    def link(self, name: str, target: Disk, to: str) -> None:
        if not isinstance(target, SystemDisk):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        paths = self._path(name), target._path(to)  # noqa: SLF001  of the same class
        os.link(*paths, follow_symlinks=False)

    async def in_thread(self, act: Callable[[], T]) -> T:
        return await self._threads.call(act)

    async def read_in_thread(self, act: Callable[[], T]) -> T:
        """Call a function in a thread of those that read: writes do not wait for it."""
        return await self._readers.call(act)

    async def wait_idle(self) -> None:
        """Return when no thread works on this disk; a thread does not end with its task."""
        with suppress(RuntimeError):  # there is no thread to wait in: `close` waits
            await asyncio.to_thread(self._shutdown)

    def _shutdown(self) -> None:
        self._readers.shutdown()
        self._threads.shutdown()

    def close(self) -> None:
        self._shutdown()
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
        path = self._path(name)
        descriptor = self.spare.use(lambda: os.open(path, flags | _FLAGS, _FILE_MODE))
        if os.fstat(descriptor).st_mode & 0o077:  # an older version made it for all to read
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
