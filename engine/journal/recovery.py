"""Recovery: from the files of a directory to the state they stand for.

The newest snapshot is loaded. Then the journal's records behind it are applied, in order. If a
crash tore the end of the last segment, nobody was answered with what is in the torn part: it is cut
off and kept in a file of its own. Anything else that is not as it was written is damage, and
recovery does not guess (`damage.py` does, when an operator says so).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import BinaryIO, NamedTuple

import msgspec

from headgate.engine import commands
from headgate.engine.errors import Broken, Corrupt
from headgate.engine.journal import snapshot
from headgate.engine.journal.disk import Disk
from headgate.engine.journal.extents import ExtentReader, Freezing, ReadExtent, read
from headgate.engine.journal.names import (
    UNFINISHED,
    FilesInUse,
    extents_number,
    in_use,
    is_finished,
    is_segment,
    is_unfinished,
    journal_name,
    snapshot_name,
)
from headgate.engine.journal.records import (
    HEADER_BYTES,
    Block,
    Header,
    Kind,
    read_blocks,
    read_header,
    was_safe,
)
from headgate.engine.journal.storage import StreamIndex
from headgate.engine.limits import HOT_BYTES_MAX, SYNC_BYTES
from headgate.engine.state.extent import Damaged, Line
from headgate.engine.state.extent_index import Extents
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.memory import Memory

Progress = Callable[[int, int], None]
"""Is called with the number of bytes read so far, and of all bytes."""


def no_progress(done: int, total: int) -> None:
    """Report nothing."""


class Torn(NamedTuple):
    """The end of the last segment, which a crash has torn."""

    name: str
    offset: int
    size_bytes: int
    why: str


class KeyspaceCounts(NamedTuple):
    streams: int
    entries: int
    pending: int


class Loaded(NamedTuple):
    keyspace: Keyspace
    position: int  # of the last record
    torn: Torn | None
    damaged: Sequence[Damaged]  # what records needed, and is lost

    def counts(self) -> KeyspaceCounts:
        streams = self.keyspace.streams.values()
        return KeyspaceCounts(
            len(streams),
            sum(stream.log.length for stream in streams),
            sum(len(group.pel) for stream in streams for group in stream.groups.values()),
        )


def names_in_use(disk: Disk) -> list[str]:
    return named(disk, in_use(disk.names())).in_order


def named(disk: Disk, files: FilesInUse, held: Container[str] = ()) -> FilesInUse:
    """Return files without unused extent files, or all if the snapshot does not say which."""
    listed = None if files.snapshot is None else _extents_of(disk, files.snapshot)
    if listed is None:
        return files
    kept = [name for name in files.extents if extents_number(name) in listed or name in held]
    return files._replace(extents=kept)


def load(
    disk: Disk,
    *,
    through: int | None = None,
    progress: Progress = no_progress,
    read_extent: ReadExtent = read,
) -> Loaded:
    """Load the state that the files hold; they are only read.

    1. Load the newest snapshot, if there is one: everything up to its position.
    2. Apply the records of each segment behind it, in order. Positions have no holes: the first
       record of a segment follows the last one before it.
    3. Note where the last segment is torn, if it is: a crash may leave any part of what was
       written after the last sync. Everywhere else a block that is not whole is damage.

    The result is the state after a record (`through` at the latest), never in the middle of one.
    """
    newest, _, segments = in_use(disk.names())
    names = [*segments] if newest is None else [newest, *segments]
    sizes = {name: disk.size_bytes(name) for name in names}
    total, done = sum(sizes.values()), 0
    keyspace, position = Keyspace(), 0
    keyspace.memory.extents = ExtentReader(disk, read_extent)
    if newest is not None:
        position = _load_snapshot(disk, newest, keyspace)
        if through is not None and position > through:
            raise Corrupt(newest, 0, f"it holds everything up to {position}")
        done += sizes[newest]
        progress(done, total)
    torn, damaged = None, list[Damaged]()
    for name in segments:
        if position == through:
            break  # what comes now is still being written to, perhaps
        replay = _Replay(disk, name, keyspace, position, through, is_last=name == segments[-1])
        for offset in replay.steps():
            progress(done + offset, total)
        position, torn = replay.position, replay.torn
        damaged += replay.damaged
        done += sizes[name]
    if through is not None and position < through:
        raise Corrupt(segments[-1] if segments else "the journal", 0, f"it ends with {position}")
    return Loaded(keyspace, position, torn, damaged)


def recover(disk: Disk, progress: Progress = no_progress) -> Loaded:
    """Load the state that the files hold, and mend them, so that the journal can go on."""
    loaded = load_safely(disk, progress)
    mend(disk, loaded.torn)
    return loaded


def load_safely(disk: Disk, progress: Progress = no_progress) -> Loaded:
    """Load the state that the files hold, once all of it is safe. It takes no room.

    A process may have ended between a write and its sync. Its last writes can be read, and the next
    records build on them, so they must be safe before those are. The newest snapshot must be safe
    before the files that it replaces go.
    """
    loaded = load(disk, progress=progress)
    for name in in_use(disk.names()).in_order[-1:]:  # the others were safe before it was begun
        disk.sync(name)
    disk.sync_names()
    return loaded


def mend(disk: Disk, torn: Torn | None, held: Container[str] = ()) -> dict[str, int]:
    """Mend files that were loaded, so that the journal can go on; may be repeated.

    It cuts off the torn tail, and removes unfinished and replaced files except `held` ones. Returns
    the sizes in bytes of what is in use, by name.
    """
    names = disk.names()
    is_there = torn is not None and torn.name in names
    if torn is not None and is_there and disk.size_bytes(torn.name) >= max(torn.offset, 1):
        cut_off(disk, torn.name, torn.offset)
    for name in names:
        if is_segment(name) and name.endswith(UNFINISHED):
            disk.remove(name)
    return clean(disk, held)


def cut_off(disk: Disk, name: str, offset: int) -> str:
    kept = copy_tail(disk, name, offset)
    if offset == 0:
        disk.remove(name)
        disk.sync_names()
    else:
        disk.truncate(name, offset)
    return kept


def copy_tail(disk: Disk, name: str, offset: int) -> str:
    with disk.open(name) as file:
        file.seek(offset)
        tail = file.read()
    kept = _free_name(disk, f"aside-{name}-{offset}", tail)
    disk.append(kept, tail)
    disk.sync(kept)
    disk.sync_names()
    return kept


def _free_name(disk: Disk, wanted: str, tail: bytes) -> str:
    """Return a free name for a tail, so that no earlier tail is lost."""
    kept, number = wanted, 1
    while kept in disk.names():
        with disk.open(kept) as file:
            is_same = tail.startswith(file.read())
        if is_same:  # of an attempt that did not end
            disk.remove(kept)
            break
        number += 1
        kept = f"{wanted}-{number}"
    return kept


def clean(disk: Disk, held: Container[str] = ()) -> dict[str, int]:
    """Remove files that no recovery will read: unfinished ones, and those a snapshot has replaced.

    Segments may begin meanwhile, so only what one look at the directory has found is judged. `held`
    files stay. Returns the sizes in bytes of what stays in use, by name.
    """
    names = disk.names()
    kept = named(disk, in_use(names), held)
    for name in names:
        is_ours = is_finished(name) or is_unfinished(name)
        if is_ours and name not in kept and name not in held:
            disk.remove(name)
    disk.sync_names()
    return {name: disk.size_bytes(name) for name in kept.in_order}


def waiting_segments(disk: Disk, held: Container[str]) -> dict[str, int]:
    names = disk.names()
    in_use_now = in_use(names).in_order
    waiting = [name for name in names if is_segment(name) and name in held]
    return {name: disk.size_bytes(name) for name in waiting if name not in in_use_now}


def _extents_of(disk: Disk, name: str) -> list[int] | None:
    with suppress(Corrupt), disk.open(name) as file:
        header = read_header(file, name, Kind.SNAPSHOT)
        for block in read_blocks(file, name, header):
            return snapshot.extent_files(block, name)
    return None


def lose(keyspace: Keyspace, damaged: Damaged) -> None:
    for chunk in damaged.lost:
        keyspace.apply(commands.EntriesLost(damaged.stream, chunk.first_id, chunk.last_id))


def remove_each(disk: Disk, names: Iterable[str]) -> None:
    for name in names:
        with suppress(FileNotFoundError):
            disk.remove(name)
    disk.sync_names()


def remove_unfinished(disk: Disk) -> None:
    for name in disk.names():
        if is_unfinished(name):
            disk.remove(name)


def save(disk: Disk, keyspace: Keyspace, position: int) -> None:
    """Write the snapshot of a state; from then on it stands for everything up to `position`.

    1. Write it under a name that recovery does not read.
    2. Sync it, a part at a time, so that no sync takes long.
    3. Give it its name, and sync the names. It is there as a whole, or not at all.
    """
    name = snapshot_name(position)
    unfinished = name + UNFINISHED
    if unfinished in disk.names():
        disk.remove(unfinished)
    unsynced_bytes = 0
    for data in snapshot.pieces(keyspace, position):
        disk.append(unfinished, data)
        unsynced_bytes += len(data)
        if unsynced_bytes >= SYNC_BYTES:  # one great sync in the end would hold up the journal's
            disk.sync(unfinished)
            unsynced_bytes = 0
    disk.sync(unfinished)
    disk.rename(unfinished, name)
    disk.sync_names()


def last_extent_file(disk: Disk) -> int:
    return max((extents_number(name) or 0 for name in disk.names()), default=0)


def indexes(disk: Disk, position: int, known: int) -> list[StreamIndex]:
    """Return lines of a snapshot that may be new; `known` was the last extent file before it."""
    name = snapshot_name(position)
    plain: list[StreamIndex] = []
    archives: dict[bytes, StreamIndex] = {}  # with the lines of their streams
    with disk.open(name) as file:
        header = read_header(file, name, Kind.SNAPSHOT)
        for item in snapshot.index(read_blocks(file, name, header), name):
            index = StreamIndex(item.stream, item.epoch, _lines_behind(item, known))
            if item.is_archived or item.stream in archives:
                archives[item.stream] = _joined(archives.get(item.stream), index)
            elif index.lines:
                plain.append(index)
    return [*plain, *(index for index in archives.values() if index.lines)]


def _joined(before: StreamIndex | None, index: StreamIndex) -> StreamIndex:
    by_place = {} if before is None else {line.place: line for line in before.lines}
    for line in index.lines:
        known = by_place.get(line.place)
        by_place[line.place] = line if known is None else known.joined(line)
    return index._replace(lines=sorted(by_place.values(), key=attrgetter("first_id")))


def _lines_behind(item: snapshot.ExtentsItem, known: int) -> list[Line]:
    extents = Extents(Memory())
    extents.load(item.columns, item.dead)
    return [extents.line(at) for at in extents.lying_behind(known)]


def rewrite(disk: Disk, through: int, hot_bytes_max: int = HOT_BYTES_MAX) -> None:
    """Write the snapshot of what the files stand for, up to a position.

    Entries go to extent files before it, and it says where they lie: so they are safe first.
    `hot_bytes_max` stays in the snapshot of all streams together, besides open chunks.
    """
    keyspace = load(disk, through=through).keyspace
    freezing = Freezing(disk, keyspace)
    freezing.freeze(hot_bytes_max)
    freezing.clean()
    freezing.finish()
    save(disk, keyspace, through)


def _load_snapshot(disk: Disk, name: str, keyspace: Keyspace) -> int:
    with disk.open(name) as file:
        header = read_header(file, name, Kind.SNAPSHOT)
        position = header.position
        if snapshot_name(position) != name:
            raise Corrupt(name, 0, f"it says that it is {snapshot_name(position)}")
        snapshot.load(read_blocks(file, name, header), name, keyspace)
        return position


class _Replay:
    def __init__(
        self,
        disk: Disk,
        name: str,
        keyspace: Keyspace,
        position: int,
        through: int | None,
        *,
        is_last: bool,
    ) -> None:
        self.position = position
        self.torn: Torn | None = None
        self.damaged: list[Damaged] = []
        self._disk = disk
        self._name = name
        self._keyspace = keyspace
        self._through = through
        self._is_last = is_last

    def steps(self) -> Iterator[int]:
        header = None
        with self._disk.open(self._name) as file:
            try:
                header = read_header(file, self._name, Kind.JOURNAL)
                self._check_place(header.position)
                for block in read_blocks(file, self._name, header):
                    self._apply(block)
                    yield block.end
                    if self._is_through():
                        return
            except Broken as error:
                if not self._is_last or self._was_safe(file, header, error.offset):
                    raise
                size_bytes = self._disk.size_bytes(self._name) - error.offset
                self.torn = Torn(self._name, error.offset, size_bytes, error.why)

    def _check_place(self, first: int) -> None:
        if journal_name(first) != self._name:
            raise Corrupt(self._name, 0, f"it says that it is {journal_name(first)}")
        if first > self.position + 1:
            text = f"records {self.position + 1} to {first - 1} are missing before it"
            raise Corrupt(self._name, 0, text)

    def _apply(self, block: Block) -> None:
        try:
            records = commands.decode_all(block.payload)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Corrupt(self._name, block.offset, f"a record makes no sense: {error}") from None
        if not block.first <= self.position + 1 <= block.first + len(records):
            text = f"record {self.position + 1} is missing: the block begins with {block.first}"
            raise Corrupt(self._name, block.offset, text)
        for number, record in enumerate(records, block.first):
            if number <= self.position:
                continue  # the snapshot holds it
            if self._through is not None and number > self._through:
                return
            try:
                for command in record:
                    self._apply_command(command)
            except (MemoryError, OSError):  # the machine's, and not the record's
                raise
            except Exception as error:
                text = f"cannot be applied: {error!r}"
                raise Corrupt(self._name, block.offset, text, record=number) from error
            self.position = number

    def _apply_command(self, command: commands.Command) -> None:
        """Apply a command; what it needs and is damaged is lost, and the engine will find out."""
        while True:
            try:
                self._keyspace.apply(command)
            except Damaged as damage:
                self.damaged.append(damage)
                lose(self._keyspace, damage)
            else:
                return

    def _is_through(self) -> bool:
        return self._through is not None and self.position >= self._through

    def _was_safe(self, file: BinaryIO, header: Header | None, offset: int) -> bool:
        if header is None:  # it is safe before any block is written
            return self._disk.size_bytes(self._name) > HEADER_BYTES
        return was_safe(file, header, offset, self.position)
