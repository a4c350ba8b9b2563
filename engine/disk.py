"""Disk: one directory of files, and the only way the engine touches it.

What was appended is safe once `sync` has returned; until then a crash may take any part of it. A
name that appeared or went is safe once `sync_names` has returned. Everything raises `OSError`, in
the system's words.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar

from engine.errors import Unavailable

T = TypeVar("T")

LOCK = "lock"
"""The file whose lock says that a process uses the directory; it holds the process's id."""


class Disk(Protocol):
    """A directory of files that only grow."""

    def names(self) -> list[str]:
        """Return the names of all files, in order."""
        ...

    def size_bytes(self, name: str) -> int:
        """Return the length of a file."""
        ...

    def free_bytes(self) -> int:
        """Return how much more fits."""
        ...

    def open(self, name: str) -> BinaryIO:
        """Open a file to read it from its beginning."""
        ...

    def append(self, name: str, data: bytes) -> None:
        """Write behind what a file holds; it is made if it is not there."""
        ...

    def sync(self, name: str) -> None:
        """Make what was appended to a file safe."""
        ...

    def sync_names(self) -> None:
        """Make safe which files there are."""
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

    async def aside(self, act: Callable[[], T]) -> T:
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
        directory.mkdir(parents=True, exist_ok=True)
        self._lock = None if is_shared else _locked(directory)
        # Two: a sync that takes long must not hold up the writes behind it.
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="disk")

    def names(self) -> list[str]:
        """Return the names of all files but the lock, in order."""
        return sorted(path.name for path in self._directory.iterdir() if path.name != LOCK)

    def size_bytes(self, name: str) -> int:
        """Return the length of a file."""
        return self._path(name).stat().st_size

    def free_bytes(self) -> int:
        """Return how much more fits."""
        return shutil.disk_usage(self._directory).free

    def open(self, name: str) -> BinaryIO:
        """Open a file to read it from its beginning."""
        return self._path(name).open("rb")

    def append(self, name: str, data: bytes) -> None:
        """Write behind what a file holds; it is made if it is not there."""
        descriptor = self._descriptor(name)
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]

    def sync(self, name: str) -> None:
        """Make what was appended to a file safe."""
        os.fsync(self._descriptor(name))

    def sync_names(self) -> None:
        """Make safe which files there are."""
        descriptor = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def truncate(self, name: str, size_bytes: int) -> None:
        """Cut a file, and make that safe."""
        os.ftruncate(self._descriptor(name), size_bytes)
        self.sync(name)

    def rename(self, name: str, to: str) -> None:
        """Give a file another name, at once; a file that had it is gone."""
        self._let_go(name)
        self._let_go(to)
        self._path(name).rename(self._path(to))

    def remove(self, name: str) -> None:
        """Remove a file."""
        self._let_go(name)
        self._path(name).unlink()

    async def aside(self, act: Callable[[], T]) -> T:
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
        for name in list(self._files):
            self._let_go(name)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _path(self, name: str) -> Path:
        return self._directory / name

    def _descriptor(self, name: str) -> int:
        if name not in self._files:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._files[name] = os.open(self._path(name), flags, 0o644)
        return self._files[name]

    def _let_go(self, name: str) -> None:
        descriptor = self._files.pop(name, None)
        if descriptor is not None:
            os.close(descriptor)


def _locked(directory: Path) -> int:
    """Return the descriptor that holds the lock, for as long as it stays open."""
    descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(descriptor, 100).decode(errors="replace").strip() or "another process"
        os.close(descriptor)
        raise Unavailable(f"in use by {holder}") from None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"process {os.getpid()} on {os.uname().nodename}\n".encode())
    return descriptor
