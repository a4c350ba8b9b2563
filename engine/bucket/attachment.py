"""Attachment: a data directory and its bucket are brought together, at each start.

The bucket is right: what it has was written under a lease. A directory goes on from where it was if
nobody else has written to the bucket since, and if it has all that the bucket has. It may have more
then, as it ships a little behind. Otherwise it is made anew from the bucket, and segments with
records that the bucket never got are put aside.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headgate.engine.bucket import manifest as manifests
from headgate.engine.bucket import parts
from headgate.engine.bucket.bucket import Bucket
from headgate.engine.bucket.manifest import (
    IDENTITY,
    BucketFile,
    BucketManifest,
    Marker,
    read_marker,
    write_marker,
)
from headgate.engine.bucket.parts import Part
from headgate.engine.bucket.restoring import Mark, emptied, restore
from headgate.engine.bucket.tiers import TieredDisk
from headgate.engine.errors import Unavailable
from headgate.engine.journal.disk import Disk
from headgate.engine.journal.names import in_use, is_finished, is_segment, position_of
from headgate.engine.journal.records import HEADER_BYTES
from headgate.engine.journal.recovery import Loaded, Progress, load_safely, no_progress


@dataclass(slots=True)
class Attached:
    """A directory that stands where its bucket does, or a little ahead."""

    disk: TieredDisk
    marker: Marker
    manifest: BucketManifest | None
    next_part: int
    shipped: Mark  # up to here the bucket has everything that it needs from here
    loaded: Loaded
    unshipped: Sequence[Mark] = ()
    begins: Mapping[str, int] = field(default_factory=dict)  # parts that begin segments
    is_base_needed: bool = False  # the directory has a snapshot that no manifest names
    covered_ms: int = 0  # what was written before this moment is in the bucket
    unshipped_files: Sequence[str] = ()  # segments with records that the bucket never got
    last_writer: str = ""  # see `BucketFollower`; empty: of no directory that there is


def attach(directory: Disk, bucket: Bucket, progress: Progress = no_progress) -> Attached:
    """Attach and load; Unavailable if the directory has its own journal or another bucket."""
    marker, identity = read_marker(directory), _identity(bucket)
    if marker is not None and marker.identity != identity:
        raise Unavailable(f"the directory belongs to another bucket, which was at {marker.url}")
    manifest = manifests.newest(bucket)
    numbers = parts.numbers_from(bucket, 1 if manifest is None else manifest.first_part)
    if manifest is None and not numbers:
        return _first(directory, bucket, identity, progress)
    last = parts.read(bucket, numbers[-1]) if numbers else None
    writer = last.writer if last is not None else manifest and manifest.writer
    if marker is not None and writer == marker.writer:
        shipped = _shipped(bucket, manifest, numbers)
        next_part = numbers[-1] + 1 if numbers else manifest.first_part if manifest else 1
        attached = _gone_on(directory, bucket, marker, manifest, next_part, shipped, progress)
        if attached is not None:
            attached.covered_ms = _covered_ms(manifest, last)
            attached.last_writer = _last_writer(bucket, manifest, numbers, marker.writer)
            return attached
    return _anew(directory, bucket, marker, identity, progress)


def _identity(bucket: Bucket) -> str:
    try:
        return bucket.read(IDENTITY).decode()
    except FileNotFoundError:
        bucket.put_new(IDENTITY, secrets.token_hex(8).encode())
        return bucket.read(IDENTITY).decode()


def _first(directory: Disk, bucket: Bucket, identity: str, progress: Progress) -> Attached:
    files = in_use(directory.names())
    has_records = bool(files.in_order)  # from before there was a bucket
    marker = Marker(bucket.url, identity, secrets.token_hex(8), has_led=has_records)
    write_marker(directory, marker)
    disk = TieredDisk(directory, bucket, {})
    loaded = load_safely(disk, progress)
    base = 0 if files.snapshot is None else position_of(files.snapshot)
    return Attached(
        *(disk, marker, None, 1, Mark("", 0, base), loaded),
        unshipped=_marks(directory, Mark("", 0, base), loaded),
        is_base_needed=files.snapshot is not None,
    )


def _gone_on(
    directory: Disk,
    bucket: Bucket,
    marker: Marker,
    manifest: BucketManifest | None,
    next_part: int,
    shipped: Mark,
    progress: Progress,
) -> Attached | None:
    """Attach a directory that wrote last; None if it lacks something that the bucket has."""
    names = directory.names()
    snapshot = in_use(names).snapshot
    base = 0 if snapshot is None else position_of(snapshot)
    is_replaced = shipped.segment not in names and base >= shipped.position
    if shipped.segment and not is_replaced and not _has(directory, shipped):
        return None
    disk = TieredDisk(directory, bucket, marker.by_name)
    loaded = load_safely(disk, progress)
    torn = loaded.torn
    if torn is not None and (torn.name, torn.offset) < (shipped.segment, shipped.end):
        return None
    if loaded.position < shipped.position:
        return None
    begins: dict[str, int] = {}
    known = 0 if manifest is None else manifest.position
    if base > known:  # a snapshot was made, and its manifest was not put
        for number in range(1 if manifest is None else manifest.first_part, next_part):
            part = parts.read(bucket, number)
            if part.segment and part.offset == 0:
                begins[part.segment] = number
    return Attached(
        *(disk, marker, manifest, next_part, shipped, loaded),
        unshipped=_marks(directory, shipped, loaded),
        begins=begins,
        is_base_needed=base > known,
    )


def _covered_ms(manifest: BucketManifest | None, last: Part | None) -> int:
    if last is not None:
        return last.covered_ms
    return 0 if manifest is None else manifest.covered_ms


def _has(directory: Disk, shipped: Mark) -> bool:
    try:
        return directory.size_bytes(shipped.segment) >= shipped.end
    except FileNotFoundError:
        return False


def _shipped(bucket: Bucket, manifest: BucketManifest | None, numbers: Sequence[int]) -> Mark:
    for number in reversed(numbers):
        part = parts.read(bucket, number)
        if part.segment:
            return Mark(part.segment, part.end, part.position)
    if manifest is None:
        return Mark("", 0, 0)
    if manifest.pieces:
        piece = manifest.pieces[-1]
        return Mark(piece.segment, piece.offset + piece.size_bytes, manifest.last_position)
    return Mark("", 0, manifest.position)


def _last_writer(
    bucket: Bucket, manifest: BucketManifest | None, numbers: Sequence[int], own: str
) -> str:
    """Return the writer of the last part, ignoring our own parts without bytes."""
    for number in reversed(numbers):
        part = parts.read(bucket, number)
        if part.segment or part.writer != own:
            return part.writer
    return "" if manifest is None else manifest.writer


def _marks(directory: Disk, shipped: Mark, loaded: Loaded) -> list[Mark]:
    segments = [name for name in directory.names() if is_segment(name) and is_finished(name)]
    names = [name for name in segments if name >= shipped.segment]
    lasts = [position_of(name) - 1 for name in names[1:]] + [loaded.position]
    marks = []
    for name, last in zip(names, lasts, strict=False):
        torn = loaded.torn
        is_torn = torn is not None and torn.name == name
        end = torn.offset if is_torn and torn is not None else directory.size_bytes(name)
        is_replaced = last <= shipped.position  # by a snapshot that the bucket has
        if not is_replaced and (name, end) > (shipped.segment, shipped.end) and end > HEADER_BYTES:
            marks.append(Mark(name, end, last))
    return marks


def _anew(
    directory: Disk, bucket: Bucket, marker: Marker | None, identity: str, progress: Progress
) -> Attached:
    manifest = manifests.newest(bucket)
    kept = _kept(directory, marker, [] if manifest is None else manifest.extents)
    unshipped = _unshipped(directory, bucket, marker, manifest)
    former = "" if marker is None or not marker.has_led else marker.former or marker.writer
    marker = Marker(bucket.url, identity, secrets.token_hex(8), bool(former), former)
    write_marker(directory, marker)  # a start that ends in the middle begins here again
    unshipped_files = emptied(directory, kept, unshipped)
    restored = restore(bucket, directory, progress=progress)
    files = {file.name: file for file in restored.files}
    marker = Marker(bucket.url, identity, marker.writer, files=list(files.values()))
    write_marker(directory, marker)
    disk = TieredDisk(directory, bucket, files)
    loaded = load_safely(disk)
    last, shipped = restored.last_part, restored.shipped._replace(position=loaded.position)
    return Attached(
        *(disk, marker, restored.manifest, restored.next_part, shipped, loaded),
        begins=restored.begins,
        covered_ms=_covered_ms(restored.manifest, last),
        unshipped_files=unshipped_files,
    )


def _unshipped(
    directory: Disk, bucket: Bucket, marker: Marker | None, manifest: BucketManifest | None
) -> frozenset[str]:
    """Return the segments with records that the bucket never got, or may not have."""
    segments = [name for name in directory.names() if is_segment(name) and is_finished(name)]
    if marker is None and segments:
        raise Unavailable("the directory has a journal of its own, and the bucket another one")
    if marker is None or not marker.has_led:
        return frozenset()
    shipped, writer = ("", HEADER_BYTES), marker.former or marker.writer
    for number in parts.numbers_from(bucket, 1 if manifest is None else manifest.first_part):
        part = parts.read(bucket, number)
        if part.writer == writer and part.segment:
            shipped = part.segment, max(part.end, HEADER_BYTES)
    ends = {name: directory.size_bytes(name) for name in segments}
    return frozenset(
        name
        for name, end in ends.items()
        if end > HEADER_BYTES and (name > shipped[0] or (name, end) > shipped)
    )


def _kept(directory: Disk, marker: Marker | None, wanted: Sequence[BucketFile]) -> frozenset[str]:
    before = {} if marker is None else marker.by_name
    there = set(directory.names())
    return frozenset(
        file.name
        for file in wanted
        if file == before.get(file.name)
        and file.name in there
        and directory.size_bytes(file.name) == file.size_bytes
    )
