"""SimulatedDisk: an `engine.disk.Disk` that is slow, fills up, fails, and goes down with the rest.

What runs `aside` runs in strands, so that every primitive of one can come between any two of
another, and a crash between or within any of them.
"""

from __future__ import annotations

import asyncio
import errno
import io
import os
from collections import Counter, deque
from collections.abc import Callable
from random import Random
from typing import Any, BinaryIO, NamedTuple, TypeVar

from headgate.engine.errors import Corrupt
from headgate.engine.journal import recovery
from headgate.engine.journal.disk import SyncError
from tests.simulation.platter import Inode, Platter
from tests.simulation.strands import Strand

T = TypeVar("T")

THREADS_MAX = 2
"""As many as the engine's own disk has."""

PROCESS_LATENCIES = 20
"""A process takes that much longer to begin than a disk to answer."""

Trace = Callable[[str], None]


class CrashError(BaseException):
    """Everything ends here. No error of the program, so nothing may catch it."""


class Outage(NamedTuple):
    """A kind of call that does not work for a while: it raises, and nothing has happened."""

    call: str  # the name of the method
    first: int  # which of these calls is the first that does not work, from 0
    calls: int  # how many do not
    number: int  # errno


class Faults(NamedTuple):
    """The faults to come, counted from the start of the process."""

    crash_after: int | None = None  # points that may be reached before; None: no crash
    crash_at: tuple[str, int] | None = None  # a kind of point, and which of them, from 0
    is_power_lost: bool = False  # or else only the process ends
    capacity_bytes: int | None = None
    outages: tuple[Outage, ...] = ()
    sync_fails: int | None = None  # which sync, from 0
    names_sync_fails: int | None = None  # likewise
    latency_s_max: float = 0.01
    slow_sync: int | None = None  # which sync takes long, from 0
    slow_sync_s: float = 0.0


