"""Packed drafts: a long batch is packed into chunks before its ids are known.

Packing a million entries takes a second, and an append must not hold the event loop that long. So
everything that does not depend on ids is done before, in small steps. The append only says which
ids the chunks have. The chunks belong to the batch alone: the stream's last chunk does not go on in
them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, groupby
from typing import Generic, NamedTuple, TypeVar, overload

from headgate.engine.entry import (
    Draft,
    Entry,
    EntryId,
    PartialId,
    check_fields,
    size_in_chunk,
    size_of,
    sizes_of,
)
from headgate.engine.errors import EntryTooLarge, IdNotGreater
from headgate.engine.limits import (
    CHUNK_PARTS_MIN,
    CHUNKS_AT_ONCE_MAX,
    ENTRY_BYTES_MAX,
    PACKED_AT_ONCE_MAX,
    PACKED_BYTES_MIN,
    PACKED_COUNT_MIN,
    PACKED_PARTS_MIN,
)
from headgate.engine.packing import EncodedDrafts, pack_entries, pack_fields
from headgate.engine.state.chunk import Chunk

E = TypeVar("E", Entry, Draft)


class Run(NamedTuple, Generic[E]):
    entries: Sequence[E]
    size_bytes: int


class NodeLimits(NamedTuple):
    """When a chunk is full (stream-node-max-entries, stream-node-max-bytes); 0 is no limit."""

    entries_max: int
    size_bytes_max: int

    def within(self, entries_max: int, size_bytes_max: int) -> NodeLimits:
        return NodeLimits(
            min(self.entries_max or entries_max, entries_max),
            min(self.size_bytes_max or size_bytes_max, size_bytes_max),
        )

    def runs(self, last: Chunk | None, entries: Sequence[E]) -> list[Run[E]]:
        """Split entries as they will be laid into chunks (Redis: XADD).

        The first run goes into `last`, the newest chunk, and is empty if that takes nothing more.
        Each other run makes a chunk of its own.
        """
        sizes = _sizes_in_chunk(entries)
        held = last if last is not None and last.is_open else None
        if held is not None and self._admit(held, len(entries), sum(sizes)):
            return [Run(entries, sum(sizes))]
        ends = list(accumulate(sizes, initial=0))
        at = 0 if held is None else self._fitting(held.count, held.size_bytes, ends, 0)
        runs = [Run(entries[:at], ends[at])]
        for end in self.chunk_ends(ends, at):
            runs.append(Run(entries[at:end], ends[end] - ends[at]))
            at = end
        return runs

    def chunk_ends(self, ends: Sequence[int], at: int = 0) -> Iterator[int]:
        """Yield where each chunk ends; `ends` is 0 and the running sum of sizes in a chunk."""
        while at < len(ends) - 1:
            at = max(self._fitting(0, 0, ends, at), at + 1)  # Redis: a new node takes any entry
            yield at

    def is_full(self, chunk: Chunk) -> bool:
        return not self._admit(chunk, 1, 0)

    def _admit(self, chunk: Chunk, count: int, size_bytes: int) -> bool:
        if 0 < self.entries_max < chunk.count + count:
            return False
        return not 0 < self.size_bytes_max <= chunk.size_bytes + size_bytes

    def _fitting(self, held: int, held_bytes: int, ends: Sequence[int], at: int) -> int:
        end = len(ends) - 1
        if self.entries_max > 0:
            end = min(end, max(at + self.entries_max - held, at))
        if self.size_bytes_max > 0:
            too_much = ends[at] + self.size_bytes_max - held_bytes
            end = bisect_left(ends, too_much, at + 1, end + 1) - 1
        return end


def _sizes_in_chunk(entries: Sequence[E]) -> list[int]:
    many = [entry.fields for entry in entries]
    if len(many) == 1 or max(map(len, many), default=0) >= CHUNK_PARTS_MIN:
        return list(map(size_in_chunk, many))
    return sizes_of(many)


class Packed(NamedTuple):
    entry_count: int
    data: bytes
    bounds: tuple[EntryId, EntryId] | None  # first and last id; None: the stream gives neighbours


class PackedDrafts(Sequence[Draft]):
    __slots__ = ("chunks", "drafts")

    def __init__(self, drafts: Sequence[Draft], chunks: list[Packed]) -> None:
        self.drafts = drafts
        self.chunks = chunks

    def __len__(self) -> int:
        return len(self.drafts)

    @overload
    def __getitem__(self, index: int) -> Draft: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Draft]: ...
    def __getitem__(self, index: int | slice) -> Draft | Sequence[Draft]:
        return self.drafts[index]


class HasPartialIds(Exception):
    """Drafts cannot be packed: which ids they get depends on those before them."""


def is_worth_packing(drafts: Sequence[Draft]) -> bool:
    if len(drafts) < 2:
        return False
    if len(drafts) >= PACKED_COUNT_MIN:
        return True
    many = [draft.fields for draft in drafts]
    if sum(map(len, many)) >= PACKED_PARTS_MIN:
        return True
    return sum(map(len, chain.from_iterable(many))) >= PACKED_BYTES_MIN


def pack(drafts: Sequence[Draft], limits: NodeLimits) -> Iterator[list[Packed]]:
    """Yield the chunks of drafts, some at a time; Invalid, IdNotGreater or HasPartialIds."""
    if isinstance(drafts, EncodedDrafts):
        yield from _cut(drafts, limits)
        return
    first = 0
    for part in _parts(drafts):
        _check(drafts, first, first + len(part))
        yield [
            _packed(run.entries, is_explicit=is_explicit)
            for is_explicit, neighbours in groupby(part, lambda draft: draft.id is not None)
            for run in limits.runs(None, [*neighbours])[1:]
        ]
        first += len(part)


def _cut(drafts: EncodedDrafts, limits: NodeLimits) -> Iterator[list[Packed]]:
    chunks: list[Packed] = []
    begin = low = 0
    for end in limits.within(PACKED_AT_ONCE_MAX, PACKED_BYTES_MIN).chunk_ends(drafts.size_ends):
        if drafts.size_ends[end] - drafts.size_ends[low] > ENTRY_BYTES_MAX:  # then it is one entry
            raise EntryTooLarge(ENTRY_BYTES_MAX, location=("drafts", low, "fields"))
        chunks.append(Packed(end - low, drafts.packed(low, end), None))
        low = end
        size_bytes = drafts.size_ends[end] - drafts.size_ends[begin]
        if len(chunks) == CHUNKS_AT_ONCE_MAX or size_bytes >= PACKED_BYTES_MIN:
            yield chunks
            chunks, begin = [], end
    yield chunks


def _parts(drafts: Sequence[Draft]) -> Iterator[Sequence[Draft]]:
    low, size_bytes, parts = 0, 0, 0
    for at, draft in enumerate(drafts):
        size_bytes += size_of(draft.fields)
        parts += len(draft.fields)
        is_large = size_bytes >= PACKED_BYTES_MIN or parts >= PACKED_PARTS_MIN
        if at + 1 - low == PACKED_AT_ONCE_MAX or is_large:
            yield drafts[low : at + 1]
            low, size_bytes, parts = at + 1, 0, 0
    if low < len(drafts):
        yield drafts[low:]


def _check(drafts: Sequence[Draft], low: int, high: int) -> None:
    before = drafts[low - 1].id if low else None
    for index in range(low, high):
        wanted, fields, _ = drafts[index]
        if isinstance(wanted, PartialId):
            raise HasPartialIds
        check_fields(fields, index)
        if isinstance(wanted, EntryId) and isinstance(before, EntryId) and wanted <= before:
            raise IdNotGreater(wanted, last_id=before, index=index)
        before = wanted


def _packed(drafts: Sequence[Draft], *, is_explicit: bool) -> Packed:
    if not is_explicit:
        return Packed(len(drafts), pack_fields([draft.fields for draft in drafts]), None)
    entries = [Entry(draft.id, draft.fields) for draft in drafts if isinstance(draft.id, EntryId)]
    return Packed(len(entries), pack_entries(entries), (entries[0].id, entries[-1].id))
