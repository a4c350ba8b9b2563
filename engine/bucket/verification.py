"""Verification: everything that a bucket keeps is read and compared with its checksums."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import google_crc32c

from headgate.engine.bucket import manifest as manifests
from headgate.engine.bucket import parts
from headgate.engine.bucket.bucket import Bucket
from headgate.engine.bucket.lease import SeenLease, newest_lease
from headgate.engine.bucket.manifest import BucketFile, BucketManifest, Piece
from headgate.engine.bucket.names import FILES, PARTS, number_of
from headgate.engine.bucket.parts import Part
from headgate.engine.errors import Corrupt
from headgate.engine.journal.recovery import Progress, no_progress

_READ_BYTES = 8 * 2**20


class BucketContent(NamedTuple):
    """The content of a bucket."""

    manifests: list[BucketManifest]  # by number
    part_count: int
    first_part: Part | None  # without its bytes; None: there is none
    last_part: Part | None
    lease: SeenLease | None
    file_count: int
    size_bytes: int  # of all objects that hold data

    @property
    def since_ms(self) -> int | None:
        """Return since when it can be restored as it was; None: it holds nothing."""
        if self.first_part is not None and self.first_part.number == 1:
            return self.first_part.put_ms
        return self.manifests[0].at_ms if self.manifests else None


class Verified(NamedTuple):
    """The result of a verification."""

    object_count: int
    size_bytes: int
    position: int  # of the last record
    unnamed: list[str]  # objects that nothing needs: uploads that did not end


def content(bucket: Bucket) -> BucketContent:
    """Return the content of a bucket.

    Raises:
        Corrupt: a manifest or a part makes no sense.
        OSError: the bucket fails.
    """
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
    """Read everything that a start or a restore of any kept moment needs.

    Raises:
        Corrupt: an object is damaged or missing.
        OSError: the bucket fails.
    """
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
