"""Manifests of a bucket: which objects are the data, as far as parts do not say it.

A manifest is a numbered object, and the newest one counts. Old ones stay for a time, with what they
name: so a bucket can be restored as it was at a moment. A manifest that a leader puts after it was
replaced does no harm: it names what was put before, and that is still true.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from headgate.engine.bucket.bucket import Bucket
from headgate.engine.bucket.names import MANIFESTS, number_of, numbered
from headgate.engine.errors import Corrupt, NewerFormat
from headgate.engine.journal.names import is_finished

FORMAT: Final = 1


class BucketFile(msgspec.Struct, frozen=True):
    """A file of a data directory, as an object."""

    name: str
    object: str
    size_bytes: int
    crc32c: int


class Piece(msgspec.Struct, frozen=True):
    """Bytes of a segment, joined from parts that were small."""

    segment: str
    offset: int
    object: str
    size_bytes: int
    crc32c: int


class BucketManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a bucket."""

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
        """Yield the names of the objects."""
        if self.snapshot is not None:
            yield self.snapshot.object
        for file in self.extents:
            yield file.object
        for piece in self.pieces:
            yield piece.object

    @property
    def size_bytes(self) -> int:
        """Return the size of what it names."""
        sizes = [0 if self.snapshot is None else self.snapshot.size_bytes]
        sizes += [file.size_bytes for file in self.extents]
        return sum(sizes) + sum(piece.size_bytes for piece in self.pieces)


def put(bucket: Bucket, manifest: BucketManifest) -> bool:
    """Put a manifest; false if another one of its number is there. After an error nobody knows."""
    name, data = numbered(MANIFESTS, manifest.number), msgspec.json.encode(manifest)
    return bucket.put_new(name, data) or bucket.read(name) == data


def numbers(bucket: Bucket) -> list[int]:
    """Return the numbers of all manifests, in order."""
    objects = bucket.objects(MANIFESTS)
    return [number for stored in objects if (number := number_of(stored.name)) is not None]


def newest(bucket: Bucket) -> BucketManifest | None:
    """Return the newest manifest; None: there is none, and the parts begin with number 1.

    Raises:
        Corrupt: it makes no sense, or is of a newer version.
    """
    while there := numbers(bucket):
        try:
            return read(bucket, there[-1])
        except FileNotFoundError:  # it was removed meanwhile: there are newer ones
            continue
    return None


def read(bucket: Bucket, number: int) -> BucketManifest:
    """Read a manifest.

    Raises:
        Corrupt: it makes no sense, or is of a newer version.
        FileNotFoundError: it is not there.
    """
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
