"""Manifest of a bucket: which objects are the data, their names, and the mark in the directory.

A manifest is a numbered object, and the newest one counts. Old ones stay for a time, with what they
name: so a bucket can be restored as it was at a moment. A manifest that a leader puts after it was
replaced does no harm: it names what was put before, and that is still true.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from headgate.engine.bucket.bucket import Bucket
from headgate.engine.errors import Corrupt, NewerFormat
from headgate.engine.journal.disk import Disk
from headgate.engine.journal.names import UNFINISHED, is_finished

LEASES = "leases/"
"""The leases; the greatest number is the one that counts (`lease.py`)."""

PARTS = "parts/"
"""The journal, in parts that follow each other (`parts.py`)."""

MANIFESTS = "manifests/"
"""The manifests; the greatest number is the newest (`manifest.py`)."""

FILES = "files/"
"""Snapshots, extent files and pieces of segments, as manifests name them."""

IDENTITY = "identity"
"""The object that tells this bucket from others, whatever its address is."""

KEYS = "keys/"
"""The keys file of the gateway: the greatest number is the newest."""

_DIGITS = 20


def numbered(prefix: str, number: int) -> str:
    return f"{prefix}{number:0{_DIGITS}}"


def number_of(name: str) -> int | None:
    """Return the number of an object; None if it has none, as it is not one of ours."""
    digits = name.rpartition("/")[2]
    return int(digits) if len(digits) == _DIGITS and digits.isdecimal() else None


def file_object(name: str, writer: str, term: int) -> str:
    """Return an object's name: writer and term tell apart files of one name."""
    return f"{FILES}{name}-{term}-{writer}"


FORMAT: Final = 1


class BucketFile(msgspec.Struct, frozen=True):
    name: str
    object: str
    size_bytes: int
    crc32c: int


class Piece(msgspec.Struct, frozen=True):
    segment: str
    offset: int
    object: str
    size_bytes: int
    crc32c: int


class BucketManifest(msgspec.Struct, frozen=True, kw_only=True):
    format: int = FORMAT
    number: int
    term: int
    writer: str
    at_ms: int
    """When it was made, by the clock of its writer."""
    position: int
    """Of the last record in the snapshot; 0 without one."""
    first_part: int
    """The part that follows what the manifest names."""
    last_position: int
    """Of the last record before that part."""
    covered_ms: int
    """A moment, by that clock: what was written before it is in parts before that one."""
    snapshot: BucketFile | None = None
    extents: list[BucketFile] = []
    pieces: list[Piece] = []

    @property
    def objects(self) -> Iterator[str]:
        if self.snapshot is not None:
            yield self.snapshot.object
        for file in self.extents:
            yield file.object
        for piece in self.pieces:
            yield piece.object

    @property
    def size_bytes(self) -> int:
        sizes = [0 if self.snapshot is None else self.snapshot.size_bytes]
        sizes += [file.size_bytes for file in self.extents]
        return sum(sizes) + sum(piece.size_bytes for piece in self.pieces)


def put(bucket: Bucket, manifest: BucketManifest) -> bool:
    """Put a manifest; false if another one of its number is there. After an error nobody knows."""
    name, data = numbered(MANIFESTS, manifest.number), msgspec.json.encode(manifest)
    return bucket.put_new(name, data) or bucket.read(name) == data


def numbers(bucket: Bucket) -> list[int]:
    objects = bucket.objects(MANIFESTS)
    return [number for stored in objects if (number := number_of(stored.name)) is not None]


def newest(bucket: Bucket) -> BucketManifest | None:
    """Return the newest manifest; None: there is none, and the parts begin with number 1."""
    while there := numbers(bucket):
        try:
            return read(bucket, there[-1])
        except FileNotFoundError:  # it was removed meanwhile: there are newer ones
            continue
    return None


def read(bucket: Bucket, number: int) -> BucketManifest:
    name = numbered(MANIFESTS, number)
    try:
        manifest = msgspec.json.decode(bucket.read(name), type=BucketManifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Corrupt(name, 0, str(error)) from None
    if manifest.format > FORMAT:
        raise NewerFormat(name, 0, f"its format is {manifest.format}: use a newer Headgate")
    files = [*manifest.extents, *([] if manifest.snapshot is None else [manifest.snapshot])]
    if not all(is_finished(file.name) for file in files):
        raise Corrupt(name, 0, "it names what is no file of a data directory")
    return manifest


MARKER: Final = "bucket"
"""The name of the file."""


class Marker(msgspec.Struct, frozen=True):
    url: str
    identity: str
    """Of the bucket, whatever its address is."""
    writer: str
    """The name of the directory in the parts that are put from it."""
    has_led: bool = False
    """Records were written here, so that some may be here alone."""
    former: str = ""
    """The writer before, while the directory is made anew."""
    files: list[BucketFile] = []
    """The extent files of the directory that the bucket has as well."""

    @property
    def by_name(self) -> Mapping[str, BucketFile]:
        return {file.name: file for file in self.files}


def read_marker(disk: Disk) -> Marker | None:
    if MARKER not in disk.names():
        return None
    with disk.open(MARKER) as file:
        try:
            return msgspec.json.decode(file.read(), type=Marker)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Corrupt(MARKER, 0, str(error)) from None


def write_marker(disk: Disk, marker: Marker) -> None:
    """Replace the marker of a directory; it is durable when this returns."""
    unfinished = MARKER + UNFINISHED
    if unfinished in disk.names():
        disk.remove(unfinished)
    disk.append(unfinished, msgspec.json.encode(marker))
    disk.sync(unfinished)
    disk.rename(unfinished, MARKER)
    disk.sync_names()
