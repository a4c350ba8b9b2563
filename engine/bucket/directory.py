"""Directory bucket: the objects are files of a directory, which may be a mounted one.

A file gets its name by a link, which fails if the name is taken: so of two puts one works.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from headgate.engine.bucket.bucket import BucketError, RequestCounts, StoredObject
from headgate.engine.threads import Threads

T = TypeVar("T")

_THREADS = 4
_READERS = 4


class ThreadedBucket:
    def __init__(self) -> None:
        self.counts = RequestCounts()
        self._threads = Threads(_THREADS, "bucket")
        self._readers = Threads(_READERS, "bucket reads")

    async def in_thread(self, act: Callable[[], T]) -> T:
        return await self._threads.call(act)

    async def read_in_thread(self, act: Callable[[], T]) -> T:
        return await self._readers.call(act)

    def close(self) -> None:
        self._threads.shutdown()
        self._readers.shutdown()


_UNFINISHED = ".part-"
_PIECE_BYTES = 2**20


class DirectoryBucket(ThreadedBucket):
    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory

    @property
    def url(self) -> str:
        return self._directory.absolute().as_uri()

    def put_new(self, name: str, content: bytes | Path) -> bool:
        path = self._directory / name
        self.counts.put_count += 1
        with _errors():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            unfinished = path.with_name(f"{_UNFINISHED}{secrets.token_hex(8)}")
            try:
                self.counts.sent_bytes += _write(unfinished, content)
                try:
                    os.link(unfinished, path)
                except FileExistsError:
                    return False
            finally:
                with suppress(FileNotFoundError):
                    unfinished.unlink()
            _sync_names(path.parent)
        return True

    def read(self, name: str) -> bytes:
        self.counts.get_count += 1
        with _errors():
            data = (self._directory / name).read_bytes()
        self.counts.received_bytes += len(data)
        return data

    def read_range(self, name: str, offset: int, size_bytes: int) -> bytes:
        self.counts.get_count += 1
        with _errors(), (self._directory / name).open("rb") as file:
            data = os.pread(file.fileno(), size_bytes, offset)
        self.counts.received_bytes += len(data)
        return data

    def objects(self, prefix: str, after: str = "") -> list[StoredObject]:
        self.counts.list_count += 1
        with _errors():
            stored = [
                StoredObject(name, path.stat().st_size)
                for path in self._files(self._directory / prefix)
                if (name := path.relative_to(self._directory).as_posix()) > after
            ]
        return sorted(stored)

    @staticmethod
    def _files(directory: Path) -> Iterator[Path]:
        for path in directory.rglob("*"):
            if path.is_file() and not path.name.startswith(_UNFINISHED):
                yield path

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            self.counts.removed_count += 1
            with _errors(), suppress(FileNotFoundError):
                (self._directory / name).unlink()


@contextmanager
def _errors() -> Iterator[None]:
    """Raise an error of the bucket in place of one of the system; a missing file stays one."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise BucketError(error.errno, error.strerror or str(error)) from error


def _write(path: Path, content: bytes | Path) -> int:
    size_bytes = 0
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        for piece in _pieces(content):
            left = memoryview(piece)
            size_bytes += len(left)
            while left:
                left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return size_bytes


def _pieces(content: bytes | Path) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content
        return
    with content.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            yield piece


def _sync_names(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
