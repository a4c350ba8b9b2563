"""Origin: where a dead letter comes from, and why. It stands behind the fields of the entry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from headgate.engine.entry import EntryId, Fields
from headgate.engine.errors import InvalidId

_NAMES = (b"_stream", b"_id", b"_group", b"_deliveries", b"_reason")
"""The names of the fields of every origin."""

_ERROR = b"_error"
"""The name of the field behind them, where the last error is known."""


class Origin(NamedTuple):
    stream: bytes
    id: bytes
    group: bytes
    deliveries: bytes  # empty where the count was lost: it is the greatest there is
    reason: bytes
    error: bytes | None = None

    @property
    def entry_id(self) -> EntryId | None:
        """Return the id that the entry had, unless somebody has written something else there."""
        try:
            return EntryId.parse(self.id.decode("latin-1"))
        except InvalidId:
            return None

    def is_group(self, stream: bytes, group: bytes) -> bool:
        return (self.stream, self.group) == (stream, group)

    def behind(self, fields: Fields) -> Fields:
        pairs = zip(_NAMES, self[:-1], strict=True)
        origin = tuple(part for pair in pairs for part in pair)
        return fields + origin + (() if self.error is None else (_ERROR, self.error))


def origins(fields: Fields) -> Iterator[tuple[int, Origin]]:
    """Yield the origins behind the fields of an entry, the last first, each with its place.

    There are several where a dead letter died again. A client may write thousands of them, so what
    is before them is not copied for each.
    """
    end = len(fields)
    while True:
        error = None
        if end >= 2 and fields[end - 2] == _ERROR:
            error, end = fields[end - 1], end - 2
        start = end - 2 * len(_NAMES)
        if start < 0 or fields[start:end:2] != _NAMES:
            return
        stream, entry_id, group, deliveries, reason = fields[start + 1 : end : 2]
        yield start, Origin(stream, entry_id, group, deliveries, reason, error)
        end = start


def parted(fields: Fields) -> tuple[Fields, Origin | None]:
    """Return the fields that a dead letter had as an entry, and its origin; or all and None."""
    for start, origin in origins(fields):
        return fields[:start], origin
    return fields, None


def entry_of(fields: Fields, stream: bytes, group: bytes) -> tuple[EntryId, Fields] | None:
    """Return the id and fields that a dead letter of a group had as an entry; None for others."""
    own, origin = parted(fields)
    if origin is None or not origin.is_group(stream, group) or not own:
        return None
    entry_id = origin.entry_id
    return None if entry_id is None else (entry_id, own)
