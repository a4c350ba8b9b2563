"""Chunks of uncommitted batches, as files.

They are written under another name and renamed, so a chunk exists as a whole or not at all, even
after a crash. They are not fsynced, as the commit makes them durable. A batch that gets no more
chunks is forgotten after a while.

One thread does everything, including the bookkeeping: nothing comes between, and a cancelled
request leaves nothing half done.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import stat
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec

from headgate.app.bulk import staged
from headgate.app.bulk.staged import EncodedRows, Rows, StagedDrafts
from headgate.app.runtime import periodic
from headgate.app.runtime.siblings import Siblings
from headgate.app.wire.problems import GatewayError
from headgate.app.wire.schemas.bulk import CHUNKS_MAX
from headgate.engine.clock import Clock, SystemClock
from headgate.engine.entry import Draft
from headgate.engine.threads import Threads

log = logging.getLogger("headgate")

SWEEP_INTERVAL_S = 60.0
"""Interval between sweeps for old chunks."""

_UNFINISHED = "new"
"""Name of a file that is being written; behind it may come the number of the process."""

_UNFINISHED_S_MAX = 60.0
"""Nobody writes a file for so long."""

_TOPIC = "staged"

_NUMBER = "0|[1-9][0-9]{0,18}"
_FILE = re.compile(rf"({_NUMBER})-({_NUMBER})-([A-Za-z0-9._-]{{1,64}})")
_OF_UNFINISHED = re.compile(rf"{_UNFINISHED}\d*")
_FOLDERS = re.compile(r"[0-9a-f]{64}"), re.compile(_NUMBER)
"""Names of folders of writers, and of batches in them."""

_OWNER_DIGITS = 16
"""Digits of a writer's folder that are its owner's."""

_NOBODY = "0" * _OWNER_DIGITS

_SHOWN_MAX = 5


class ChunkName(NamedTuple):
    """The part of a batch that a chunk is; chunks are appended in this order."""

    partition: int
    number: int
    attempt: str

    @classmethod
    def of_file(cls, name: str) -> ChunkName | None:
        match = _FILE.fullmatch(name)
        return None if match is None else cls(int(match[1]), int(match[2]), match[3])

    @property
    def file(self) -> str:
        return f"{self.partition}-{self.number}-{self.attempt}"


class BatchName(NamedTuple):
    writer: bytes
    batch: int

    @property
    def folder(self) -> Path:
        """Return the folder of its chunks; it is hashed, as a writer's name may be too long.

        It has the same prefix for all writers of one owner.
        """
        owner, has_owner, _ = self.writer.rpartition(b"/")
        start = sha256(owner).hexdigest()[:_OWNER_DIGITS] if has_owner else _NOBODY
        return Path(start + sha256(self.writer).hexdigest()[_OWNER_DIGITS:], str(self.batch))


def _owner(folder: Path) -> str:
    return folder.parent.name[:_OWNER_DIGITS]


class _Batch:
    def __init__(self, touched_ms: int) -> None:
        self.sizes: dict[ChunkName, int] = {}
        self.touched_ms = touched_ms  # when its last chunk came, by the monotonic clock


class Staging:
    def __init__(
        self,
        directory: Path | None,
        *,
        bytes_max: int,
        ttl_ms: int,
        clock: Clock | None = None,
        siblings: Siblings | None = None,
    ) -> None:
        """Stage below a directory (None: a temporary one), not touched before its first use.

        `bytes_max` is for all chunks together; `ttl_ms` counts from a batch's last chunk. Siblings
        stage below the same directory.
        """
        self._siblings = siblings
        self._unfinished = _UNFINISHED if siblings is None else f"{_UNFINISHED}{siblings.number}"
        if siblings is not None:
            siblings.on_announcement(_TOPIC, self._hear)
        self._directory = directory
        self._is_temporary = directory is None
        self._bytes_max = bytes_max
        self._ttl_ms = ttl_ms
        self._clock = clock or SystemClock()
        self._batches: dict[Path, _Batch] | None = None  # by folder; None: not looked at yet
        self._sizes: Counter[str] = Counter()  # of the chunks of each owner
        self._count = 0
        self._thread = Threads(1, "staging")

    def wall_ms(self) -> int:
        return self._clock.wall_ms()

    async def put(self, batch: BatchName, chunk: ChunkName, rows: Rows | EncodedRows) -> int:
        """Stage a chunk, replacing one of the same name; return its bytes. Raises GatewayError."""
        size_bytes = await self._thread.call(partial(self._put, batch.folder, chunk, rows))
        await self._announce(batch.folder, chunk, size_bytes)
        return size_bytes

    async def take(
        self, batch: BatchName, chunks: Sequence[ChunkName]
    ) -> dict[bytes, Sequence[Draft]]:
        """Return the drafts by stream, chunk by chunk; GatewayError if a chunk is missing."""
        return await self._thread.call(partial(self._take, batch.folder, chunks))

    async def drop(self, batch: BatchName) -> None:
        await self._thread.call(partial(self._drop, batch.folder))
        await self._announce(batch.folder, None, 0)

    async def sweep(self) -> None:
        await self._thread.call(self._sweep)

    async def run(self) -> None:
        await periodic.repeat("staged chunks swept", self._sweep_and_wait)

    async def _sweep_and_wait(self) -> None:
        await self.sweep()
        await asyncio.sleep(SWEEP_INTERVAL_S)

    async def close(self) -> None:
        await self._thread.call(self._forget_temporary)
        await asyncio.to_thread(self._thread.shutdown)

    async def _announce(self, folder: Path, chunk: ChunkName | None, size_bytes: int) -> None:
        """Tell the other processes of a chunk; None: the batch has none left."""
        if self._siblings is not None:
            change = str(folder), None if chunk is None else chunk.file, size_bytes
            await self._siblings.announce(_TOPIC, _encode(change))

    def _hear(self, sender: int, body: bytes) -> None:
        del sender
        folder, file, size_bytes = _decode(body)
        chunk = None if file is None else ChunkName.of_file(file)
        with suppress(RuntimeError):  # this process is about to end
            self._thread.begin(partial(self._note, Path(folder), chunk, size_bytes))

    # In the thread

    def _put(self, folder: Path, chunk: ChunkName, rows: Rows | EncodedRows) -> int:
        held = self._loaded().get(folder)
        data = staged.encode(rows)
        replaced = 0 if held is None else held.sizes.get(chunk, 0)
        self._check_room(folder, len(data) - replaced, 0 if replaced else 1)
        try:
            self._write(self._root() / folder, chunk, data)
        except OSError as error:
            text = f"the chunk cannot be stored: {error.strerror}"
            raise GatewayError("unavailable", text) from None
        self._note(folder, chunk, len(data))
        return len(data)

    def _write(self, directory: Path, chunk: ChunkName, data: bytes) -> None:
        self._root().mkdir(0o700, parents=True, exist_ok=True)  # nobody else may look below it
        for is_last in (False, False, True):
            try:
                directory.mkdir(parents=True, exist_ok=True)
                unfinished = directory / self._unfinished
                unfinished.write_bytes(data)
                unfinished.rename(directory / chunk.file)
            except FileNotFoundError:  # another process drops the batch, or one of its writer
                if is_last:
                    raise
            else:
                return

    def _note(self, folder: Path, chunk: ChunkName | None, size_bytes: int) -> None:
        """Record a chunk of this or another process; None: the batch has none left."""
        batches = self._loaded()
        if chunk is None:
            self._forget(folder)
            return
        now_ms = self._clock.monotonic_ms()
        held = batches.setdefault(folder, _Batch(now_ms))
        replaced = held.sizes.get(chunk)
        held.sizes[chunk] = size_bytes
        held.touched_ms = now_ms
        self._resize(folder, size_bytes - (replaced or 0))
        self._count += replaced is None

    def _resize(self, folder: Path, by_bytes: int) -> None:
        owner = _owner(folder)
        self._sizes[owner] += by_bytes
        if not self._sizes[owner]:
            del self._sizes[owner]

    def _check_room(self, folder: Path, more_bytes: int, more: int) -> None:
        owner, share = _owner(folder), self._bytes_max // 2
        text = (
            f"staged chunks may have at most {self._bytes_max} bytes: commit or abort a batch first"
        )
        if self._sizes.total() + more_bytes > self._bytes_max:
            raise GatewayError("too_large", text, pointer="/body")
        if owner != _NOBODY and self._sizes[owner] + more_bytes > share:
            raise GatewayError("too_large", f"{text}; your share is {share}", pointer="/body")
        if self._count + more > CHUNKS_MAX:
            text = f"there may be at most {CHUNKS_MAX} staged chunks: commit or abort a batch first"
            raise GatewayError("too_large", text, pointer="/body")

    def _take(self, folder: Path, chunks: Sequence[ChunkName]) -> dict[bytes, Sequence[Draft]]:
        taken = StagedDrafts()
        for chunk in chunks:
            if not self._is_staged(folder, chunk):
                raise _missing(chunk)
            try:
                data = (self._root() / folder / chunk.file).read_bytes()
                for rows in staged.decode(data):
                    taken.add(rows)
            except (OSError, ValueError, IndexError):
                # It was not forced to disk: a power cut may take part of it.
                raise _missing(chunk) from None
        return taken.drafts()

    def _is_staged(self, folder: Path, chunk: ChunkName) -> bool:
        """Tell whether a chunk exists; another process may have staged it unannounced."""
        held = self._loaded().get(folder)
        if held is not None and chunk in held.sizes:
            return True
        if self._siblings is None:
            return False
        try:
            return stat.S_ISREG((self._root() / folder / chunk.file).lstat().st_mode)
        except OSError:
            return False

    def _forget(self, folder: Path) -> bool:
        held = self._loaded().pop(folder, None)
        if held is None:
            return False
        self._resize(folder, -sum(held.sizes.values()))
        self._count -= len(held.sizes)
        return True

    def _drop(self, folder: Path) -> None:
        if not self._forget(folder) and self._siblings is None:
            return
        directory = self._root() / folder
        shutil.rmtree(directory, ignore_errors=True)
        with suppress(OSError):  # other batches of the writer are there
            directory.parent.rmdir()

    def _sweep(self) -> None:
        oldest_ms = self._clock.monotonic_ms() - self._ttl_ms
        for folder, held in list(self._loaded().items()):
            if held.touched_ms < oldest_ms:
                self._drop(folder)

    def _root(self) -> Path:
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="headgate-staged-"))
        return self._directory

    def _loaded(self) -> dict[Path, _Batch]:
        if self._batches is None:
            self._batches = {}
            scan = _Scan()
            try:
                for folder in _folders(self._directory, scan):
                    self._load(folder, scan)
            except BaseException:  # the next call looks again
                self._batches, self._sizes, self._count = None, Counter(), 0
                raise
            if scan.unknown:
                first = list(map(str, scan.unknown[:_SHOWN_MAX]))
                facts = {"count": len(scan.unknown), "first": first}
                log.warning("a file that the gateway did not stage is left alone", extra=facts)
        return self._batches

    def _load(self, folder: Path, scan: _Scan) -> None:
        assert self._batches is not None
        held, touched_ms = _Batch(0), 0
        for entry in scan.entries(folder):
            chunk = ChunkName.of_file(entry.name)
            if not entry.is_file(follow_symlinks=False) or (
                chunk is None and not _OF_UNFINISHED.fullmatch(entry.name)
            ):
                scan.unknown.append(Path(entry.path))
                continue
            with suppress(OSError):  # it goes at this very moment
                status = entry.stat(follow_symlinks=False)
                if chunk is None:
                    self._remove_unfinished(entry, status.st_mtime)
                    continue
                held.sizes[chunk] = status.st_size
                touched_ms = max(touched_ms, int(status.st_mtime * 1000))
        if held.sizes:
            age_ms = max(self._clock.wall_ms() - touched_ms, 0)
            held.touched_ms = self._clock.monotonic_ms() - age_ms
            self._batches[folder.relative_to(self._root())] = held
            self._resize(folder, sum(held.sizes.values()))
            self._count += len(held.sizes)

    def _remove_unfinished(self, entry: os.DirEntry[str], written_at_s: float) -> None:
        age_s = self._clock.wall_ms() / 1000 - written_at_s
        if self._siblings is None or age_s > _UNFINISHED_S_MAX:
            Path(entry.path).unlink()

    def _forget_temporary(self) -> None:
        if self._is_temporary and self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)


class _Scan:
    def __init__(self) -> None:
        self.unknown: list[Path] = []

    def entries(self, folder: Path) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                return list(entries)
        except FileNotFoundError:
            return []
        except OSError:
            self.unknown.append(folder)
            return []


def _folders(directory: Path | None, scan: _Scan) -> list[Path]:
    folders = [] if directory is None else [directory]
    for name in _FOLDERS:
        below: list[Path] = []
        for entry in (below_folder for folder in folders for below_folder in scan.entries(folder)):
            is_ours = entry.is_dir(follow_symlinks=False) and name.fullmatch(entry.name)
            (below if is_ours else scan.unknown).append(Path(entry.path))
        folders = below
    return folders


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[str, str | None, int]).decode


def _missing(chunk: ChunkName) -> GatewayError:
    text = (
        f"partition {chunk.partition}, attempt {chunk.attempt!r}: chunk {chunk.number} is not "
        "staged (any more): write the batch again"
    )
    return GatewayError("staged_missing", text)
