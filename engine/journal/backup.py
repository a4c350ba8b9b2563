"""Backup: a journal copied while the engine goes on, and put back elsewhere.

A backup is a directory with the files that recovery would read, and a *manifest* that lists them
with their checksums. Files of a journal only grow, and closed ones do not change. So another backup
into the same directory copies only what is new. An extent file is written once and then only read,
so on the same file system a backup takes no copy of it, but a second name (a hard link).

- The manifest is replaced once everything that it lists is safe, and what it does not list goes
  after that. So a backup that is interrupted leaves the one before it as it was.
- What is restored gets its names when all of it is there and is as it was: the last segment first,
  the snapshot last. Recovery refuses a segment without what is before it, so nobody ever starts on
  a part of a backup.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, Protocol

import google_crc32c
import msgspec

from headgate.engine.errors import Corrupt, NewerFormat, Unavailable
from headgate.engine.journal import recovery
from headgate.engine.journal.disk import Disk
from headgate.engine.journal.moment import Moment, pieces_of
from headgate.engine.journal.names import UNFINISHED, is_extents, is_finished, is_segment
from headgate.engine.journal.recovery import Progress, no_progress
from headgate.engine.limits import SYNC_BYTES

MANIFEST: Final = "backup.json"
"""The name of the manifest."""

FORMAT: Final = 1
"""The version of the manifest."""

_COMPARED_BYTES = 4096
"""So much of both ends of two files says whether they are the same: a checksum is in there."""


class File(msgspec.Struct, frozen=True):
    name: str
    size_bytes: int
    crc32c: int


class Manifest(msgspec.Struct, frozen=True):
    format: int
    position: int
    """Of the last record."""
    taken_ms: int
    files: list[File]
    """In the order in which recovery reads them."""

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


class TakenBackup(NamedTuple):
    manifest: Manifest
    copied_bytes: int  # what was not there already


def take(
    source: Disk, target: Disk, now_ms: int, *, progress: Progress = no_progress
) -> TakenBackup:
    """Back up a journal, which may be in use, into a directory.

    `target` is empty, or has an earlier backup of the same journal. Raises Unavailable if there is
    no journal, or the directory holds something else.
    """
    before = _listed(target)
    try:
        return _taken(source, target, before, now_ms, progress)
    except BaseException:
        _remove_unfinished(target)  # it takes room
        raise


def _taken(
    source: Disk, target: Disk, before: Mapping[str, File], now_ms: int, progress: Progress
) -> TakenBackup:
    files, copied_bytes, done = [], 0, 0
    with Moment(source) as moment:
        total = sum(moment.sizes.values())
        for name, size_bytes in moment.sizes.items():
            file = before.get(name)
            if file is None or not _is_same(target, name, file.size_bytes, moment):
                unfinished = name + UNFINISHED
                is_linked = _linked(source, target, name)
                if is_linked and _is_same(target, name, size_bytes, moment, unfinished):
                    file = summed(name, moment.pieces(name))
                else:
                    file = _written(target, name, moment.pieces(name))
                    copied_bytes += size_bytes
                target.rename(unfinished, name)
            files.append(file)
            done += size_bytes
            progress(done, total)
        manifest = Manifest(FORMAT, moment.position, now_ms, files)
    _written(target, MANIFEST, iter([encoded(manifest)]))
    target.sync_names()
    target.rename(MANIFEST + UNFINISHED, MANIFEST)
    target.sync_names()
    for name in target.names():
        if _is_of_backup(name) and name not in (MANIFEST, *moment.sizes):
            target.remove(name)
    return TakenBackup(manifest, copied_bytes)


class Backup(Protocol):
    """A backup to be read, once."""

    def files(self) -> Iterator[tuple[str, Iterator[bytes]]]: ...

    def manifest(self) -> Manifest: ...

    def linked(self, name: str, target: Disk) -> bool: ...


class Directory:
    def __init__(self, disk: Disk, progress: Progress = no_progress) -> None:
        """Read the manifest; raises Corrupt if there is none."""
        self._disk = disk
        self._progress = progress
        self._manifest = _manifest_of(disk)
        self._done_bytes = 0

    def manifest(self) -> Manifest:
        return self._manifest

    def linked(self, name: str, target: Disk) -> bool:
        return _linked(self._disk, target, name)

    def files(self) -> Iterator[tuple[str, Iterator[bytes]]]:
        """Yield each file that the manifest lists, as far as it lists it."""
        for file in self._manifest.files:
            try:
                opened = self._disk.open(file.name)
            except FileNotFoundError:
                raise Corrupt(file.name, 0, "it is missing") from None
            with opened:
                pieces = pieces_of(opened, file.name, file.size_bytes)
                yield file.name, self._counted(pieces)

    def _counted(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            yield piece
            self._done_bytes += len(piece)
            self._progress(self._done_bytes, self._manifest.size_bytes)


def verify(backup: Backup) -> Manifest:
    there = {name: summed(name, pieces) for name, pieces in backup.files()}
    manifest = backup.manifest()
    _check(manifest, there)
    return manifest


def restore(backup: Backup, target: Disk) -> Manifest:
    """Put a backup into a directory without a journal. If that fails, nothing of it stays."""
    if recovery.names_in_use(target):
        raise Unavailable("the target has a journal already: restore into an empty directory")
    _remove_unfinished(target)  # of a restore that did not end
    try:
        there = {
            name: summed(name, pieces)
            if backup.linked(name, target)
            else _written(target, name, pieces)
            for name, pieces in backup.files()
        }
        manifest = backup.manifest()
        _check(manifest, there)
    except BaseException:
        _remove_unfinished(target)
        raise
    target.sync_names()
    for file in reversed(manifest.files):
        target.rename(file.name + UNFINISHED, file.name)
    target.sync_names()
    return manifest


def _manifest_of(backup: Disk) -> Manifest:
    if MANIFEST not in backup.names():
        raise Corrupt(MANIFEST, 0, "it is missing, so this is no backup")
    with backup.open(MANIFEST) as file:
        return decoded(file.read())


def decoded(data: bytes) -> Manifest:
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Corrupt(MANIFEST, 0, str(error)) from None
    if manifest.format > FORMAT:
        raise NewerFormat(MANIFEST, 0, f"its format is {manifest.format}: use a newer Headgate")
    for file in manifest.files:
        if not is_finished(file.name):
            raise Corrupt(MANIFEST, 0, f"{file.name!r} is no file of a backup")
    return manifest


def encoded(manifest: Manifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


def _written(target: Disk, name: str, pieces: Iterator[bytes]) -> File:
    unfinished = name + UNFINISHED
    if unfinished in target.names():
        target.remove(unfinished)
    file = summed(name, _appended(target, unfinished, pieces))
    target.sync(unfinished)
    return file


def _linked(source: Disk, target: Disk, name: str) -> bool:
    """Link an extent file that does not get its name yet; tells whether that worked."""
    if not is_extents(name):
        return False
    unfinished = name + UNFINISHED
    if unfinished in target.names():
        target.remove(unfinished)
    try:
        source.link(name, target, unfinished)
    except OSError:  # another file system, one without links, too many links, or it has gone
        return False
    return True


def _appended(target: Disk, name: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    unsynced_bytes = 0
    for piece in pieces:
        target.append(name, piece)
        unsynced_bytes += len(piece)
        if unsynced_bytes >= SYNC_BYTES:  # a great sync in the end would hold up the engine's
            target.sync(name)
            unsynced_bytes = 0
        yield piece


def _listed(target: Disk) -> dict[str, File]:
    if MANIFEST in target.names():
        return {file.name: file for file in _manifest_of(target).files}
    if recovery.names_in_use(target):
        raise Unavailable("there is a journal, and not a backup")
    return {}


def _is_same(
    target: Disk, name: str, size_bytes: int, moment: Moment, copy_name: str | None = None
) -> bool:
    """Tell whether a file was backed up as it is now; Unavailable if from another journal."""
    ends_bytes = min(size_bytes, _COMPARED_BYTES)
    try:
        with target.open(copy_name or name) as copy:
            has_same_start = copy.read(ends_bytes) == moment.part(name, 0, ends_bytes)
            if not has_same_start and is_segment(name):
                raise Unavailable("there is a backup of another journal")
            at = size_bytes - ends_bytes
            copy.seek(at)
            has_same_end = copy.read(ends_bytes) == moment.part(name, at, ends_bytes)
    except FileNotFoundError:  # somebody has removed it
        return False
    return has_same_start and has_same_end and moment.sizes[name] == size_bytes


def summed(name: str, pieces: Iterator[bytes]) -> File:
    """Return a file's entry in the manifest; reads all of the file."""
    size_bytes = crc32c = 0
    for piece in pieces:
        size_bytes += len(piece)
        crc32c = google_crc32c.extend(crc32c, piece)
    return File(name, size_bytes, crc32c)


def _check(manifest: Manifest, there: dict[str, File]) -> None:
    for file in manifest.files:
        if file.name not in there:
            raise Corrupt(file.name, 0, "it is missing")
        if there[file.name] != file:
            raise Corrupt(file.name, 0, "its checksum is not that in the manifest")


def _remove_unfinished(target: Disk) -> None:
    for name in target.names():
        if name.endswith(UNFINISHED) and _is_of_backup(name):
            target.remove(name)


def _is_of_backup(name: str) -> bool:
    finished = name.removesuffix(UNFINISHED)
    return finished == MANIFEST or is_finished(finished)
