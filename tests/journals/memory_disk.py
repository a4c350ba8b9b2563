"""A disk in memory: as a `Disk` says, with the time that it takes, and with room for so much.

What was asked of it is written down. Acts aside take their time on the running loop, so that with
a virtual one the order of everything is known.
"""

from __future__ import annotations

import asyncio
import errno
import io
import os
from collections.abc import Callable, Mapping
from typing import BinaryIO, NoReturn, TypeVar

from headgate.engine.journal.disk import Disk, SyncError

T = TypeVar("T")

CHANGES = {"append", "truncate", "rename", "remove", "link"}


class Killed(BaseException):
    """A process ends. No error of the program, so nothing may catch it."""


class Death:
    """The end of a process before one of its changes of a disk: `disk.on_call = Death(3)`."""

    def __init__(self, change_count: int) -> None:
        self._left_count = change_count

    def __call__(self, call: str, name: str) -> None:
        if call in CHANGES:
            if not self._left_count:
                raise Killed(name)
            self._left_count -= 1


class MemoryDisk:
    """A directory of byte arrays."""

    def __init__(
        self,
        files: Mapping[str, bytes] | None = None,
        *,
        sync_s: float = 0.0,
        size_bytes_max: int = 2**40,
    ) -> None:
        """Start with files.

        Args:
            files: by name.
            sync_s: how long forcing a file to disk takes.
            size_bytes_max: how much fits.
        """
        self.files = {name: bytearray(data) for name, data in (files or {}).items()}
        self.sync_s = sync_s
        self.size_bytes_max = size_bytes_max
        self.synced: list[str] = []  # which file, each time
        self.appended: list[str] = []  # likewise
        self.sync_failure: OSError | None = None  # raised by every sync from now on
        self.faults: dict[str, int] = {}  # errors (errno) of calls, until they are taken away
        self.on_call: Callable[[str, str], object] = lambda call, name: None  # before it happens
        self.reads: list[tuple[str, int]] = []  # the places, each time
        self.reserved_bytes = 0
        self.is_closed = False
        self._safe_bytes = {name: len(data) for name, data in self.files.items()}

    def names(self) -> list[str]:
        self._check("names")
        return sorted(self.files)

    def size_bytes(self, name: str) -> int:
        return len(self._file(name))

    @property
    def remote_bytes(self) -> int:
        return 0

    def content(self, name: str) -> bytes:
        return self.read(name, 0, self.size_bytes(name))

    def free_bytes(self) -> int:
        return self.size_bytes_max - sum(map(len, self.files.values()))

    def _room(self) -> int:
        return max(self.free_bytes() - self.reserved_bytes, 0)

    def _check(self, call: str, name: str = "") -> None:
        self.on_call(call, name)
        if call in self.faults:
            self._fail(call)

    def _fail(self, call: str) -> NoReturn:
        raise OSError(self.faults[call], os.strerror(self.faults[call]))

    def reserve(self, size_bytes: int) -> None:
        more = size_bytes - self.reserved_bytes
        if more > self._room():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.reserved_bytes = max(size_bytes, self.reserved_bytes)

    def give_up_reserve(self) -> bool:
        had, self.reserved_bytes = self.reserved_bytes, 0
        return had > 0

    def open(self, name: str) -> BinaryIO:
        self._check("open", name)
        return io.BytesIO(self._file(name))

    def append(self, name: str, data: bytes) -> None:
        self.on_call("append", name)
        self.appended.append(name)
        file = self.files.setdefault(name, bytearray())
        if "append" in self.faults:
            file += data[: len(data) // 2]
            self._fail("append")
        room = self._room()
        file += data[:room]
        if room < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def sync(self, name: str) -> None:
        self.synced.append(name)
        self._file(name)
        if self.sync_failure is not None:
            raise SyncError(self.sync_failure.errno, self.sync_failure.strerror)
        self._safe_bytes[name] = len(self._file(name))

    def sync_names(self) -> None:
        """Do nothing: names are safe at once."""

    def truncate(self, name: str, size_bytes: int) -> None:
        self._check("truncate", name)
        del self._file(name)[size_bytes:]
        self.sync(name)

    def rename(self, name: str, to: str) -> None:
        self._check("rename", name)
        self._file(name)
        self.files[to] = self.files.pop(name)
        self._safe_bytes[to] = self._safe_bytes.pop(name, 0)

    def remove(self, name: str) -> None:
        self._check("remove", name)
        self._file(name)
        del self.files[name]
        self._safe_bytes.pop(name, None)

    def link(self, name: str, target: Disk, to: str) -> None:
        self._check("link", name)
        if not isinstance(target, MemoryDisk):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        target.files[to] = self._file(name)
        target._safe_bytes[to] = self._safe_bytes[name]

    def read(self, name: str, offset: int, size_bytes: int) -> bytes:
        self._check("read", name)
        self.reads.append((name, offset))
        return bytes(self._file(name)[offset : offset + size_bytes])

    async def read_in_thread(self, act: Callable[[], T]) -> T:
        return act()

    async def in_thread(self, act: Callable[[], T]) -> T:
        sync_count = len(self.synced)
        try:
            return act()
        finally:
            await asyncio.sleep(self.sync_s * (len(self.synced) - sync_count))

    async def wait_idle(self) -> None:
        """Return at once: what was done aside is done."""

    def close(self) -> None:
        self.is_closed = True

    def lose_power(self) -> None:
        """Forget the data that was not forced to disk."""
        for name, file in self.files.items():
            del file[self._safe_bytes.get(name, 0) :]

    def copy(self) -> MemoryDisk:
        """Return another disk that holds the same."""
        return MemoryDisk({name: bytes(data) for name, data in self.files.items()})

    def _file(self, name: str) -> bytearray:
        if name not in self.files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return self.files[name]
