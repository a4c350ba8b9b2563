"""Keyspace: requests about all streams, by names, and about what only Redis has; dumps."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headgate.engine.entry import MIN_ID, EntryId
from headgate.engine.images import StreamImage
from headgate.engine.replies import KeyspaceInfo, NamePage, StreamDefaults, StreamInspection
from headgate.engine.requests import Request

RESERVED = b"__"
"""Prefix of the streams that hold the gateway's own state: pushes, subscriptions, keys for
signatures. No request of a client changes them."""


def is_reserved(name: bytes) -> bool:
    """Tell whether a name is one of the gateway's own."""
    return name.startswith(RESERVED)


class NameFilter(msgspec.Struct, frozen=True):
    """Names that may be shown: these, and all that begin with one of the prefixes.

    A prefix shows reserved names only if it begins with `RESERVED` itself. So the prefix `b""`
    shows all names that clients may use. A filter with neither names nor prefixes shows none.
    """

    names: frozenset[bytes] = frozenset()
    prefixes: tuple[bytes, ...] = ()

    def shows(self, name: bytes) -> bool:
        prefixes = self.prefixes
        if is_reserved(name):
            prefixes = tuple(prefix for prefix in prefixes if is_reserved(prefix))
        return name in self.names or name.startswith(prefixes)

    def covers(self, other: NameFilter) -> bool:
        """Tell whether this one shows all names that another one shows."""
        return all(map(self.shows, other.names)) and all(
            prefix.startswith(self.prefixes) for prefix in other.prefixes
        )

    def within(self, other: NameFilter | None) -> NameFilter:
        """Return a filter of the names that both show; None shows all."""
        if other is None:
            return self
        names = {
            name for name in self.names | other.names if self.shows(name) and other.shows(name)
        }
        prefixes = {
            max(mine, theirs, key=len)
            for mine in self.prefixes
            for theirs in other.prefixes
            if mine.startswith(theirs) or theirs.startswith(mine)
        }
        return NameFilter(frozenset(names), tuple(sorted(prefixes)))


UNRESERVED = NameFilter(prefixes=(b"",))
"""Shows all names but the reserved ones."""


def is_shown(name: bytes, only: NameFilter | None) -> bool:
    """Tell whether a name may be shown; None: all may, reserved ones too."""
    return only is None or only.shows(name)


class TellTime(Request[int], frozen=True):
    """Return the engine's unix time in milliseconds (TIME)."""


class DescribeKeyspace(Request[KeyspaceInfo], frozen=True):
    """Count the streams and those of them that expire (INFO keyspace)."""


class ListNames(Request[list[bytes]], frozen=True):
    """Return the names of all streams, or of those `only` shows, in byte order (KEYS)."""

    only: NameFilter | None = None


class ScanNames(Request[NamePage], frozen=True):
    """Return about `count` names of streams after a cursor (SCAN).

    The cursor is 0 for the first page, then the one that the page before returned. A stream that is
    there from the first page to the last is shown. `only` says which names are shown and counted
    (None: all); others may come and go, and change nothing.
    """

    cursor: int
    count: int
    only: NameFilter | None = None


class CountStreams(Request[int], frozen=True):
    """Return how many of the named streams exist (EXISTS). A name counts as often as it is given.

    None counts all streams (DBSIZE), or those that `only` shows. With streams given, `only` does
    not apply. A filter with more than a thousand names and prefixes is used in parts.
    """

    streams: Sequence[bytes] | None = None
    only: NameFilter | None = None


class RequireGroups(Request[None], frozen=True):
    """Raise `GroupNotFound` for the first of the streams that has no group of this name."""

    streams: Sequence[bytes]
    group: bytes


class InspectStream(Request[StreamInspection], frozen=True):
    """Describe a stream with all the facts that Redis reports (XINFO STREAM).

    With `full`, also describe its groups and consumers, and up to `count` of its entries, of the
    pending entries of each group and of each consumer (FULL). A `count` of None means all.
    StreamNotFound; ReplyTooLarge beyond `described_max` things or `size_bytes_max` bytes of
    entries.
    """

    stream: bytes
    full: bool = False
    count: int | None = None
    described_max: int = 0
    size_bytes_max: int | None = None


class GetRevisions(Request[list[bytes]], frozen=True):
    """Return a revision for each of the streams, whether it exists or not (WATCH).

    A revision changes when entries of the stream come or go, when the stream comes, goes or gets
    another name, and when its expiry changes; what happens in its groups does not count. It has no
    other meaning, and is never that of an earlier run.
    """

    streams: Sequence[bytes]


