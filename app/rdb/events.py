"""The contents of an RDB file as events, in file order.

A stream is a `StreamBegin`, any number of `StreamEntries`, one `StreamCounters`, its groups as
`GroupImage`, its idempotency keys as `KeysImage` if it has any or has settings for them, and a
`StreamEnd`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from headgate.app.rdb.source import StreamType
from headgate.engine.entry import Entry, EntryId
from headgate.engine.images import CountersImage, GroupImage, KeysImage


class FileBegin(NamedTuple):
    version: int
    is_valkey: bool  # written by Valkey 9 or later, whose types differ


class AuxField(NamedTuple):
    name: bytes
    value: bytes


class StreamBegin(NamedTuple):
    name: bytes
    database: int
    expires_at_ms: int | None  # unix time; None: never
    type: StreamType
    node_count: int  # nodes of entries that follow
    offset: int  # where they begin


class StreamEntries(NamedTuple):
    """At least one entry of the stream; ids ascend from event to event."""

    entries: list[Entry]


class StreamCounters(NamedTuple):
    """The counters of a stream, which follow its entries."""

    length: int
    first_id: EntryId  # `0-0` if it is empty
    counters: CountersImage
    offset: int  # where the groups begin


class StreamEnd(NamedTuple):
    name: bytes


class OtherKey(NamedTuple):
    """A key that is not a stream. Its value was skipped."""

    name: bytes
    database: int
    type: str  # as the command TYPE says it


class FileEnd(NamedTuple):
    key_counts: Mapping[str, int]  # by type
    size_bytes: int
    has_checksum: bool  # it was right; false: the server was told to write none


StreamPart = StreamBegin | StreamEntries | StreamCounters | GroupImage | KeysImage | StreamEnd
Event = FileBegin | AuxField | StreamPart | OtherKey | FileEnd
