"""Memory: what the state takes, estimated as it changes.

The memory of the process is no measure for a bound, because the allocator gives freed memory back
late. So each thing is counted at the cost that was measured on a 64-bit CPython; the sum is right
within a fifth.

When memory is full, appends are refused, and so is every other change that takes memory for good.
Reads, acknowledgements, trims and deletes go on. What readers add goes on up to a slack above the
bound: pending entries, consumers, the errors of nacks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple, Protocol

import msgspec

STREAM_BYTES = 900
GROUP_BYTES = 1_500
CONSUMERS_BYTES = 4_000  # of a group, once it has a consumer, besides what follows
CONSUMER_BYTES = 750
PENDING_BYTES = 340
TURN_BYTES = 150  # of a pending entry whose key has turns
QUEUE_BYTES = 600  # of a key with more than one of these
AHEAD_BYTES = 17  # of an entry that is indexed by key
AHEAD_KEY_BYTES = 330  # of such a key
ROW_BYTES = 17  # of a table, besides its key
ROWS_BLOCK_BYTES = 450  # of neighbouring rows
DELETED_KEY_BYTES = 200  # of a deleted entry that no table has indexed, besides its key
TIMES_BYTES = 330  # of an entry with times
DEADLINE_BYTES = 110  # of those that expire
ERROR_BYTES = 140  # of a pending entry, besides its length
CHUNK_BYTES = 150  # besides what is in it
ENTRY_BYTES = 150  # in an open chunk, besides its parts
PART_BYTES = 41  # a name or a value, besides its length
KEY_BYTES = 300  # an idempotency key, besides its length
PRODUCER_BYTES = 400
SCHEDULE_BYTES = 1_800  # besides its fields
LINE_BYTES = 96  # of the index of extents


SLACK = 8
"""An eighth of the bound is kept for what readers add."""

FREEZABLE_SHARE = 3
"""A third of the bound is for entries that could leave memory."""


class WhenFull(StrEnum):
    """The treatment of an append when memory is full (Redis: maxmemory-policy)."""

    REFUSE = "refuse"
    TRIM_OLDEST = "trim_oldest"  # the oldest entries go, whichever stream they are in


class MemoryBounds(NamedTuple):
    size_bytes_max: int | None = None  # None: no bound
    when_full: WhenFull = WhenFull.REFUSE

    def is_full(self, size_bytes: int) -> bool:
        return self.size_bytes_max is not None and size_bytes > self.size_bytes_max

    def may_be_tight(self, size_bytes: int) -> bool:
        return self.size_bytes_max is not None and size_bytes > self._freezable_bytes_max

    def is_tight(self, size_bytes: int, freezable_bytes: int) -> bool:
        """Tell whether whoever adds has to wait until something has left memory.

        A rewrite has a copy of what it freezes, so `freezable_bytes` is bounded as well.
        """
        limit_bytes = self.size_bytes_max
        if limit_bytes is None or not freezable_bytes:
            return False
        is_nearly_full = size_bytes > limit_bytes - limit_bytes // SLACK
        return is_nearly_full or freezable_bytes > self._freezable_bytes_max

    @property
    def _freezable_bytes_max(self) -> int:
        return (self.size_bytes_max or 0) // FREEZABLE_SHARE

    def is_beyond(self, size_bytes: int) -> bool:
        """Tell whether not even deliveries may become pending."""
        limit_bytes = self.size_bytes_max
        return limit_bytes is not None and size_bytes > limit_bytes + limit_bytes // SLACK


class ExtentPlace(NamedTuple):
    file: int
    offset: int
    size_bytes: int


class OpenedExtents(Protocol):
    def find(self, place: ExtentPlace) -> object | None: ...


class _NoExtents:
    def find(self, place: ExtentPlace) -> object | None:  # noqa: ARG002
        return None


class Memory(msgspec.Struct):
    streams_bytes: int = 0
    entries_bytes: int = 0
    groups_bytes: int = 0  # with their consumers
    pending_bytes: int = 0
    keys_bytes: int = 0
    schedules_bytes: int = 0
    tables_bytes: int = 0
    index_bytes: int = 0  # of what is cold
    held_bytes: int = 0  # of chunks that have gone and are still read: no part of the state
    cold_bytes: int = 0  # of live entries on disk alone, about: no memory
    past_count: int = 0  # changes of rows that are kept for those who walk: no part of the state
    has_turns: bool = False  # some group has bounded the entries of a key
    extents: OpenedExtents = _NoExtents()
    files: Counter[int] = msgspec.field(default_factory=Counter)  # lines and readers of each file

    @property
    def data_bytes(self) -> int:
        return self.entries_bytes + self.cold_bytes

    @property
    def size_bytes(self) -> int:
        return (
            self.streams_bytes
            + self.entries_bytes
            + self.groups_bytes
            + self.pending_bytes
            + self.keys_bytes
            + self.schedules_bytes
            + self.tables_bytes
            + self.index_bytes
        )


# Dismantling: a large value is freed in small steps, by whoever has the time.
#
# Freeing a million objects takes a fifth of a second. When the last reference goes, the interpreter
# frees them all in one go.

Pieces = Iterator[None]
"""Frees some objects at each step, and everything by the end."""


def free(pieces: Pieces) -> None:
    for _ in pieces:
        pass