class SimulatedDisk:
    """A directory in memory."""

    def __init__(
        self, platter: Platter, random: Random, faults: Faults, trace: Trace | None = None
    ) -> None:
        self.faults = faults
        self.has_crashed = False
        self.violations: list[str] = []
        self.errors: list[str] = []  # told to the engine
        self.has_lost = False  # a sync has failed
        self.on_crash: Callable[[], None] = lambda: None
        self._platter = platter
        self._random = random
        self._trace = trace
        self._point_count = 0
        self._passed: Counter[str] = Counter()  # points by kind
        self._sync_count = 0
        self._names_sync_count = 0
        self._calls: Counter[str] = Counter()
        self._capacity_bytes = faults.capacity_bytes
        self._outages = faults.outages
        self._failed: set[Inode] = set()  # a sync of them did not work
        self._waiting: deque[tuple[Strand[Any], asyncio.Future[Any]]] = deque()
        self._strands: dict[Strand[Any], asyncio.Future[Any]] = {}  # begun, in order
        self._is_closed = False
        self._working = 0

    # The files

    def names(self) -> list[str]:
        self._call("names")
        return sorted(self._platter.names)

    def size_bytes(self, name: str) -> int:
        self._call("size_bytes")
        return len(self._inode(name).data)

    @property
    def remote_bytes(self) -> int:
        return 0

    def content(self, name: str) -> bytes:
        return self.read(name, 0, self.size_bytes(name))

    def free_bytes(self) -> int:
        self._call("free_bytes")
        return self._room() + self._platter.reserved_bytes

    def reserve(self, size_bytes: int) -> None:
        self._call("reserve")
        if size_bytes > self._platter.reserved_bytes + self._room():
            self._fail(errno.ENOSPC)
        self._platter.reserved_bytes = max(size_bytes, self._platter.reserved_bytes)

    def give_up_reserve(self) -> bool:
        self._pause()
        self._check_alive()
        had, self._platter.reserved_bytes = self._platter.reserved_bytes, 0
        return had > 0

    def open(self, name: str) -> BinaryIO:
        self._call("open")
        return io.BufferedReader(_Raw(self, self._inode(name)), 512)

    def read(self, name: str, offset: int, size_bytes: int) -> bytes:
        with self.open(name) as file:
            file.seek(offset)
            return file.read(size_bytes)

    def append(self, name: str, data: bytes) -> None:
        self._pause()
        self._point("append", name)
        inode = self._platter.names.get(name)
        try:
            self._check_outage("append")
        except OSError:
            if inode is not None:  # some of it may have got there
                inode.append(data[: self._random.randint(0, len(data) - 1)])
            raise
        inode = inode or self._platter.link(name)
        room = self._room()
        if len(data) > room:
            inode.append(data[: self._random.randint(0, room)])
            self._fail(errno.ENOSPC)
        half = self._random.randint(0, len(data))
        inode.append(data[:half])
        self._point("half appended", name)
        inode.append(data[half:])
        self._point("appended", name)

    def sync(self, name: str) -> None:
        inode = self._inode(name)
        number, self._sync_count = self._sync_count, self._sync_count + 1
        self._pause(self.faults.slow_sync_s if number == self.faults.slow_sync else None)
        self._point("sync", name)
        if inode in self._failed:
            self.violations.append(f"{name}: synced again after that had failed")
        if number == self.faults.sync_fails:
            self._failed.add(inode)
            inode.fail_to_sync(self._random)
            self._fail_to_sync()
        inode.sync()
        self._point("synced", name)

    def sync_names(self) -> None:
        self._pause()
        self._point("sync names", "")
        number, self._names_sync_count = self._names_sync_count, self._names_sync_count + 1
        if number == self.faults.names_sync_fails:
            self._fail_to_sync()
        self._platter.sync_names()
        self._point("names synced", "")

    def truncate(self, name: str, size_bytes: int) -> None:
        self._call("truncate")
        self._point("truncate", name)
        self._inode(name).cut(size_bytes)
        self._point("truncated", name)
        self.sync(name)

    def rename(self, name: str, to: str) -> None:
        self._call("rename")
        self._point("rename", name)
        self._inode(name)
        self._platter.rename(name, to)
        self._point("renamed", to)

    def remove(self, name: str) -> None:
        self._call("remove")
        self._point("remove", name)
        self._inode(name)
        self._platter.unlink(name)
        self._point("removed", name)

    def link(self, name: str, target: object, to: str) -> None:
        """Refuse it: this file system has no links."""
        raise OSError(errno.EPERM, f"no link of {name} to {to} in {target}")

    def looked_at(self) -> list[str]:
        """Return the names of all files, as nobody else can see them: at once."""
        return sorted(self._platter.names)

    def heal(self) -> None:
        """Let everything work from now on, but what was lost."""
        self._outages = ()
        self._capacity_bytes = None

    def _room(self) -> int:
        if self._capacity_bytes is None:
            return 2**40
        taken_bytes = self._platter.size_bytes + self._platter.reserved_bytes
        return max(self._capacity_bytes - taken_bytes, 0)

    def _inode(self, name: str) -> Inode:
        inode = self._platter.names.get(name)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", name)
        return inode

    # What goes on beside the event loop

    async def wait_idle(self) -> None:
        """Return at once: closing ends what goes on."""

    async def in_thread(self, act: Callable[[], T]) -> T:
        """Do something in a strand. Like a thread, it does not end when nobody waits any more."""
        self._check_alive()
        assert not self._is_closed
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((Strand(act), future))
        self._begin()
        return await future

    async def read_in_thread(self, act: Callable[[], T]) -> T:
        return await self.in_thread(act)

    async def rewrite(self, through: int, _: object, hot_bytes_max: int) -> None:
        """Write a snapshot as a process of its own does: it can be killed."""

        def act() -> None:
            try:
                recovery.rewrite(self, through, hot_bytes_max)
            except Corrupt as error:  # all that comes back from a process is a line of text
                raise OSError(str(error)) from None

        strand = Strand(act)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._strands[strand] = future
        begun_s = self._latency_s() * PROCESS_LATENCIES
        asyncio.get_running_loop().call_later(begun_s, self._step, strand)
        try:
            await future
        except asyncio.CancelledError:
            self._strands.pop(strand, None)
            strand.kill()
            raise

    def close(self) -> None:
        """Let go; what runs aside is waited for."""
        self._is_closed = True
        while self._strands and not self.has_crashed:
            strand, future = next(iter(self._strands.items()))
            self._resume(strand)
            if strand.is_done and not self.has_crashed:
                asyncio.get_running_loop().call_soon(self._end, strand, future)
        if self.has_crashed:
            self.on_crash()
            raise CrashError

    def crash(self) -> None:
        """End here, and everything that runs aside with it."""
        self.has_crashed = True
        for strand in list(self._strands):
            strand.kill()
        self._strands.clear()
        if self.faults.is_power_lost:
            self._platter.lose_power(self._random)
        if self._trace is not None:
            left = ", ".join(f"{n} {len(self._platter.names[n].data)}" for n in self._platter.names)
            kind = "power lost" if self.faults.is_power_lost else "process ended"
            self._trace(f"{kind}; left: {left or 'nothing'}")

    def _begin(self) -> None:
        while self._waiting and self._working < THREADS_MAX and not self.has_crashed:
            strand, future = self._waiting.popleft()
            if future.cancelled():
                continue
            self._working += 1
            self._strands[strand] = future
            self._later(self._step, strand)

    def _step(self, strand: Strand[Any]) -> None:
        future = self._strands.get(strand)
        if self.has_crashed or future is None:
            return
        self._resume(strand)
        if self.has_crashed:
            self.on_crash()
        elif strand.is_done:
            self._later(self._end, strand, future)
        else:
            loop = asyncio.get_running_loop()
            loop.call_later(strand.delay_s, self._step, strand)

    def _resume(self, strand: Strand[Any]) -> None:
        strand.resume()
        if strand.is_done:
            del self._strands[strand]
            if isinstance(strand.error, CrashError):
                self.crash()

    def _end(self, strand: Strand[T], future: asyncio.Future[T]) -> None:
        """Let the event loop know, which is some time after it has happened."""
        self._working = max(self._working - 1, 0)
        self._begin()
        if future.done():
            return
        if strand.error is not None:
            future.set_exception(strand.error)
        else:
            future.set_result(strand.result)

    def _later(self, call: Callable[..., None], *args: object) -> None:
        asyncio.get_running_loop().call_later(self._latency_s(), call, *args)

    def _latency_s(self) -> float:
        return self._random.random() * self.faults.latency_s_max

    def _pause(self, delay_s: float | None = None) -> None:
        strand = Strand.running
        if strand is not None:
            strand.pause(self._latency_s() if delay_s is None else delay_s)

    # What goes wrong

    def _check_alive(self) -> None:
        if self.has_crashed:
            raise CrashError

    def _point(self, what: str, name: str) -> None:
        """Pass a point at which everything may end."""
        self._check_alive()
        is_last = self._point_count == self.faults.crash_after
        if is_last or (what, self._passed[what]) == self.faults.crash_at:
            if self._trace is not None:
                self._trace(f"  crash at: {what} {name}")
            if Strand.running is None:
                self.crash()
            raise CrashError
        self._point_count += 1
        self._passed[what] += 1
        if self._trace is not None:
            self._trace(f"  disk {self._point_count}: {what} {name}")

    def _call(self, name: str) -> None:
        """Begin a call: others may come before it, and it may not work."""
        self._pause()
        self._check_alive()
        self._check_outage(name)

    def _check_outage(self, name: str) -> None:
        number, self._calls[name] = self._calls[name], self._calls[name] + 1
        for outage in self._outages:
            if name == outage.call and 0 <= number - outage.first < outage.calls:
                self._fail(outage.number)

    def _fail(self, number: int) -> None:
        self._note_error(os.strerror(number))
        raise OSError(number, os.strerror(number))

    def _fail_to_sync(self) -> None:
        self.has_lost = True
        self._note_error(os.strerror(errno.EIO))
        raise SyncError(errno.EIO, os.strerror(errno.EIO))

    def _note_error(self, text: str) -> None:
        if self._trace is not None:
            self._trace(f"  disk: {text}")
        self.errors.append(text)


class _Raw(io.RawIOBase):
    """A file as it is at the moment of each read."""

    def __init__(self, disk: SimulatedDisk, inode: Inode) -> None:
        super().__init__()
        self._disk = disk
        self._inode = inode
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._inode.data)}[whence]
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        self._disk._pause()
        data = self._inode.data[self._at : self._at + len(buffer)]
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
