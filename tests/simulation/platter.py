"""Platter: the content of a disk, and its remains after a crash.

The running system sees all that was written. Safe is what was synced, contents and names apart.
When the power goes, each unsynced write is lost, kept, or kept in pieces, whatever became of those
before it; a hole reads as zeros or as what was there. Each unsynced change of a name is lost or
kept, whatever became of the others. When only the process ends, everything stays as it was seen,
and what was unsynced still is.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

SECTOR_BYTES = 64
"""Torn writes are torn here. Small, as the files are."""


class Write(NamedTuple):
    """Bytes behind what a file holds."""

    offset: int
    data: bytes


class Cut(NamedTuple):
    """A file gets shorter."""

    size_bytes: int


class Inode:
    """The contents of a file, whatever its names."""

    def __init__(self) -> None:
        self.data = bytearray()  # as the running system sees it
        self._safe = bytearray()
        self._unsynced: list[Write | Cut] = []

    def append(self, data: bytes) -> None:
        self._unsynced.append(Write(len(self.data), data))
        self.data += data

    def cut(self, size_bytes: int) -> None:
        self._unsynced.append(Cut(size_bytes))
        del self.data[size_bytes:]

    def sync(self) -> None:
        for change in self._unsynced:
            _make(self._safe, change)
        self._unsynced.clear()

    def fail_to_sync(self, random: Random) -> None:
        """Lose some of what was not safe, now, and make the rest safe; the length stays."""
        size_bytes = len(self.data)
        self._keep_some(random)
        self.data += bytes(max(size_bytes - len(self.data), 0))

    def lose_power(self, random: Random) -> None:
        if self._unsynced:
            self._keep_some(random)

    def _keep_some(self, random: Random) -> None:
        size_bytes = len(self.data)
        for change in self._unsynced:
            for part in _kept_parts(change, random):
                _make(self._safe, part)
        if len(self._safe) < size_bytes and random.random() < 0.2:
            self._safe += bytes(random.randint(1, size_bytes - len(self._safe)))
        self._unsynced.clear()
        self.data = bytearray(self._safe)


class Link(NamedTuple):
    """A name appears, for these contents."""

    name: str
    inode: Inode


class Unlink(NamedTuple):
    """A name goes."""

    name: str


class Rename(NamedTuple):
    """A name becomes another one."""

    name: str
    to: str
    inode: Inode


class Platter:
    """One directory."""

    def __init__(self) -> None:
        self.names: dict[str, Inode] = {}
        self.reserved_bytes = 0  # of a file that holds nothing else
        self._safe_names: dict[str, Inode] = {}
        self._unsynced: list[Link | Unlink | Rename] = []

    @property
    def size_bytes(self) -> int:
        return sum(len(inode.data) for inode in self.names.values())

    def link(self, name: str) -> Inode:
        inode = self.names[name] = Inode()
        self._unsynced.append(Link(name, inode))
        return inode

    def unlink(self, name: str) -> None:
        del self.names[name]
        self._unsynced.append(Unlink(name))

    def rename(self, name: str, to: str) -> None:
        inode = self.names[to] = self.names.pop(name)
        self._unsynced.append(Rename(name, to, inode))

    def sync_names(self) -> None:
        self._unsynced.clear()
        self._safe_names = dict(self.names)

    def lose_power(self, random: Random) -> None:
        names = self._safe_names
        for change in self._unsynced:
            if random.random() < 0.5:
                _rename(names, change)
        for inode in names.values():
            inode.lose_power(random)
        self.names = dict(names)
        self._unsynced.clear()

    def copy(self) -> Platter:
        """Return one that holds the same, all of it safe."""
        copy = Platter()
        for name, inode in self.names.items():
            copy.link(name).append(bytes(inode.data))
        copy.sync_names()
        return copy


def _make(data: bytearray, change: Write | Cut) -> None:
    if isinstance(change, Cut):
        del data[change.size_bytes :]
        return
    if len(data) < change.offset:
        data += bytes(change.offset - len(data))
    data[change.offset : change.offset + len(change.data)] = change.data


def _kept_parts(change: Write | Cut, random: Random) -> list[Write | Cut]:
    fate = random.random()
    if fate < 0.35:
        return []
    if fate < 0.6 or isinstance(change, Cut):
        return [change]
    offset, data = change
    if fate < 0.75:  # up to some byte
        return [Write(offset, data[: random.randint(0, len(data))])]
    sectors = [
        Write(offset + at, data[at : at + SECTOR_BYTES]) for at in range(0, len(data), SECTOR_BYTES)
    ]
    return [sector for sector in sectors if random.random() < 0.6]


def _rename(names: dict[str, Inode], change: Link | Unlink | Rename) -> None:
    match change:
        case Link(name, inode):
            names[name] = inode
        case Unlink(name):
            names.pop(name, None)
        case Rename(name, to, inode):
            names.pop(name, None)
            names[to] = inode
