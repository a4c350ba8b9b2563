"""Damage: where files are damaged, and what can be saved of them."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

from headgate.engine import commands
from headgate.engine.config import StreamConfig
from headgate.engine.entry import MAX_ID, EntryId
from headgate.engine.errors import Broken, Corrupt, NewerFormat
from headgate.engine.journal import extents as extent_files
from headgate.engine.journal import snapshot
from headgate.engine.journal.disk import Disk
from headgate.engine.journal.extents import ExtentReader, read_or_lose
from headgate.engine.journal.names import (
    UNFINISHED,
    extents_name,
    extents_number,
    in_use,
    is_extents,
    position_of,
)
from headgate.engine.journal.records import (
    HEADER_BYTES,
    Block,
    Header,
    Kind,
    intact_blocks,
    pack_block,
    read_blocks,
    read_header,
)
from headgate.engine.journal.recovery import (
    Loaded,
    Progress,
    clean,
    copy_tail,
    cut_off,
    load,
    lose,
    no_progress,
    save,
)
from headgate.engine.state.extent import Damaged, Line, OpenedExtent
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.memory import ExtentPlace
from headgate.engine.state.stream import Stream

# Damage: a search for it in all extent files, and their sizes.
#
# Nobody needs this to go on: what is damaged is found when it is read. An operator asks before
# that.

_STEP_BYTES = 8 * 2**20
"""So much is read between two reports of progress."""


class ColdFiles(NamedTuple):
    file_count: int
    size_bytes: int  # of those that are there
    live_bytes: int  # about
    dead_bytes: int


def cold_files(disk: Disk, keyspace: Keyspace) -> ColdFiles:
    alive = Counter[int]()
    for stream in keyspace.streams.values():
        for log in stream.logs:
            log.extents.count_by_file(alive)
    there = set(disk.names())
    names = {extents_name(number) for number in keyspace.memory.files}
    size_bytes = sum(disk.size_bytes(name) for name in names & there)
    live_bytes = alive.total()
    return ColdFiles(len(names), size_bytes, live_bytes, max(size_bytes - live_bytes, 0))


def examine(disk: Disk, keyspace: Keyspace, progress: Progress = no_progress) -> Iterator[Damaged]:
    """Read all extents (copied streams share some) file by file, and yield the damaged ones."""
    names = list(keyspace.streams)
    by_file: defaultdict[int, array[int]] = defaultdict(lambda: array("Q"))  # stream, line, …
    total = done = reported = 0
    for at, name in enumerate(names):
        for index, line in enumerate(_lines_of(keyspace.streams[name])):
            by_file[line.place.file].extend((at, index))
            total += line.place.size_bytes
    for file in sorted(by_file):
        extent: OpenedExtent | None = None
        for name, line in _in_order(keyspace, names, by_file.pop(file)):
            if extent is None or extent.place != line.place:
                extent = extent_files.read_or_lose(disk, line.place)
            done += line.place.size_bytes
            if done - reported >= _STEP_BYTES or done == total:
                reported = done
                progress(done, total)
            if lost := extent.lost(line):
                yield Damaged(name, line.place, extent.why, lost)


def _in_order(
    keyspace: Keyspace, names: list[bytes], lines: array[int]
) -> list[tuple[bytes, Line]]:
    pairs = [
        (names[at], _line_of(keyspace.streams[names[at]], index))
        for at, index in zip(lines[::2], lines[1::2], strict=True)
    ]
    return sorted(pairs, key=_place_of)


def _lines_of(stream: Stream) -> Iterator[Line]:
    return chain.from_iterable(log.extents.lines() for log in stream.logs)


def _line_of(stream: Stream, index: int) -> Line:
    archived_count = 0 if stream.archive is None else len(stream.archive.extents)
    if stream.archive is not None and index < archived_count:
        return stream.archive.extents.line(index)
    return stream.log.extents.line(index - archived_count)


def _place_of(pair: tuple[bytes, Line]) -> ExtentPlace:
    return pair[1].place


# Repair: an operator lets go of what is damaged, and keeps all the rest.
#
# - Damage in the journal ends the history there: later records build on what is missing.
# - Damage in a snapshot takes the items of the blocks in which it is, and the journal behind it.
# - Damage in an extent file takes the chunks in which it is. The streams go on around them.
#
# Nothing is thrown away. What is cut off, and every extent file in which something is damaged or
# that nobody names any more, is kept in a file `aside-…` before the state that goes without it is
# written.


class Repaired(NamedTuple):
    kept: list[str]
    """The files `aside-…` that it has made."""
    lost: list[Damaged]
    """Chunks that were damaged."""
    incomplete: dict[bytes, str]
    """Streams that a damaged snapshot has in part, by name, with what they lack."""


def repair(disk: Disk, progress: Progress = no_progress) -> Repaired:
    """Save everything that is not damaged.

    1. Cut off what is damaged of snapshot and journal, until they can be loaded.
    2. Read everything that is cold. Put aside the files in which something is damaged.
    3. Write the snapshot of the state without it, as of the last record.

    Raises NewerFormat for a file of a newer version, and Corrupt if what is left makes no sense.
    """
    repaired = Repaired([], [], {})
    loaded = _loaded(disk, repaired)
    if loaded.torn is not None:
        repaired.kept.append(cut_off(disk, loaded.torn.name, loaded.torn.offset))
    keyspace = loaded.keyspace
    damaged = list(examine(disk, keyspace, progress))
    repaired.lost.extend([*loaded.damaged, *damaged])
    if repaired.lost:
        named = set(keyspace.memory.files)
        for each in damaged:
            lose(keyspace, each)
        files = {each.place.file for each in repaired.lost}
        repaired.kept.extend(_keep(disk, files | named - set(keyspace.memory.files)))
        save(disk, keyspace, loaded.position)
        clean(disk)
    return repaired


def _loaded(disk: Disk, repaired: Repaired) -> Loaded:
    """Cut off what is damaged of snapshot and journal, until they can be loaded."""
    saved = ""  # the snapshot that this repair has written
    while True:
        try:
            return load(disk, read_extent=read_or_lose)
        except NewerFormat:
            raise
        except Corrupt as damage:
            if damage.name == saved:  # it would be so again and again
                raise
            if damage.name == in_use(disk.names()).snapshot:
                saved = damage.name
                _save_undamaged_part(disk, damage.name, repaired)
            else:
                repaired.kept.extend(_cut_off(disk, damage))


def _cut_off(disk: Disk, damage: Corrupt) -> list[str]:
    segments = in_use(disk.names()).segments
    if damage.record is None:
        kept = [cut_off(disk, damage.name, damage.offset)]
    else:
        kept = [_cut_in_block(disk, damage.name, damage.offset, damage.record)]
    behind = segments[segments.index(damage.name) + 1 :]
    return kept + [cut_off(disk, name, 0) for name in behind]


def _cut_in_block(disk: Disk, name: str, offset: int, record: int) -> str:
    with disk.open(name) as file:
        header = read_header(file, name, Kind.JOURNAL)
        file.seek(0)
        before = file.read(offset)
        block = next(read_blocks(file, name, header))
    good = commands.decode_all(block.payload)[: record - block.first]
    if not good:
        return cut_off(disk, name, offset)
    kept = copy_tail(disk, name, offset)
    payload = commands.join([commands.encode(record) for record in good])
    unfinished = name + UNFINISHED
    if unfinished in disk.names():
        disk.remove(unfinished)
    disk.append(unfinished, before + pack_block(header, block.first, block.synced, payload))
    disk.sync(unfinished)
    disk.rename(unfinished, name)
    disk.sync_names()
    return kept


def _keep(disk: Disk, numbers: Iterable[int]) -> list[str]:
    kept: list[str] = []
    for name in map(extents_name, sorted(numbers)):
        names = disk.names()
        if name not in names:
            continue
        wanted = second = f"aside-{name}-0"
        count = 1
        while second in names:
            count += 1
            second = f"{wanted}-{count}"
        try:
            disk.link(name, disk, second)
        except OSError:  # the file system has no links
            second = copy_tail(disk, name, 0)
        kept.append(second)
    disk.sync_names()
    return kept


def _save_undamaged_part(disk: Disk, name: str, repaired: Repaired) -> None:
    """Replace a damaged snapshot by what can be read of it.

    The damaged one goes last: a repair that is interrupted before begins anew.
    """
    keyspace = _undamaged_part(disk, name, repaired.incomplete)
    names = disk.names()
    unnamed = {extents_number(each) or 0 for each in names if is_extents(each)}
    keyspace.last_extent_file = max(keyspace.last_extent_file, *unnamed, 0)
    kept = [copy_tail(disk, name, 0)]
    kept += [cut_off(disk, segment, 0) for segment in reversed(in_use(names).segments)]
    kept += _keep(disk, unnamed - set(keyspace.memory.files))
    save(disk, keyspace, position_of(name))
    clean(disk)
    repaired.kept.extend(kept)


def _undamaged_part(disk: Disk, name: str, incomplete: dict[bytes, str]) -> Keyspace:
    """Load the undamaged blocks of a snapshot.

    An item that makes no sense may have been taken in part, so those before it are loaded anew.
    """
    sound = _salvaged(disk, name, _Salvage(Keyspace())).item_count
    keyspace = Keyspace()
    keyspace.memory.extents = ExtentReader(disk, read_or_lose)
    incomplete.update(_salvaged(disk, name, _Salvage(keyspace, sound)).finish())
    return keyspace


def _salvaged(disk: Disk, name: str, salvage: _Salvage) -> _Salvage:
    with suppress(Corrupt), disk.open(name) as file:
        try:
            header = read_header(file, name, Kind.SNAPSHOT)
        except Broken:  # the name says as much
            header = Header(Kind.SNAPSHOT, position_of(name))
            file.seek(HEADER_BYTES)
        for block in intact_blocks(file, header):
            salvage.take(block, name)
    return salvage


class _Hole(NamedTuple):
    """Damage in the index: of which streams it has lost lines."""

    first: bytes  # the stream before it
    line_count: int  # lines of that stream before it
    last: bytes | None  # the stream behind it; None: there is none


class _Salvage(snapshot.Loading):
    """A keyspace of a snapshot some of whose blocks are damaged.

    What belongs to a stream that began in a damaged block, or goes on behind one, is left out: it
    does not say whose it is. Only lines of the index do.
    """

    def __init__(self, keyspace: Keyspace, items_max: int | None = None) -> None:
        super().__init__(keyspace, items_max)
        self._holes: list[_Hole] = []
        self._newest: Stream | None = None
        self._is_behind_damage = self._is_index_over = False
        self._incomplete: dict[bytes, str] = {}

    def take(self, block: Block, name: str) -> None:
        if self.item_count == self._items_max:
            return
        if block.first > self.item_count:
            self._pass_over(block, name)
        super().take(block, name)

    def _pass_over(self, block: Block, name: str) -> None:
        self.item_count = block.first
        self._is_behind_damage = True
        if self._newest is not None:
            self._incomplete[self._newest.name] = "what comes behind its first parts"
        if not self._is_index_over:
            before = list(self._extents)[-1:]
            lines = self._extents[before[0]] if before else []
            count = sum(len(item.columns[0]) // 8 for item in lines)
            behind = snapshot.first_stream(block, name)
            self._holes.append(_Hole(before[0] if before else b"", count, behind))

    def _add(self, item: snapshot.Item) -> None:
        match item:
            case snapshot.StreamItem():
                self._is_behind_damage, self._is_index_over = False, True
                super()._add(item)
                self._newest = self._stream
                return
            case snapshot.WritersItem() | snapshot.SchedulesItem():
                self._is_index_over = True
            case snapshot.KeyspaceItem() | snapshot.ExtentsItem() | snapshot.EndItem():
                pass
            case _ if self._is_behind_damage:
                self.item_count += 1
                return
        super()._add(item)

    def finish(self) -> dict[bytes, str]:
        keyspace, incomplete = self.keyspace, self._incomplete
        for name, items in self._extents.items():
            stream = Stream(name, items[0].epoch, StreamConfig(), keyspace.memory)
            for item in items:
                stream.load_extents(item.columns, item.dead, item.is_archived)
            lines = (line for log in stream.logs for line in log.extents.lines())
            stream.last_id = max(line.through for line in lines)
            stream.entries_added = stream.log.length
            keyspace.adopt(stream)
            incomplete[name] = "groups, settings and the newest entries"
        for stream in keyspace.streams.values():
            keyspace.epoch = max(keyspace.epoch, stream.epoch)
            for hole in self._holes:
                if self._note_lost(stream, hole):
                    incomplete.setdefault(stream.name, "entries on disk: their index is lost")
        return incomplete

    @staticmethod
    def _note_lost(stream: Stream, hole: _Hole) -> bool:
        is_beside = stream.name < hole.first or (hole.last is not None and stream.name > hole.last)
        if is_beside or stream.entries_added == stream.log.length:
            return False
        extents = stream.log.extents
        count = hole.line_count if stream.name == hole.first else 0
        low = extents.line(count - 1).through if count else stream.trimmed_through
        high = _first_id_behind(stream, count)
        if low.next() < high:
            stream.note_lost(low.next(), high.previous())
            return True
        return False


def _first_id_behind(stream: Stream, line_count: int) -> EntryId:
    log = stream.log
    if line_count < len(log.extents):
        return log.extents.first_id(line_count)
    hot = next((chunk.first_id for chunk in log.dump()), MAX_ID)
    return hot if hot < MAX_ID else stream.last_id.next()
