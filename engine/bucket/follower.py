"""Follower: what another gateway writes to the bucket is applied here, part by part."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from headgate.engine import commands
from headgate.engine.bucket import manifest as manifests
from headgate.engine.bucket import parts
from headgate.engine.bucket.attachment import Attached
from headgate.engine.bucket.bucket import Bucket
from headgate.engine.bucket.manifest import BucketFile, BucketManifest, write_marker
from headgate.engine.bucket.parts import Part
from headgate.engine.bucket.restoring import Mark, fetch
from headgate.engine.clock import Clock
from headgate.engine.errors import Broken, Corrupt
from headgate.engine.journal import recovery
from headgate.engine.journal.disk import Disk
from headgate.engine.journal.names import in_use, position_of
from headgate.engine.journal.records import (
    HEADER_BYTES,
    Header,
    Kind,
    Records,
    read_blocks,
    read_header,
)
from headgate.engine.journal.storage import Holder
from headgate.engine.threads import this_turn

_MANIFEST_MS = 10_000
"""A follower looks so often whether there is a new snapshot. Parts stay far longer than that."""


class BucketFollower:
    def __init__(self, bucket: Bucket, attached: Attached, directory: Disk, clock: Clock) -> None:
        self.next_part = attached.next_part
        self.shipped = attached.shipped
        self.begins = dict(attached.begins)
        self.manifest: BucketManifest | None = attached.manifest
        self.covered_ms = attached.covered_ms
        self.last_term = 0
        self.last_writer = attached.last_writer
        """The writer of the last part, but for own ones without bytes, as a start may lead nothing.
        Its directory has what it has not shipped."""
        self.is_ahead = bool(attached.unshipped)
        """The directory has records that the bucket does not have: nobody else may write more."""
        self._bucket, self._directory, self._clock = bucket, directory, clock
        self._disk, self._marker = attached.disk, attached.marker
        self._header: Header | None = None  # of the segment that is followed
        self._known_ms: int | None = None
        self._looked_ms = clock.monotonic_ms()

    @property
    def behind_ms(self) -> int | None:
        """Return the time since all was known that the bucket has; None: never yet."""
        return None if self._known_ms is None else self._clock.monotonic_ms() - self._known_ms

    async def catch_up(self, records: Records, holder: Holder) -> None:
        while True:
            asked_ms = self._clock.monotonic_ms()
            part = await self._next()
            if part is None and not self._is_fresh(asked_ms) and await self._is_passed():
                part = await self._next()
                if part is None:
                    why = "it was removed before it was applied here; this gateway starts anew"
                    raise Corrupt(parts.part_name(self.next_part), 0, why)
            if part is None:
                self._known_ms = asked_ms
                return
            await _to_the_end(self.apply(part, records, holder))

    async def _next(self) -> Part | None:
        number = self.next_part
        with suppress(FileNotFoundError):
            return await self._bucket.in_thread(lambda: parts.read(self._bucket, number))
        return None

    def _is_fresh(self, now_ms: int) -> bool:
        """Tell whether all was known a moment ago: no part has come and gone since."""
        return self._known_ms is not None and now_ms - self._known_ms <= _MANIFEST_MS

    async def _is_passed(self) -> bool:
        """Tell whether a manifest begins behind the next part: then that is there, or was."""
        manifest = await self.look_at_manifest()
        return manifest is not None and manifest.first_part > self.next_part

    async def apply(self, part: Part, records: Records, holder: Holder) -> None:
        if part.segment:
            if self.is_ahead or part.writer == self._marker.writer:  # of a copied directory, too
                why = "another gateway has written to the bucket; this one starts anew"
                raise Corrupt(parts.part_name(part.number), 0, why)
            await self._directory.in_thread(lambda: self._write(part))
            await self._replay(part, records, holder)
            self.shipped = Mark(part.segment, part.end, part.position)
            if part.offset == 0:
                self.begins[part.segment] = part.number
            if records.position != part.position:
                why = f"it ends with record {records.position}, and not with {part.position}"
                raise Corrupt(parts.part_name(part.number), 0, why)
        self.next_part, self.last_term = part.number + 1, part.term
        if part.writer != self._marker.writer:  # or else it is one that a lost answer was about
            self.covered_ms, self.last_writer = part.covered_ms, part.writer

    def _write(self, part: Part) -> None:
        disk, name = self._directory, part.segment
        size_bytes = disk.size_bytes(name) if name in disk.names() else 0
        if part.offset == 0 and size_bytes:
            disk.remove(name)
        elif part.offset < size_bytes:  # a part of it was written before the disk failed
            disk.truncate(name, part.offset)
        elif part.offset > size_bytes:
            why = f"it begins at byte {part.offset} of {name}, which has {size_bytes}"
            raise Corrupt(parts.part_name(part.number), 0, why)
        disk.append(name, part.data)
        disk.sync(name)
        if part.offset == 0:
            disk.sync_names()

    async def _replay(self, part: Part, records: Records, holder: Holder) -> None:
        for number, record in self._records_of(part):
            if number > records.position:
                await holder.replay(record)
                records.follow(number)
                await this_turn().pause()

    def _records_of(self, part: Part) -> Iterator[tuple[int, list[commands.Command]]]:
        name, file = parts.part_name(part.number), io.BytesIO(part.data)
        try:
            if part.offset == 0:
                self._header = read_header(file, name, Kind.JOURNAL)
            elif self._header is None:
                start = self._directory.read(part.segment, 0, HEADER_BYTES)
                self._header = read_header(io.BytesIO(start), name, Kind.JOURNAL)
            for block in read_blocks(file, name, self._header):
                yield from enumerate(commands.decode_all(block.payload), block.first)
        except Broken as error:
            raise Corrupt(name, error.offset, error.why) from None

    async def look_at_manifest(self) -> BucketManifest | None:
        self.manifest = await self._bucket.in_thread(lambda: manifests.newest(self._bucket))
        return self.manifest

    async def look_for_snapshot(self, records: Records, holder: Holder) -> None:
        """Take over the newest snapshot, so that memory and files do not grow for ever."""
        if self._clock.monotonic_ms() - self._looked_ms < _MANIFEST_MS or self.is_ahead:
            return
        self._looked_ms = self._clock.monotonic_ms()
        names = await self._directory.in_thread(self._directory.names)
        before = position_of(in_use(names).snapshot or "")
        manifest = await self.look_at_manifest()
        if manifest is None or not before < manifest.position <= records.position:
            return
        if manifest.snapshot is not None:
            await _to_the_end(self._adopt(manifest, manifest.snapshot, holder))

    async def _adopt(self, manifest: BucketManifest, snapshot: BucketFile, holder: Holder) -> None:
        last_file = await self._disk.in_thread(lambda: recovery.last_extent_file(self._disk))
        known = holder.begin(last_file)
        files = {file.name: file for file in [*self._disk.shipped, *manifest.extents]}
        marker = msgspec.structs.replace(self._marker, files=[*files.values()])
        await self._directory.in_thread(lambda: write_marker(self._directory, marker))
        await self._bucket.in_thread(lambda: fetch(self._bucket, self._directory, [snapshot]))
        self._disk.note_shipped(files)
        indexes = await self._disk.in_thread(
            lambda: recovery.indexes(self._disk, manifest.position, known)
        )
        held = await holder.adopt(indexes, is_late=False)
        await self._disk.in_thread(lambda: recovery.clean(self._disk, held))


async def _to_the_end(act: Coroutine[Any, Any, None]) -> None:
    """Carry out something as a whole: who cancels it, as this gateway leads now, waits for it."""
    task = asyncio.create_task(act)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise
