"""Names: the files of a data directory by name. Numbers in names have 20 digits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

UNFINISHED = ".new"
"""The end of the name of a file that is not complete, so nobody reads it."""

_JOURNAL = "journal-"
_SNAPSHOT = "snapshot-"
_EXTENTS = "extents-"
_DIGITS = 20


def journal_name(first: int) -> str:
    return f"{_JOURNAL}{first:0{_DIGITS}}"


def snapshot_name(position: int) -> str:
    return f"{_SNAPSHOT}{position:0{_DIGITS}}"


def extents_name(number: int) -> str:
    return f"{_EXTENTS}{number:0{_DIGITS}}"


def is_segment(name: str) -> bool:
    return name.startswith(_JOURNAL)


def is_finished(name: str) -> bool:
    return any(_number(name, prefix) is not None for prefix in (_JOURNAL, _SNAPSHOT, _EXTENTS))


def is_unfinished(name: str) -> bool:
    return name.endswith(UNFINISHED) and name.startswith((_SNAPSHOT, _EXTENTS))


def position_of(name: str) -> int:
    """Return the record that a name has: the first of a segment, the last of a snapshot."""
    return _number(name, _JOURNAL if is_segment(name) else _SNAPSHOT) or 0


def is_extents(name: str) -> bool:
    return extents_number(name) is not None


def extents_number(name: str) -> int | None:
    return _number(name, _EXTENTS)


class FilesInUse(NamedTuple):
    snapshot: str | None  # the newest
    extents: Sequence[str]
    segments: Sequence[str]  # with records behind the snapshot

    def __contains__(self, name: object) -> bool:
        return name in self.in_order

    @property
    def in_order(self) -> list[str]:
        return [*([] if self.snapshot is None else [self.snapshot]), *self.extents, *self.segments]


def in_use(names: Sequence[str]) -> FilesInUse:
    snapshots = [name for name in names if _number(name, _SNAPSHOT) is not None]
    segments = [name for name in names if _number(name, _JOURNAL) is not None]
    newest = snapshots[-1] if snapshots else None
    position = 0 if newest is None else position_of(newest)
    # A segment ends where the next one begins.
    behind = [
        name
        for index, name in enumerate(segments)
        if index + 1 == len(segments) or position_of(segments[index + 1]) > position + 1
    ]
    extents = [name for name in names if extents_number(name) is not None]
    return FilesInUse(newest, extents if snapshots else [], behind)


def _number(name: str, prefix: str) -> int | None:
    digits = name.removeprefix(prefix)
    is_numbered = name.startswith(prefix) and len(digits) == _DIGITS and digits.isdecimal()
    return int(digits) if is_numbered else None
