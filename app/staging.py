"""Staging: chunks of batches that are not committed yet, as files.

They are written to another name and renamed, so a chunk is there as a whole or not at all, also
after a crash; they are not forced to disk, as the commit is what makes them last. A batch that gets
no more chunks is forgotten after a while.

One thread does everything, the bookkeeping too: nothing comes between, and a request that is
cancelled leaves nothing half done.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import struct
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, TypeVar

import google_crc32c
import msgspec

from app.problems import GatewayError
from app.schemas import CHUNKS_MAX
from engine.clock import Clock, SystemClock
from engine.entry import Draft, EntryId, IdRequest, PartialId

log = logging.getLogger("headgate")

T = TypeVar("T")

SWEEP_INTERVAL_S = 60.0
"""How often what is too old is looked for."""

_UNFINISHED = "new"


class ChunkName(NamedTuple):
    """Which part of a batch a chunk is; they are appended in this order."""

    partition: int
    number: int
    attempt: str

    @classmethod
    def of_file(cls, name: str) -> ChunkName:
        """Return the name of the chunk in a file."""
        partition, number, attempt = name.split("-", 2)
        return cls(int(partition), int(number), attempt)

    @property
    def file(self) -> str:
        """Return the name of its file."""
        return f"{self.partition}-{self.number}-{self.attempt}"


class BatchName(NamedTuple):
    """A batch of a writer."""

    writer: bytes
    batch: int

    @property
    def folder(self) -> Path:
        """Return where its chunks are: names of writers may be too long for files."""
        return Path(sha256(self.writer).hexdigest(), str(self.batch))


class Rows(msgspec.Struct, frozen=True, array_like=True):
    """What a chunk holds: for each entry its stream, its id and its fields."""

    streams: list[bytes]
    stream_of: list[int] | None  # of each entry, a place among the streams; None: all the first
    ids: list[tuple[int, ...] | None] | None  # ms and seq, or ms alone; None: all are `*`
    fields: list[tuple[bytes, ...]]

    @classmethod
    def of(cls, streams: Sequence[bytes], drafts: Sequence[Draft]) -> Rows:
        """Return drafts as rows; `streams` has one name for each, or one for all."""
        names = list(dict.fromkeys(streams))
        place = {name: at for at, name in enumerate(names)}
        ids: list[tuple[int, ...] | None] = [draft.id for draft in drafts]
        return cls(
            streams=names,
            stream_of=[place[name] for name in streams] if len(names) > 1 else None,
            ids=ids if any(one is not None for one in ids) else None,
            fields=[draft.fields for draft in drafts],
        )

    def add_to(self, drafts: dict[bytes, list[Draft]]) -> None:
        """Append the rows to what there is for each stream."""
        for at, fields in enumerate(self.fields):
            name = self.streams[0 if self.stream_of is None else self.stream_of[at]]
            wanted = None if self.ids is None else _id_request(self.ids[at])
            drafts.setdefault(name, []).append(Draft(wanted, fields))


def _id_request(parts: tuple[int, ...] | None) -> IdRequest:
    if parts is None:
        return None
    return EntryId(*parts) if len(parts) == 2 else PartialId(*parts)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Rows).decode


_CHECKSUM = struct.Struct("<I")


def _checked(data: bytes) -> bytes:
    return _CHECKSUM.pack(google_crc32c.value(data)) + data


def _unchecked(data: bytes) -> bytes:
    checksum, rows = data[: _CHECKSUM.size], data[_CHECKSUM.size :]
    if checksum != _CHECKSUM.pack(google_crc32c.value(rows)):
        raise ValueError("not what was staged")
    return rows


class _Batch:
    """The chunks of one batch."""

    def __init__(self, touched_ms: int) -> None:
        self.sizes: dict[ChunkName, int] = {}
        self.touched_ms = touched_ms  # unix time of its last chunk


class Staging:
    """All staged chunks."""

    def __init__(
        self, directory: Path | None, *, bytes_max: int, ttl_ms: int, clock: Clock | None = None
    ) -> None:
        """Stage below a directory; nothing is touched before it is needed.

        Args:
            directory: where to; None is a temporary one.
            bytes_max: of all chunks together.
            ttl_ms: how long a batch is kept after its last chunk.
            clock: what time it is; the machine's unless given.
        """
        self._directory = directory
        self._is_temporary = directory is None
        self._bytes_max = bytes_max
        self._ttl_ms = ttl_ms
        self._clock = clock or SystemClock()
        self._batches: dict[Path, _Batch] | None = None  # by folder; None: not looked at yet
        self._size_bytes = 0  # of all chunks
        self._count = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="staging")

    async def put(self, batch: BatchName, chunk: ChunkName, rows: Rows) -> int:
        """Stage a chunk, in place of one of the same name; returns its size in bytes.

        Raises:
            GatewayError: there is no room, or the disk fails.
        """
        return await self._aside(partial(self._put, batch.folder, chunk, rows))

    async def take(self, batch: BatchName, chunks: Sequence[ChunkName]) -> dict[bytes, list[Draft]]:
        """Return what is to be appended to each stream, chunk after chunk. They stay.

        Raises:
            GatewayError: one is not there.
        """
        return await self._aside(partial(self._take, batch.folder, chunks))

    async def drop(self, batch: BatchName) -> None:
        """Forget all chunks of a batch."""
        await self._aside(partial(self._drop, batch.folder))

    async def sweep(self) -> None:
        """Forget batches that have got no chunk for too long."""
        await self._aside(self._sweep)

    async def run(self) -> None:
        """Sweep now and from time to time, until cancelled."""
        while True:
            try:
                await self.sweep()
            except OSError as error:
                log.warning("staged chunks not swept", extra={"reason": str(error)})
            await asyncio.sleep(SWEEP_INTERVAL_S)

    async def close(self) -> None:
        """Let go of the thread, and of a temporary directory."""
        await self._aside(self._forget_temporary)
        self._thread.shutdown(wait=False)

    async def _aside(self, act: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, act)

    # In the thread

    def _put(self, folder: Path, chunk: ChunkName, rows: Rows) -> int:
        batches = self._loaded()
        data = _checked(_encode(rows))
        held = batches.get(folder)
        replaced = 0 if held is None else held.sizes.get(chunk, 0)
        more_bytes, more = len(data) - replaced, 0 if replaced else 1
        self._check_room(more_bytes, more)
        try:
            directory = self._root() / folder
            directory.mkdir(parents=True, exist_ok=True)
            unfinished = directory / _UNFINISHED
            unfinished.write_bytes(data)
            unfinished.rename(directory / chunk.file)
        except OSError as error:
            text = f"a chunk cannot be staged: {error.strerror}"
            raise GatewayError("unavailable", text) from None
        now_ms = self._clock.wall_ms()
        held = batches.setdefault(folder, _Batch(now_ms))
        held.sizes[chunk] = len(data)
        held.touched_ms = now_ms
        self._size_bytes += more_bytes
        self._count += more
        return len(data)

    def _check_room(self, more_bytes: int, more: int) -> None:
        if self._size_bytes + more_bytes > self._bytes_max:
            text = f"staged chunks may take {self._bytes_max} bytes: commit or abort a batch first"
            raise GatewayError("too_large", text, pointer="/body")
        if self._count + more > CHUNKS_MAX:
            text = f"there may be {CHUNKS_MAX} staged chunks: commit or abort a batch first"
            raise GatewayError("too_large", text, pointer="/body")

    def _take(self, folder: Path, chunks: Sequence[ChunkName]) -> dict[bytes, list[Draft]]:
        held = self._loaded().get(folder)
        drafts: dict[bytes, list[Draft]] = {}
        for chunk in chunks:
            if held is None or chunk not in held.sizes:
                raise _missing(chunk)
            try:
                data = (self._root() / folder / chunk.file).read_bytes()
                _decode(_unchecked(data)).add_to(drafts)
            except (OSError, ValueError):  # not forced to disk: a power cut may take part of it
                raise _missing(chunk) from None
        return drafts

    def _drop(self, folder: Path) -> None:
        held = self._loaded().pop(folder, None)
        if held is None:
            return
        self._size_bytes -= sum(held.sizes.values())
        self._count -= len(held.sizes)
        directory = self._root() / folder
        shutil.rmtree(directory, ignore_errors=True)
        with suppress(OSError):  # other batches of the writer are there
            directory.parent.rmdir()

    def _sweep(self) -> None:
        oldest_ms = self._clock.wall_ms() - self._ttl_ms
        for folder, held in list(self._loaded().items()):
            if held.touched_ms < oldest_ms:
                self._drop(folder)

    def _root(self) -> Path:
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="headgate-staged-"))
        return self._directory

    def _loaded(self) -> dict[Path, _Batch]:
        """Return what is staged, found out once from the files."""
        if self._batches is None:
            self._batches = {}
            for path in [] if self._directory is None else self._directory.glob("*/*/*"):
                if path.name == _UNFINISHED:
                    path.unlink()
                    continue
                status = path.stat()
                folder = path.parent.relative_to(self._root())
                held = self._batches.setdefault(folder, _Batch(0))
                held.sizes[ChunkName.of_file(path.name)] = status.st_size
                self._size_bytes += status.st_size
                self._count += 1
                held.touched_ms = max(held.touched_ms, int(status.st_mtime * 1000))
        return self._batches

    def _forget_temporary(self) -> None:
        if self._is_temporary and self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)


def _missing(chunk: ChunkName) -> GatewayError:
    text = (
        f"partition {chunk.partition}, attempt {chunk.attempt!r}: chunk {chunk.number} is not "
        "staged, or no more: write the batch again"
    )
    return GatewayError("staged_missing", text)
