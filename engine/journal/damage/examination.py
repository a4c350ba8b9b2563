"""Damage: a search for it in all extent files, and their sizes.

Nobody needs this to go on: what is damaged is found when it is read. An operator asks before that.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from headgate.engine.journal.disk import Disk
from headgate.engine.journal.extents import files as extent_files
from headgate.engine.journal.names import extents_name
from headgate.engine.journal.recovery import Progress, no_progress
from headgate.engine.state.extents.line import Line
from headgate.engine.state.extents.missing import Damaged
from headgate.engine.state.extents.opened import OpenedExtent
from headgate.engine.state.keyspace import Keyspace
from headgate.engine.state.memory import ExtentPlace
from headgate.engine.state.stream import Stream

_STEP_BYTES = 8 * 2**20
"""So much is read between two reports of progress."""


class ColdFiles(NamedTuple):
    """The extent files that an index names."""

    file_count: int
    size_bytes: int  # of those that are there
    live_bytes: int  # about
    dead_bytes: int


def cold_files(disk: Disk, keyspace: Keyspace) -> ColdFiles:
    """Count the extent files that a state names."""
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
    """Read all extents of a state, and yield the damaged ones.

    It reads file by file, from the beginning of each. Streams that were copied share extents.
    """
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
    """Return lines of one file with their streams, as they lie there."""
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
