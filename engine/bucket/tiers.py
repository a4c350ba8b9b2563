"""Tiers: a directory whose extent files may be in a bucket instead, and are read from there."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from itertools import count
from pathlib import Path
from threading import Lock
from typing import BinaryIO, TypeVar

from headgate.engine.bucket.bucket import Bucket
from headgate.engine.bucket.manifest import IDENTITY, BucketFile, read_marker
from headgate.engine.bucket.opening import open_bucket
from headgate.engine.errors import Unavailable
from headgate.engine.journal.disk import Disk
from headgate.engine.journal.names import is_extents

T = TypeVar("T")

_READ_AHEAD_BYTES = 2**20


class TieredDisk:
    """A directory, and behind it the bucket. It is a `Disk`."""

    def __init__(self, disk: Disk, bucket: Bucket, files: Mapping[str, BucketFile]) -> None:
        """Take `files` as those in the bucket; the directory may have them as well."""
        self._disk, self._bucket = disk, bucket
        # Threads change these two, and others look at them: each change makes a new one.
        self._files: Mapping[str, BucketFile] = dict(files)
        self._local: AbstractSet[str] = frozenset(disk.names())
        self._changing = Lock()
        self._reads: dict[str, int] = {}  # the number of the last read of a file, here
        self._numbers = count(1)
        self.remote_bytes = self.remote_count = 0
        """Of the files that are in the bucket alone."""
        self._note()

    def _note(
        self,
        *,
        shipped: Mapping[str, BucketFile] | None = None,
        local: AbstractSet[str] | None = None,
        come: AbstractSet[str] = frozenset(),
        gone: AbstractSet[str] = frozenset(),
        forgotten: AbstractSet[str] = frozenset(),
    ) -> None:
        """Note changes of the files; `local` is all files of the directory."""
        with self._changing:
            if shipped or forgotten:
                files = {**self._files, **(shipped or {})}
                self._files = {name: files[name] for name in files if name not in forgotten}
            there = self._local if local is None else local
            self._local = (there | come) - gone - forgotten
            remote = [file for name, file in self._files.items() if name not in self._local]
            self.remote_bytes = sum(file.size_bytes for file in remote)
            self.remote_count = len(remote)

    def note_shipped(self, files: Mapping[str, BucketFile]) -> None:
        self._note(shipped=files)

    @property
    def shipped(self) -> list[BucketFile]:
        files = self._files
        return [files[name] for name in sorted(files)]

    def evict(self, bytes_max: int, kept: AbstractSet[str] = frozenset()) -> list[str]:
        """Remove the least recently read extent files the bucket has, `kept` last; return them."""
        names = [name for name in self._disk.names() if is_extents(name)]
        sizes = {name: self._disk.size_bytes(name) for name in names}
        taken_bytes, evicted = sum(sizes.values()), list[str]()
        try:
            for name in sorted(
                names, key=lambda name: (name in kept, self._reads.get(name, 0), name)
            ):
                if taken_bytes <= bytes_max:
                    break
                file = self._files.get(name)
                if file is not None and file.size_bytes == sizes[name]:
                    self._disk.remove(name)
                    taken_bytes -= sizes[name]
                    evicted.append(name)
        finally:
            self._note(gone=frozenset(evicted))
        return evicted

    def names(self) -> list[str]:
        local = frozenset(self._disk.names())
        if local != self._local:
            self._note(local=local)
        return sorted(local | self._files.keys())

    def size_bytes(self, name: str) -> int:
        try:
            return self._disk.size_bytes(name)
        except FileNotFoundError:
            return self._remote(name).size_bytes

    def free_bytes(self) -> int:
        return self._disk.free_bytes()

    def reserve(self, size_bytes: int) -> None:
        self._disk.reserve(size_bytes)

    def give_up_reserve(self) -> bool:
        return self._disk.give_up_reserve()

    def open(self, name: str) -> BinaryIO:
        try:
            return self._disk.open(name)
        except FileNotFoundError:
            reader = _RemoteReader(self._bucket, self._remote(name))
            return io.BufferedReader(reader, _READ_AHEAD_BYTES)

    def read(self, name: str, offset: int, size_bytes: int) -> bytes:
        try:
            data = self._disk.read(name, offset, size_bytes)
        except FileNotFoundError:
            return self._bucket.read_range(self._remote(name).object, offset, size_bytes)
        self._reads[name] = next(self._numbers)
        return data

    def content(self, name: str) -> bytes | Path:
        return self._disk.content(name)

    def append(self, name: str, data: bytes) -> None:
        self._disk.append(name, data)

    def sync(self, name: str) -> None:
        self._disk.sync(name)

    def sync_names(self) -> None:
        self._disk.sync_names()

    def truncate(self, name: str, size_bytes: int) -> None:
        self._disk.truncate(name, size_bytes)

    def rename(self, name: str, to: str) -> None:
        self._disk.rename(name, to)
        self._note(come={to}, gone={name})

    def remove(self, name: str) -> None:
        is_remote = name in self._files
        self._note(forgotten={name})
        try:
            self._disk.remove(name)
        except FileNotFoundError:
            if not is_remote:
                raise

    def link(self, name: str, target: Disk, to: str) -> None:
        self._disk.link(name, target, to)

    async def in_thread(self, act: Callable[[], T]) -> T:
        return await self._disk.in_thread(act)

    async def read_in_thread(self, act: Callable[[], T]) -> T:
        """Call a function that reads: in the threads of the bucket, where it may take longer."""
        return await self._bucket.read_in_thread(act)

    async def wait_idle(self) -> None:
        await self._disk.wait_idle()

    def close(self) -> None:
        self._disk.close()

    def _remote(self, name: str) -> BucketFile:
        file = self._files.get(name)
        if file is None:
            raise FileNotFoundError(2, "No such file or directory", name)
        return file


def tiered(disk: Disk, *, is_asked: bool = True) -> Disk:
    """Return a disk that also reads from its bucket; OSError if `is_asked` and that is away."""
    marker = read_marker(disk)
    if marker is None:
        return disk
    try:
        bucket = open_bucket(marker.url)
    except ValueError as error:
        raise Unavailable(f"the bucket {marker.url}: {error}") from None
    if is_asked:
        bucket.read(IDENTITY)  # a bucket that does not answer is no damage
    return TieredDisk(disk, bucket, marker.by_name)


class _RemoteReader(io.RawIOBase):
    def __init__(self, bucket: Bucket, file: BucketFile) -> None:
        self._bucket, self._file, self._at = bucket, file, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size_bytes}[whence]
        self._at = base + offset
        return self._at

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        size_bytes = min(len(view), self._file.size_bytes - self._at)
        if size_bytes <= 0:
            return 0
        data = self._bucket.read_range(self._file.object, self._at, size_bytes)
        view[: len(data)] = data
        self._at += len(data)
        return len(data)
