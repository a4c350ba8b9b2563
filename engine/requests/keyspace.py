"""Keyspace: what Redis commands ask of all streams, and of what only Redis knows."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.replies import KeyspaceInfo, NamePage, StreamDefaults, StreamInspection
from headgate.engine.requests import Request


class TellTime(Request[int], frozen=True):
    """Return the engine's unix time in milliseconds (TIME)."""


class DescribeKeyspace(Request[KeyspaceInfo], frozen=True):
    """Count streams, and those that expire (INFO keyspace)."""


class ListNames(Request[list[bytes]], frozen=True):
    """Return the names of all streams, in byte order (KEYS)."""


class ScanNames(Request[NamePage], frozen=True):
    """Return `count` names of streams behind a cursor, which counts them in byte order (SCAN)."""

    cursor: int
    count: int


class CountStreams(Request[int], frozen=True):
    """Return how many of the streams are there, each as often as it is named (EXISTS).

    None: how many streams there are (DBSIZE).
    """

    streams: Sequence[bytes] | None = None


class RequireGroups(Request[None], frozen=True):
    """Raise `GroupNotFound` for the first of the streams that has no such group."""

    streams: Sequence[bytes]
    group: bytes


class InspectStream(Request[StreamInspection], frozen=True):
    """Describe a stream with everything that Redis says of it (XINFO STREAM).

    With `full`, also up to `count` of its entries, groups and pending entries (None: all), and
    everything below them (FULL).

    Raises:
        StreamNotFound: there is none.
        ReplyTooLarge: there are more than `described_max` things to describe, or the entries have
            more than `size_bytes_max`.
    """

    stream: bytes
    full: bool = False
    count: int | None = None
    described_max: int = 0
    size_bytes_max: int | None = None


class DeleteStreams(Request[int], frozen=True):
    """Delete streams with their groups (DEL); replies how many were there."""

    streams: Sequence[bytes]


class DeleteAll(Request[None], frozen=True):
    """Delete all streams (FLUSHALL)."""


class RenameStream(Request[None], frozen=True):
    """Give a stream another name; a stream that has it goes (RENAME).

    Raises:
        StreamNotFound: there is none of the first name.
    """

    stream: bytes
    to: bytes


class ExpireStream(Request[bool], frozen=True):
    """Let a stream go after a time, at once if it is 0 or less (PEXPIRE); tells whether it will.

    The conditions of Redis: `if_none` only if no time is set (NX), `if_set` only if one is (XX),
    `if_later` and `if_earlier` only if that changes it so (GT, LT).

    Raises:
        StreamNotFound: there is none.
        Invalid: the time is out of range.
    """

    stream: bytes
    ttl_ms: int
    if_none: bool = False
    if_set: bool = False
    if_later: bool = False
    if_earlier: bool = False


class PersistStream(Request[bool], frozen=True):
    """Let a stream stay that would have gone after a time (PERSIST); tells whether it would.

    Raises:
        StreamNotFound: there is none.
    """

    stream: bytes


class TimeToLive(Request[int | None], frozen=True):
    """Return how long a stream stays, in milliseconds (PTTL); None: without end.

    Raises:
        StreamNotFound: there is none.
    """

    stream: bytes


class SetCounters(Request[None], frozen=True):
    """Set a stream's counters (XSETID).

    `entries_added` None leaves them, and so does a `max_deleted_id` of `0-0`.

    Raises:
        StreamNotFound: there is none.
        CounterTooLow: the counters would contradict each other or the entries.
    """

    stream: bytes
    last_id: EntryId
    entries_added: int | None = None
    max_deleted_id: EntryId = MIN_ID


class RememberKey(Request[None], frozen=True):
    """Remember that an entry was appended under an idempotency key (XIDMPRECORD).

    Raises:
        StreamNotFound: there is none.
        EntryNotFound: the stream has no such entry.
        IdempotencyMismatch: the key stands for another entry.
    """

    stream: bytes
    producer: bytes
    key: bytes
    entry_id: EntryId


class GetDefaults(Request[StreamDefaults], frozen=True):
    """Return what holds for streams that say nothing themselves (CONFIG GET stream-*)."""


class ChangeDefaults(Request[None], frozen=True):
    """Change what holds for streams that say nothing themselves (CONFIG SET stream-*).

    None leaves a value as it is.
    """

    node_bytes_max: int | None = None
    node_entries_max: int | None = None
    idempotency_window_ms: int | None = None
    idempotency_max: int | None = None