class IfUnchanged(Request[None], frozen=True):
    """Raise `StreamsChanged` unless each of the streams still has its revision (EXEC after WATCH).

    First in a transaction, it is the condition of all: if it fails, none of them is carried out.
    """

    streams: Sequence[bytes]
    revisions: Sequence[bytes]  # as many


class DeleteStreams(Request[int], frozen=True):
    """Delete streams with their groups (DEL); the reply is how many existed."""

    streams: Sequence[bytes]


class DeleteAll(Request[None], frozen=True):
    """Delete all streams (FLUSHALL)."""


class RenameStream(Request[bool], frozen=True):
    """Rename a stream (RENAME, RENAMENX); the reply is false if the new name is taken.

    With `replace`, a stream that already has the new name is deleted. Policies of its groups may
    name the streams of `reach`, or OutOfReach. StreamNotFound.
    """

    stream: bytes
    to: bytes
    replace: bool = True
    reach: NameFilter | None = None  # None: all


class ExpireStream(Request[bool], frozen=True):
    """Set when a stream expires (PEXPIRE, PEXPIREAT); the reply tells whether the time was set.

    The time is in `ttl_ms`, or the unix time `at_ms` if that is given. A time that is over deletes
    the stream at once. The conditions are those of Redis: `if_none` only if the stream has no
    expiry (NX), `if_set` only if it has one (XX), `if_later` and `if_earlier` only if the new
    expiry is later or earlier than the present one (GT, LT). StreamNotFound; Invalid if out of
    range.
    """

    stream: bytes
    ttl_ms: int
    if_none: bool = False
    if_set: bool = False
    if_later: bool = False
    if_earlier: bool = False
    at_ms: int | None = None


class PersistStream(Request[bool], frozen=True):
    """Remove the expiry of a stream (PERSIST); tells whether it had one. StreamNotFound."""

    stream: bytes


class TimeToLive(Request[int | None], frozen=True):
    """Return in how many milliseconds a stream expires (PTTL); None: never. StreamNotFound."""

    stream: bytes


class GetExpiry(Request[int | None], frozen=True):
    """Return the unix time (ms) at which a stream expires; None: never. StreamNotFound."""

    stream: bytes


class PickName(Request[bytes | None], frozen=True):
    """Return the name of some stream (RANDOMKEY), the `place`th of those shown; None: none."""

    place: int
    only: NameFilter | None = None


class SetCounters(Request[None], frozen=True):
    """Set counters (XSETID); None and `0-0` leave theirs. StreamNotFound, CounterTooLow."""

    stream: bytes
    last_id: EntryId
    entries_added: int | None = None
    max_deleted_id: EntryId = MIN_ID


class RememberKey(Request[None], frozen=True):
    """Remember an entry's key (XIDMPRECORD). StreamNotFound, EntryNotFound, IdempotencyMismatch."""

    stream: bytes
    producer: bytes
    key: bytes
    entry_id: EntryId


class GetDefaults(Request[StreamDefaults], frozen=True):
    """Return the settings of streams that have no settings of their own (CONFIG GET stream-*)."""


class ChangeDefaults(Request[None], frozen=True):
    """Change the settings of streams that have none of their own (CONFIG SET); None: unchanged."""

    node_bytes_max: int | None = None
    node_entries_max: int | None = None
    idempotency_window_ms: int | None = None
    idempotency_max: int | None = None


class DumpStream(Request[StreamImage], frozen=True):
    """Return a stream as one value (DUMP), at one moment. StreamNotFound, StreamTooLarge."""

    stream: bytes
    size_bytes_max: int


class RestoreStream(Request[None], frozen=True):
    """Make a stream of a value (RESTORE), at one moment.

    The stream that it replaces goes with all its groups. It expires in `ttl_ms` or at a moment; if
    that has passed, no stream is made. StreamExists without `replace`; LimitReached.
    """

    stream: bytes
    image: StreamImage
    replace: bool = False
    ttl_ms: int | None = None
    expires_at_ms: int | None = None  # unix time; None and no `ttl_ms`: never


class CopyStream(Request[bool], frozen=True):
    """Copy a stream with everything in it (COPY); the reply is false if `to` exists.

    With `replace`, a stream `to` that exists is deleted. Policies of its groups that are copied may
    name the streams of `reach`, or OutOfReach. StreamNotFound, StreamTooLarge, LimitReached.
    """

    stream: bytes
    to: bytes
    replace: bool = False
    reach: NameFilter | None = None  # None: all


class MeasureStream(Request[int], frozen=True):
    """Return how many bytes of memory a stream takes, about (MEMORY USAGE). StreamNotFound."""

    stream: bytes
    samples: int | None = None  # values that a server looks at, 0: all; None: as it does by default
