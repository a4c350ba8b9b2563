"""Curator: makes the manifests of a bucket, and removes what none of them names any more.

A new manifest is put when a rewrite has made a snapshot, and when many small parts are joined, so
that a start has few objects to read. What it names is put and compared before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from sys import intern
from typing import NamedTuple, Self

import google_crc32c
import msgspec

from headgate.engine.bucket import manifest as manifests
from headgate.engine.bucket import parts
from headgate.engine.bucket.bucket import Bucket, BucketError
from headgate.engine.bucket.manifest import (
    MANIFESTS,
    BucketFile,
    BucketManifest,
    Marker,
    Piece,
    file_object,
    numbered,
    write_marker,
)
from headgate.engine.bucket.restoring import Mark
from headgate.engine.bucket.shipper import Shipper
from headgate.engine.bucket.tiers import TieredDisk
from headgate.engine.clock import Clock
from headgate.engine.errors import Corrupt
from headgate.engine.journal import recovery
from headgate.engine.journal.backup import summed
from headgate.engine.journal.disk import Disk, is_full
from headgate.engine.journal.moment import pieces_of
from headgate.engine.journal.names import (
    in_use,
    is_finished,
    is_segment,
    journal_name,
    position_of,
    snapshot_name,
)
from headgate.engine.journal.records import HEADER_BYTES
from headgate.engine.journal.storage import Holder, Nobody

PARTS_MAX = 256
"""A start reads about so many parts at most; then they are joined."""

GRACE_MS = 600_000
"""Nothing is removed that has not been replaced for so long, as this process has seen it."""

_PIECE_BYTES = 16 * 2**20

_COMPARED_BYTES = 4096


class Retention(NamedTuple):
    kept_ms: int  # manifests, and what they name, for so long after the next one has come
    local_bytes_max: int | None = None  # of extent files in the directory; None: no bound
    joined_parts: int = PARTS_MAX
    grace_ms: int = GRACE_MS


class _Kept(NamedTuple):
    """The facts of a manifest that removing needs: thousands of them may be kept."""

    at_ms: int
    first_part: int
    objects: tuple[str, ...]

    @classmethod
    def of(cls, manifest: BucketManifest) -> Self:
        return cls(manifest.at_ms, manifest.first_part, tuple(map(intern, manifest.objects)))


def _version_of(directory: Disk, name: str) -> object:
    """Return the version of a file: another one of its name has another."""
    content = directory.content(name)
    if isinstance(content, bytes):
        return content
    stat = content.stat()
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def _is_small(piece: Piece, end: int, begin: int) -> bool:
    """Tell whether a piece is put again with the bytes behind it: a start reads few pieces then."""
    return piece.size_bytes <= 2 * (end - begin) and end - piece.offset <= _PIECE_BYTES


class Curator:
    def __init__(
        self,
        bucket: Bucket,
        disk: TieredDisk,
        directory: Disk,
        clock: Clock,
        shipper: Shipper,
        marker: Marker,
        retention: Retention,
    ) -> None:
        self.manifest: BucketManifest | None = None
        self._bucket, self._disk, self._directory = bucket, disk, directory
        self._clock, self._shipper, self._marker = clock, shipper, marker
        self._retention = retention
        self._holder: Holder = Nobody()
        self._is_base_needed = False
        self._is_put = False  # a manifest, of which the directory does not know yet
        self._snapshot: int | None = None  # the position of one that is not in a manifest yet
        self._kept: dict[int, _Kept] = {}
        self._replaced_ms: dict[int, int] = {}  # since when a manifest is not the newest, here
        self._wake = asyncio.Event()

    def begin(
        self, manifest: BucketManifest | None, holder: Holder, *, is_base_needed: bool
    ) -> None:
        """Continue after `manifest`. `is_base_needed`: no manifest names the local snapshot."""
        self.manifest, self._holder = manifest, holder
        self._is_base_needed = is_base_needed
        self._write_marker()
        if is_base_needed:
            self.note_snapshot(position_of(in_use(self._disk.names()).snapshot or ""))

    @property
    def has_base(self) -> bool:
        return self.manifest is not None or not self._is_base_needed

    def note_snapshot(self, position: int) -> None:
        self._snapshot = position
        self._wake.set()

    def note_shipped(self) -> None:
        if self._snapshot is not None or self._are_many:
            self._wake.set()

    @property
    def _are_many(self) -> bool:
        first_part = 1 if self.manifest is None else self.manifest.first_part
        return self._shipper.next_number - first_part >= self._retention.joined_parts

    @property
    def _joined(self) -> Mark:
        if self.manifest is None or not self.manifest.pieces:
            return Mark("", 0, 0)
        last = self.manifest.pieces[-1]
        end = last.offset + last.size_bytes
        return Mark(last.segment, 0 if end <= HEADER_BYTES else end, 0)  # it was begun anew

    async def do_next(self) -> None:
        await self._wake.wait()
        self._wake.clear()
        try:
            if self._snapshot is not None:
                await self._put_snapshot(self._snapshot)
            elif self._are_many:
                await self._join()
            if self._is_put:
                await self._clear_up()
        except OSError as error:
            if is_full(error):
                await self._disk.in_thread(self._disk.give_up_reserve)
            self._wake.set()
            raise

    async def _clear_up(self) -> None:
        await self._disk.in_thread(self._write_marker)
        bytes_max = self._retention.local_bytes_max
        if bytes_max is not None:
            kept = await self._holder.local_files()
            await self._disk.in_thread(lambda: self._disk.evict(bytes_max, kept))
        await self._bucket.in_thread(self._remove_old)
        self._is_put = False

    async def _put_snapshot(self, position: int) -> None:
        """Put a snapshot, its extent files, and a manifest that names them.

        The bucket has all records up to there by then: or else it would have what this leader may
        still lose.
        """
        if self._shipper.shipped.position < position:
            return  # `note_shipped` comes again
        segment = journal_name(position + 1)
        first_part = self._shipper.begins.get(segment, self._shipper.next_number)
        await self._bucket.in_thread(lambda: self._put_files(position, first_part))
        if self._snapshot == position:  # or else there is a newer one by now
            self._snapshot = None

    def _put_files(self, position: int, first_part: int) -> None:
        """Put files, unless a rewrite has replaced them meanwhile: then there are newer ones."""
        try:
            names = [name for name in recovery.names_in_use(self._disk) if not is_segment(name)]
            if not names or names[0] != snapshot_name(position):
                return
            shipped = {file.name: file for file in self._disk.shipped}
            extents = [shipped.get(name) or self._put_file(name) for name in names[1:]]
            snapshot = self._put_file(names[0])
        except FileNotFoundError:
            return
        made, before = self._blank(position, first_part), self.manifest
        joined = [] if before is None else before.pieces
        pieces = [piece for piece in joined if piece.segment >= journal_name(position + 1)]
        if before is not None and pieces:  # records behind the snapshot were joined before it came
            facts = {"first_part": before.first_part, "last_position": before.last_position}
            made = msgspec.structs.replace(made, pieces=pieces, **facts)
        self._put_manifest(made, snapshot=snapshot, extents=extents)
        self._disk.note_shipped({file.name: file for file in extents})

    def _put_file(self, name: str) -> BucketFile:
        """Put a file, and compare its end: a rewrite may make the same snapshot again meanwhile."""
        before, size_bytes = _version_of(self._directory, name), self._directory.size_bytes(name)
        with self._directory.open(name) as file:
            crc32c = summed(name, pieces_of(file, name, size_bytes)).crc32c
        version = f"{name}-{size_bytes:x}-{crc32c:08x}"
        target = file_object(version, self._marker.writer, self._shipper.term)
        self._bucket.put_new(target, self._directory.content(name))
        if _version_of(self._directory, name) != before:
            raise BucketError(f"{name} was replaced as it was put")
        end = self._bucket.read_range(target, max(size_bytes - _COMPARED_BYTES, 0), size_bytes)
        with self._directory.open(name) as file:
            file.seek(max(size_bytes - _COMPARED_BYTES, 0))
            if end != file.read():
                raise BucketError(f"{target} is not the file that was put")
        return BucketFile(name, target, size_bytes, crc32c)

    async def _join(self) -> None:
        through, first_part = self._shipper.shipped, self._shipper.next_number
        await self._bucket.in_thread(lambda: self._put_pieces(through, first_part))

    def _put_pieces(self, through: Mark, first_part: int) -> None:
        before = self.manifest or self._blank(0, 1)
        pieces, (segment, offset, _) = [*before.pieces], self._joined
        first = segment or journal_name(before.position + 1)
        names = [name for name in self._directory.names() if is_segment(name)]
        names = [name for name in names if first <= name <= through.segment and is_finished(name)]
        if names and names[0] != first:
            raise FileNotFoundError(f"{first} has gone: a snapshot replaces it")
        for name in names:
            begin = offset if name == segment else 0
            end = through.end if name == through.segment else self._directory.size_bytes(name)
            while pieces and pieces[-1].segment == name and _is_small(pieces[-1], end, begin):
                begin = pieces.pop().offset
            pieces += self._put_piece(name, begin, end)
        changes = {"first_part": first_part, "last_position": through.position}
        self._put_manifest(before, pieces=pieces, **changes)

    def _blank(self, position: int, first_part: int) -> BucketManifest:
        return BucketManifest(
            number=0,
            term=0,
            writer=self._marker.writer,
            at_ms=0,
            position=position,
            first_part=first_part,
            last_position=position,
            covered_ms=0,
        )

    def _put_piece(self, name: str, begin: int, end: int) -> Iterator[Piece]:
        for offset in range(begin, end, _PIECE_BYTES):
            data = self._directory.read(name, offset, min(end - offset, _PIECE_BYTES))
            piece = f"{name}-{offset}-{len(data)}"
            target = file_object(piece, self._marker.writer, self._shipper.term)
            if not self._bucket.put_new(target, data) and self._bucket.read(target) != data:
                raise BucketError(f"{target} is there, and is another one")
            yield Piece(name, offset, target, len(data), google_crc32c.value(data))

    def _put_manifest(self, manifest: BucketManifest, **changes: object) -> None:
        there = manifests.numbers(self._bucket)
        made = msgspec.structs.replace(
            manifest,
            number=there[-1] + 1 if there else 1,
            term=self._shipper.term,
            writer=self._marker.writer,
            at_ms=self._clock.wall_ms(),
            covered_ms=self._shipper.covered_ms,
            **changes,
        )
        if not manifests.put(self._bucket, made):
            raise BucketError("another leader has put a manifest of that number")
        self.manifest, self._is_put = made, True

    def _write_marker(self, *, has_led: bool = True) -> None:
        files = self._disk.shipped
        write_marker(
            self._directory, msgspec.structs.replace(self._marker, has_led=has_led, files=files)
        )

    def end(self) -> None:
        self._write_marker(has_led=False)

    def _remove_old(self) -> None:
        """Remove manifests that are not kept any more, and what only they name.

        A manifest is kept for its time after the next one was made. Clocks may be set, and a leader
        may go on for a moment after it was replaced: so it is also kept for a time that this
        process has seen pass.
        """
        for number in manifests.numbers(self._bucket):
            if number not in self._kept:
                with suppress(FileNotFoundError, Corrupt):
                    self._kept[number] = _Kept.of(manifests.read(self._bucket, number))
        oldest_ms = self._clock.wall_ms() - self._retention.kept_ms
        now_ms, grace_ms = self._clock.monotonic_ms(), self._retention.grace_ms
        gone = [
            number
            for number, following in pairwise(sorted(self._kept))
            if self._kept[following].at_ms < oldest_ms
            and now_ms - self._replaced_ms.setdefault(number, now_ms) > grace_ms
        ]
        if not gone:
            return
        dropped = [self._kept[number] for number in gone]
        kept = [self._kept[number] for number in self._kept.keys() - set(gone)]
        named = {name for manifest in kept for name in manifest.objects}
        objects = {name for manifest in dropped for name in manifest.objects} - named
        first = min(manifest.first_part for manifest in kept)
        before = 1 if 1 in gone else min(manifest.first_part for manifest in dropped)
        # Manifests go last: as long as they are there, the next one finds what else has to go.
        self._bucket.remove(sorted(objects))
        self._bucket.remove(parts.part_name(number) for number in range(before, first))
        self._bucket.remove(numbered(MANIFESTS, number) for number in gone)
        for number in gone:
            del self._kept[number]
            self._replaced_ms.pop(number, None)
