"""Images: a stream as one value, as it is dumped and restored.

What only we have is not part of an image: the configuration of the stream, the policies of its
groups, the delays of released entries. All times are unix times in milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from headgate.engine.entry import Entry, EntryId
from headgate.engine.packing import Unpacker, encode_entries


class EntriesImage(NamedTuple):
    """Neighbouring entries, packed: what a chunk keeps."""

    first_id: EntryId  # or one before it, of an entry that is gone
    last_id: EntryId  # or one behind it
    entry_count: int
    packed: bytes
    is_run: bool = False  # the ids are neighbours, and `packed` has the fields alone

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> EntriesImage:
        """Return the image of entries, at least one."""
        return cls(entries[0].id, entries[-1].id, len(entries), encode_entries(entries))


class CountersImage(NamedTuple):
    last_id: EntryId
    max_deleted_id: EntryId
    entries_added: int


class PendingImage(NamedTuple):
    id: EntryId
    consumer: int  # its owner's place among the consumers of the group; -1: nobody owns it
    delivered_at_ms: int
    delivery_count: int


class ConsumerImage(NamedTuple):
    name: bytes
    seen_at_ms: int
    active_at_ms: int | None  # None: it never got anything


class GroupImage(msgspec.Struct, frozen=True, array_like=True):
    name: bytes
    last_id: EntryId
    entries_read: int | None  # None: unknown
    consumers: list[ConsumerImage]
    pending: list[PendingImage]  # by id


class KeysImage(msgspec.Struct, frozen=True, array_like=True):
    window_ms: int
    keys_max: int
    producers: dict[bytes, list[tuple[bytes, EntryId]]]  # keys in order of use, with their entries
    added_count: int
    duplicate_count: int


class StreamImage(msgspec.Struct, frozen=True, array_like=True):
    chunks: list[EntriesImage]  # in order of their ids
    counters: CountersImage
    groups: list[GroupImage] = []
    keys: KeysImage | None = None

    @property
    def length(self) -> int:
        return sum(chunk.entry_count for chunk in self.chunks)

    @property
    def thing_count(self) -> int:
        held = sum(len(group.consumers) + len(group.pending) for group in self.groups)
        producers = () if self.keys is None else self.keys.producers.values()
        return len(self.chunks) + len(self.groups) + held + sum(map(len, producers))


def unpacked(chunks: Iterable[EntriesImage]) -> Iterator[list[Entry]]:
    """Yield the entries of each chunk. Any thread may do so."""
    unpacker = Unpacker()
    for first_id, _, _, packed, is_run in chunks:
        yield unpacker.run(packed, first_id) if is_run else unpacker.entries(packed)
