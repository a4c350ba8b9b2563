"""Restoring: a data directory is made from what a bucket has, and a bucket is verified."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import google_crc32c

from headgate.engine.bucket import manifest as manifests
from headgate.engine.bucket import parts
from headgate.engine.bucket.bucket import Bucket
from headgate.engine.bucket.lease import SeenLease, newest_lease
from headgate.engine.bucket.manifest import (
    FILES,
    PARTS,
    BucketFile,
    BucketManifest,
    Piece,
    number_of,
)
from headgate.engine.bucket.parts import Part
from headgate.engine.errors import Corrupt, Unavailable
from headgate.engine.journal.disk import Disk
from headgate.engine.journal.names import UNFINISHED, is_finished, is_segment
from headgate.engine.journal.records import HEADER_BYTES
from headgate.engine.journal.recovery import Progress, no_progress
from headgate.engine.limits import SYNC_BYTES

T = TypeVar("T")
U = TypeVar("U")

_GETS = 16
"""So many objects are read at a time: each takes tens of milliseconds, however small it is."""

_PIECE_BYTES = 8 * 2**20

_LEFTOVER = "aside-"
_is_leftover = re.compile(_LEFTOVER + r"journal-\d{20}-0(-\d+)?").fullmatch
_LEFTOVERS_MAX = 16
"""So many segments that were put aside stay, those of the last time at least."""


class Mark(NamedTuple):
    """A place in a segment, and the last record before it."""

    segment: str
    end: int
    position: int

    @property
    def to_go_on(self) -> Mark:
        """Return the place to go on from: a new life replaces a segment without a record."""
        return Mark("", 0, self.position) if self.end <= HEADER_BYTES else self


class Restored(NamedTuple):
    manifest: BucketManifest | None
    last_part: Part | None  # without its bytes; None: there was none
    files: Sequence[BucketFile]  # extent files; they may still be in the bucket alone
    shipped: Mark  # where it ends
    begins: Mapping[str, int]  # the numbers of the parts that begin segments

    @property
    def next_part(self) -> int:
        if self.last_part is not None:
            return self.last_part.number + 1
        return 1 if self.manifest is None else self.manifest.first_part


def restore(
    bucket: Bucket,
    disk: Disk,
    *,
    at_ms: int | None = None,
    has_extents: bool = False,
    progress: Progress = no_progress,
) -> Restored:
    """Make the files of a directory that has none.

    1. The newest manifest says what comes before the parts.
    2. The snapshot, and the segments behind it, are put together from their pieces and parts.
    3. They get their names when all of them are there, the snapshot last: nobody starts on a part.

    `at_ms` is by the clock of the writer; None: as it is now. Without `has_extents`, extent files
    stay in the bucket alone. Raises Unavailable if nothing is kept of that time.
    """
    manifest = manifests.newest(bucket) if at_ms is None else _manifest_at(bucket, at_ms)
    first_part = 1 if manifest is None else manifest.first_part
    numbers = parts.numbers_from(bucket, first_part)
    segments = _Segments(disk)
    pieces: Sequence[Piece] = () if manifest is None else manifest.pieces
    total = len(numbers) + len(pieces) + 1
    for done, (piece, data) in enumerate(_each(pieces, lambda piece: _checked(bucket, piece))):
        segments.append(piece.segment, piece.offset, data, piece.object)
        progress(done, total)
    for done, (_, part) in enumerate(_each(numbers, lambda number: parts.read(bucket, number))):
        if at_ms is not None and part.put_ms > at_ms:
            break
        segments.append_part(part)
        progress(len(pieces) + done, total)
    if manifest is None and segments.last is None:
        raise Unavailable("the bucket has nothing of that time")
    files: Sequence[BucketFile] = () if manifest is None else manifest.extents
    copied = [*files] if has_extents else []
    if manifest is not None and manifest.snapshot is not None:
        copied.append(manifest.snapshot)  # it gets its name last
    for file in copied:
        _copy(bucket, disk, file)
    segments.finish()
    for name in [*reversed(segments.names), *(file.name for file in copied)]:
        disk.rename(name + UNFINISHED, name)
    disk.sync_names()
    progress(total, total)
    end = segments.end._replace(position=0 if manifest is None else manifest.last_position)
    return Restored(manifest, segments.last, files, end, segments.begins)


def _manifest_at(bucket: Bucket, at_ms: int) -> BucketManifest | None:
    numbers = manifests.numbers(bucket)
    for number in reversed(numbers):
        manifest = manifests.read(bucket, number)
        if manifest.at_ms <= at_ms:
            return manifest
    if numbers and 1 not in parts.numbers_from(bucket, 1):
        raise Unavailable("the bucket has nothing of that time: it is older than what is kept")
    return None


def _each(of: Iterable[T], get: Callable[[T], U]) -> Iterator[tuple[T, U]]:
    with ThreadPoolExecutor(_GETS, "restore") as pool:
        waiting: list[tuple[T, Future[U]]] = []
        for value in of:
            waiting.append((value, pool.submit(get, value)))
            if len(waiting) == _GETS:
                first, getting = waiting.pop(0)
                yield first, getting.result()
        for value, getting in waiting:
            yield value, getting.result()


def _checked(bucket: Bucket, piece: Piece) -> bytes:
    data = bucket.read(piece.object)
    if len(data) != piece.size_bytes or google_crc32c.value(data) != piece.crc32c:
        raise Corrupt(piece.object, 0, "its checksum is not that in the manifest")
    return data


def _copy(bucket: Bucket, disk: Disk, file: BucketFile) -> None:
    offsets = range(0, file.size_bytes, _PIECE_BYTES)
    unfinished, crc32c, unsynced_bytes, size_bytes = file.name + UNFINISHED, 0, 0, 0
    if unfinished in disk.names():
        disk.remove(unfinished)
    for _, data in _each(offsets, lambda at: bucket.read_range(file.object, at, _PIECE_BYTES)):
        disk.append(unfinished, data)
        crc32c = google_crc32c.extend(crc32c, data)
        size_bytes, unsynced_bytes = size_bytes + len(data), unsynced_bytes + len(data)
        if unsynced_bytes >= SYNC_BYTES:
            disk.sync(unfinished)
            unsynced_bytes = 0
    if (size_bytes, crc32c) != (file.size_bytes, file.crc32c):
        raise Corrupt(file.object, 0, "its checksum is not that in the manifest")
    disk.sync(unfinished)


def fetch(bucket: Bucket, disk: Disk, files: Iterable[BucketFile]) -> None:
    for file in files:
        _copy(bucket, disk, file)
        disk.rename(file.name + UNFINISHED, file.name)
    disk.sync_names()


class _Segments:
    """Segments that are put together, under the names of files that are not finished."""

    def __init__(self, disk: Disk) -> None:
        self.names: list[str] = []
        self.last: Part | None = None  # without its bytes
        self.begins: dict[str, int] = {}
        self._disk, self._size_bytes = disk, 0

    @property
    def end(self) -> Mark:
        return Mark(self.names[-1], self._size_bytes, 0) if self.names else Mark("", 0, 0)

    def append_part(self, part: Part) -> None:
        name = parts.part_name(part.number)
        if self.last is not None and part.term < self.last.term:
            raise Corrupt(name, 0, "its term is less than that before it")
        if part.segment:
            self.append(part.segment, part.offset, part.data, name)
            if part.offset == 0:
                self.begins[part.segment] = part.number
        self.last = part._replace(data=b"")

    def append(self, name: str, offset: int, data: bytes, where: str) -> None:
        unfinished = name + UNFINISHED
        if not is_segment(name) or not is_finished(name):
            raise Corrupt(where, 0, f"{name!r} is no segment")
        if offset == 0:
            if unfinished in self._disk.names():
                self._disk.remove(unfinished)
            self.names = [other for other in self.names if other != name] + [name]
            self._size_bytes = 0
        elif not self.names or self.names[-1] != name or self._size_bytes != offset:
            raise Corrupt(where, 0, f"what is before byte {offset} of {name} is missing")
        self._disk.append(unfinished, data)
        self._size_bytes += len(data)

    def finish(self) -> None:
        for name in self.names:
            self._disk.sync(name + UNFINISHED)


def emptied(disk: Disk, kept: Container[str], unshipped: Container[str]) -> list[str]:
    """Remove files but `kept`; rename `unshipped` segments, which are nowhere else; return them."""
    segments = []
    for name in disk.names():
        if name in kept:
            continue
        if name in unshipped:
            new_name, number = f"{_LEFTOVER}{name}-0", 1
            while new_name in disk.names():
                number += 1
                new_name = f"{_LEFTOVER}{name}-0-{number}"
            disk.rename(name, new_name)
            segments.append(new_name)
        elif is_finished(name.removesuffix(UNFINISHED)):
            disk.remove(name)
    older = [name for name in disk.names() if _is_leftover(name) and name not in segments]
    for name in older[: max(len(older) + len(segments) - _LEFTOVERS_MAX, 0)]:
        disk.remove(name)
    disk.sync_names()
    return segments


_READ_BYTES = 8 * 2**20


class BucketContent(NamedTuple):
    manifests: list[BucketManifest]  # by number
    part_count: int
    first_part: Part | None  # without its bytes; None: there is none
    last_part: Part | None
    lease: SeenLease | None
    file_count: int
    size_bytes: int  # of all objects that hold data

    @property
    def since_ms(self) -> int | None:
        if self.first_part is not None and self.first_part.number == 1:
            return self.first_part.put_ms
        return self.manifests[0].at_ms if self.manifests else None


class Verified(NamedTuple):
    object_count: int
    size_bytes: int
    position: int  # of the last record
    unnamed: list[str]  # objects that nothing needs: uploads that did not end


def content(bucket: Bucket) -> BucketContent:
    kept = [manifests.read(bucket, number) for number in manifests.numbers(bucket)]
    part_objects = [each for each in bucket.objects(PARTS) if number_of(each.name) is not None]
    files = bucket.objects(FILES)
    numbers = [number_of(each.name) or 0 for each in part_objects]
    ends = [parts.read(bucket, number)._replace(data=b"") for number in numbers[:1] + numbers[-1:]]
    return BucketContent(
        kept,
        len(numbers),
        ends[0] if ends else None,
        ends[-1] if ends else None,
        newest_lease(bucket),
        len(files),
        sum(each.size_bytes for each in [*part_objects, *files]),
    )


def verify(bucket: Bucket, progress: Progress = no_progress) -> Verified:
    kept = [manifests.read(bucket, number) for number in manifests.numbers(bucket)]
    files = {file.object: file for manifest in kept for file in _files_of(manifest)}
    first = min((manifest.first_part for manifest in kept), default=1)
    numbers = parts.numbers_from(bucket, first)
    total, done = len(files) + len(numbers), 0
    for file in files.values():
        _compare(bucket, file)
        progress(done := done + 1, total)
    size_bytes = sum(file.size_bytes for file in files.values())
    position = kept[-1].last_position if kept else 0
    for number in numbers:
        part = parts.read(bucket, number)
        size_bytes, position = size_bytes + len(part.data), part.position
        progress(done := done + 1, total)
    needed = {manifest.first_part for manifest in kept[-1:]} - {first + len(numbers)}
    if not needed <= {first, *numbers}:
        raise Corrupt(parts.part_name(max(needed)), 0, "it is missing")
    unnamed = [each.name for each in bucket.objects(FILES) if each.name not in files]
    return Verified(total + len(kept), size_bytes, position, unnamed)


def _files_of(manifest: BucketManifest) -> Iterator[BucketFile | Piece]:
    if manifest.snapshot is not None:
        yield manifest.snapshot
    yield from manifest.extents
    yield from manifest.pieces


def _compare(bucket: Bucket, file: BucketFile | Piece) -> None:
    crc32c, read_bytes = 0, 0
    try:
        for offset in range(0, file.size_bytes, _READ_BYTES):
            data = bucket.read_range(file.object, offset, _READ_BYTES)
            crc32c, read_bytes = google_crc32c.extend(crc32c, data), read_bytes + len(data)
    except FileNotFoundError:
        raise Corrupt(file.object, 0, "it is missing") from None
    if (crc32c, read_bytes) != (file.crc32c, file.size_bytes):
        raise Corrupt(file.object, 0, "its checksum is not that in the manifest")
