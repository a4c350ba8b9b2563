"""Log: the entries of one stream as an ordered index of chunks. The role of Redis's radix tree.

A log is its *extents*, whose entries are on disk alone, and then its *hot* chunks, in order of
their ids. Together they are its *nodes*: a method goes node by node, and looks into an extent only
where a line of the index does not say enough. Then it raises `Missing` if the extent is not in
memory.

A chunk is found by bisecting first ids. Only the last chunk is open. A chunk without live entries
is dropped at once, so the first and the last chunk always hold the first and the last live entry.

Trimming is split in two: a *cut* says which prefix would go and changes nothing (exact, or by whole
chunks), and `trim_through` removes a prefix. A cut looks at a bounded number of chunks: where that
is not enough, it is the first part of what would go.

What is trimmed may go to another log, the *archive*. Nodes go as they are. Of a node that is cut,
each log has all positions, and what is alive in one of them is dead in the other.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from operator import attrgetter
from typing import NamedTuple

from headgate.engine.entry import MIN_ID, Entry, EntryId
from headgate.engine.limits import (
    CUT_CHUNKS_MAX,
    FREED_AT_ONCE_MAX,
    RANGE_CHUNKS_MAX,
    RANGE_REPACKED_MAX,
    TRANSACTION_COST_MAX,
)
from headgate.engine.packing import encode_entries, unpacked_bytes
from headgate.engine.replies import PackedEntries
from headgate.engine.room import ReadRoom
from headgate.engine.state.chunk import Chunk, ChunkState
from headgate.engine.state.entries.batch import Batch, Wanted
from headgate.engine.state.entries.packed import NodeLimits
from headgate.engine.state.entries.view import LogView
from headgate.engine.state.extent import Covered, Line, Missing
from headgate.engine.state.extent_index import Extents
from headgate.engine.state.memory import Memory, Pieces

_first_id_of, _last_id_of = attrgetter("first_id"), attrgetter("last_id")

_ASKED_MAX = 1_000
"""Lines that are looked at to ask for what a range needs."""

ENTRY_COST = 3
"""Microseconds that it takes to return an entry, about."""


class Cut(NamedTuple):
    """A prefix of the log: everything up to and including `through`, `length` live entries."""

    through: EntryId
    length: int
    is_whole: bool = True  # false: it ends with the last chunk that was looked at


class Log:
    __slots__ = (
        "_chunks",
        "_first_id",
        "_firsts",
        "_held_bytes",
        "_memory",
        "_view_count",
        "extents",
        "length",
        "memory_bytes",
    )

    def __init__(self, memory: Memory | None = None, name: bytes = b"") -> None:
        self._memory = memory or Memory()
        self.memory_bytes = 0  # what the hot entries take, about
        self.extents = Extents(self._memory, name)
        self._chunks: list[Chunk] = []
        self._firsts: list[EntryId] = []  # first id of each chunk, dead or alive
        # Of the first live entry that is hot; None: to be looked up.
        self._first_id: EntryId | None = None
        self.length = 0  # live entries
        self._view_count = 0
        self._held_bytes = 0  # of chunks that only views hold

    @property
    def chunk_count(self) -> int:
        """Return how many chunks there are (Redis: radix-tree-keys)."""
        return len(self._chunks) + self.extents.chunk_count

    @property
    def first_id(self) -> EntryId:
        """Return the id of the first live entry, `0-0` if there is none."""
        if self.extents:
            return self.extents.first_id(0)
        if not self._chunks:
            return MIN_ID
        if self._first_id is None:
            self._first_id = self._chunks[0].first_live_id()
        return self._first_id

    @property
    def last_id(self) -> EntryId:
        """Return the id of the last live entry, `0-0` if there is none."""
        if not self._chunks:
            return self.extents.last_id(len(self.extents) - 1) if self.extents else MIN_ID
        chunk = self._chunks[-1]
        # The bounds of a sealed chunk may be those of dead entries that a repack has dropped.
        is_last_live = chunk.is_open and not chunk.tombstones
        return chunk.last_id if is_last_live else chunk.last_live_id()

    def last_id_through(self, through: EntryId) -> EntryId:
        for index in range(self._node_at(through), -1, -1):
            node = self._node(index)
            if isinstance(node, Line) and node.last_id <= through:
                return node.last_id
            for chunk in reversed(self._chunks_in(index)):
                if chunk.last_id <= through:
                    return chunk.last_live_id()
                if ids := chunk.ids_between(MIN_ID, through):
                    return ids[-1]
        return MIN_ID

    def dismantle(self) -> Pieces:
        self.extents.release()
        while self._chunks:
            del self._chunks[-FREED_AT_ONCE_MAX:], self._firsts[-FREED_AT_ONCE_MAX:]
            yield

    def dump(self) -> Iterator[ChunkState]:
        return (chunk.dump() for chunk in self._chunks)

    def load_extents(self, columns: Sequence[bytes], dead: Sequence[tuple[int, bytes]]) -> None:
        before = len(self.extents)
        self.extents.load(columns, dead)
        self.length += self.extents.live_in(before, len(self.extents))

    def copy_from(self, source: Log) -> None:
        self.extents.extend(source.extents.lines())
        self.length += self.extents.live_in(0, len(self.extents))
        for state in source.dump():
            self.load(state)

    def load(self, state: ChunkState) -> None:
        chunk = Chunk.load(state)
        self._chunks.append(chunk)
        self._firsts.append(chunk.first_id)
        self.length += chunk.live_count
        self._grow(chunk.memory_bytes)

    def note_shared(self, archive: Log) -> None:
        """Note that the archive has the newest chunk as well, if it has."""
        chunk = self._chunks[-1]
        at = bisect_left(archive._firsts, chunk.first_id)
        if at < len(archive._firsts) and archive._firsts[at] == chunk.first_id:
            chunk.is_shared = archive._chunks[at].is_shared = True

    def view(
        self, start: EntryId, end: EntryId, limit: int | None = None, *, reverse: bool = False
    ) -> LogView:
        """Return a range as it is now, both ends inclusive, to be read page by page."""
        low = max(bisect_right(self._firsts, start) - 1, 0)
        high = bisect_right(self._firsts, end)
        chunks, newest = self._chunks[low:high], list[Entry]()
        if chunks and chunks[-1].is_open:
            newest = chunks.pop().between(start, end)
        count = self.count(start.previous() if start > MIN_ID else MIN_ID, end)
        count = count if limit is None else min(count, limit)
        first = self.extents.ending_below(start)
        cold = self.extents.part(first, max(self.extents.below(end), first))
        self._view_count += 1
        held = cold, chunks, newest
        on_close = partial(self._forget_view, cold)
        return LogView(held, (start, end), count, on_close, reverse=reverse)

    def _forget_view(self, cold: Extents) -> None:
        cold.close(self._memory)
        self._view_count -= 1
        if not self._view_count:
            self._memory.held_bytes -= self._held_bytes
            self._held_bytes = 0

    def _hold(self, size_bytes: int) -> None:
        """Take account of what is no part of the log any more, and stays for its views."""
        if self._view_count:
            self._held_bytes += size_bytes
            self._memory.held_bytes += size_bytes

    def leave(self) -> None:
        self._hold(self.memory_bytes)
        self._memory.entries_bytes -= self.memory_bytes
        self.extents.leave()

    def _to_change(self, index: int) -> Chunk:
        """Return a chunk that may be changed: views keep it as it is."""
        chunk = self._chunks[index]
        if self._view_count and not chunk.is_open:
            self._hold(chunk.memory_bytes)
            chunk = self._chunks[index] = chunk.clone()
        return chunk

    def _grow(self, size_bytes: int) -> None:
        self.memory_bytes += size_bytes
        self._memory.entries_bytes += size_bytes

    def extend(self, entries: Sequence[Entry], limits: NodeLimits) -> None:
        """Add entries, in order, whose ids are above all ids ever held."""
        last = self._chunks[-1] if self._chunks else None
        first, *others = limits.runs(last, entries)
        if last is not None and first.entries:
            self._grow(last.extend(*first))
        for run in others:
            self._grow(self._new_chunk(run.entries[0].id).extend(*run))
        self.length += len(entries)

    def attach(self, chunks: Sequence[Chunk]) -> None:
        if not self._chunks:
            self._first_id = chunks[0].first_id
        elif self._chunks[-1].is_open:
            self._grow(self._chunks[-1].seal())
        self._grow(sum(chunk.memory_bytes for chunk in chunks))
        self._chunks += chunks
        self._firsts += [chunk.first_id for chunk in chunks]
        self.length += sum(chunk.count for chunk in chunks)

    def free_above(self, last_id: EntryId) -> None:
        """Let ids above `last_id` come again, which is not below a live entry."""
        if self._chunks and self._chunks[-1].last_id > last_id:
            self._grow(self._chunks[-1].close())

    @property
    def sealed(self) -> Sequence[Chunk]:
        """Return the hot chunks that do not grow any more. Not to be changed."""
        return self._chunks if self.growing is None else self._chunks[:-1]

    def sealed_below(self, growing: Chunk | None) -> Sequence[Chunk]:
        """Return an archive's hot chunks, but for the growing one's; sealed, if once open."""
        if growing is not None and self._firsts and self._firsts[-1] == growing.first_id:
            chunks = self._chunks[:-1]
        else:
            chunks = self._chunks
        for chunk in chunks:
            if chunk.is_open:
                self._grow(chunk.seal())
        return chunks

    @property
    def growing(self) -> Chunk | None:
        return self._chunks[-1] if self._chunks and self._chunks[-1].is_open else None

    def seal(self) -> None:
        self._grow(self._chunks[-1].seal())

    def covered(self, line: Line) -> Covered | None:
        low, high = self.extents.ending_below(line.first_id), self.extents.below(line.last_id)
        hot = self._chunks[: bisect_right(self._firsts, line.last_id)]
        if hot and (hot[0].last_id < line.first_id or hot[-1].is_open):
            return None
        return Covered(low, [self.extents.line(at) for at in range(low, high)], hot)

    def chunks_of(self, covered: Covered) -> list[Chunk]:
        """Return the chunks of what a line is to stand for; Missing if not all are in memory."""
        places = range(covered.low, covered.low + len(covered.lines))
        return [*(chunk for at in places for chunk in self.extents.chunks(at)), *covered.hot]

    def adopt(self, covered: Covered, line: Line) -> None:
        if covered.lines:
            self.extents.replace(covered.low, covered.low + len(covered.lines), line)
        else:
            self.extents.append(line)
        self._thin_out(len(covered.hot))

    def freeze(self, chunk_count: int, line: Line) -> None:
        """Let an extent stand for the oldest hot chunks, which lie in its file by now."""
        self.extents.append(line)
        self._thin_out(chunk_count)

    def _thin_out(self, chunk_count: int) -> None:
        dropped_bytes = sum(chunk.memory_bytes for chunk in self._chunks[:chunk_count])
        self._hold(dropped_bytes)
        self._grow(-dropped_bytes)
        del self._chunks[:chunk_count], self._firsts[:chunk_count]
        self._first_id = None

    def get(self, entry_id: EntryId) -> Entry | None:
        chunk = self.chunk_of(entry_id)
        position = None if chunk is None else chunk.position(entry_id)
        return None if chunk is None or position is None else chunk.entries()[position]

    def has(self, entry_id: EntryId) -> bool:
        """Tell whether an entry of that id is alive. A large one is not unpacked for this."""
        chunk = self.chunk_of(entry_id)
        return chunk is not None and chunk.position(entry_id) is not None

    def chunk_of(self, entry_id: EntryId) -> Chunk | None:
        index = bisect_right(self._firsts, entry_id) - 1
        if index >= 0:
            chunk = self._chunks[index]
            return None if entry_id > chunk.last_id else chunk
        extent = self._extent_of(entry_id)
        if extent is None:
            return None
        chunks = self.extents.chunks(extent)
        at = bisect_right(chunks, entry_id, key=_first_id_of) - 1
        return chunks[at] if at >= 0 and entry_id <= chunks[at].last_id else None

    def _extent_of(self, entry_id: EntryId) -> int | None:
        extents = self.extents
        if not extents or (self._firsts and self._firsts[0] <= entry_id):
            return None
        index = extents.below(entry_id) - 1
        return None if index < 0 or entry_id > extents.last_id(index) else index

    def first(self) -> Entry | None:
        if self.extents:
            return self.extents.chunks(0)[0].first_live()
        return self._chunks[0].first_live() if self._chunks else None

    def last(self) -> Entry | None:
        if self._chunks:
            return self._chunks[-1].last_live()
        return self.extents.chunks(len(self.extents) - 1)[-1].last_live() if self.extents else None

    def range(
        self, start: EntryId, end: EntryId, limit: int | None = None, room: ReadRoom | None = None
    ) -> list[Entry]:
        """Return entries from `start` to `end`, both inclusive, lowest id first.

        What they take is taken from `room` (None: no bound); the first one comes whatever its size.
        """
        batch = Batch(limit, room or ReadRoom(None))
        self.require_range(start, end, limit, room)
        for chunk in self._chunks_from(start):
            if chunk.first_id > end or not batch.take(chunk.between(start, end)):
                break
        return batch.entries

    def ids(self, start: EntryId, end: EntryId) -> list[EntryId]:
        ids: list[EntryId] = []
        self.require_range(start, end, None, None)
        for chunk in self._chunks_from(start):
            if chunk.first_id > end:
                break
            ids += chunk.ids_between(start, end)
        return ids

    def packed_range(
        self, start: EntryId, end: EntryId, limit: int, size_bytes_max: int
    ) -> tuple[list[PackedEntries], EntryId]:
        """Return entries from `start` to `end`, both inclusive, packed, and up to which id they go.

        Chunks that are wanted as a whole come as they are. What is wanted of others is packed here,
        so fewer of them come at once. `size_bytes_max` is for unpacked entries; the first chunk
        comes whatever its size.
        """
        runs: list[PackedEntries] = []
        self.require_range(start, end, limit, ReadRoom(size_bytes_max))
        through, repacked_left = start, RANGE_REPACKED_MAX
        for chunk in islice(_while_there(self._chunks_from(start)), RANGE_CHUNKS_MAX):
            if not limit or not repacked_left or size_bytes_max < 0:
                return runs, through
            if chunk.first_id > end:
                return runs, end
            run = chunk.packed_within(start, end, limit)
            through = min(end, chunk.last_id)
            if run is None:
                entries = chunk.between(start, end)
                repacked_max = min(limit, repacked_left)
                if not entries:
                    continue
                if len(entries) > repacked_max:
                    del entries[repacked_max:]
                    through = entries[-1].id
                run = PackedEntries(len(entries), encode_entries(entries), None)
                repacked_left -= len(entries)
            runs.append(run)
            limit -= run.entry_count
            size_bytes_max -= unpacked_bytes(run.packed)
        return runs, end if through >= self.last_id else through

    def lacking(
        self, start: EntryId, texts: Sequence[bytes], limit: int, room: ReadRoom
    ) -> Cut | None:
        """Return how many entries follow, in sealed chunks that have none of some texts.

        `limit` entries, or some more, are enough. What the chunks take unpacked is taken from
        `room`.
        """
        through, length = start, 0
        for chunk in _while_there(self._chunks_from(start)):
            if chunk.is_open or length >= limit or room.is_spent or not chunk.lacks(texts):
                break
            room.take_all(chunk.unpacked_bytes, 0, is_first=True)
            if chunk.first_id >= start and not chunk.tombstones:
                through, length = chunk.last_id, length + chunk.count
            elif entries := chunk.between(start, chunk.last_id):
                through, length = entries[-1].id, length + len(entries)
        return Cut(through, length) if length else None

    def reverse_range(
        self, end: EntryId, start: EntryId, limit: int | None = None, room: ReadRoom | None = None
    ) -> list[Entry]:
        """Return entries from `end` down to `start`, both inclusive; bounds as for `range`."""
        batch = Batch(limit, room or ReadRoom(None))
        self.require_range(start, end, limit, room, reverse=True)
        for chunk in self._chunks_down_from(end):
            if chunk.last_id < start or not batch.take(chunk.between(start, end)[::-1]):
                break
        return batch.entries

    def cost_of(self, start: EntryId, end: EntryId, limit: int, *, reverse: bool = False) -> int:
        """Return about the cost of reading a range, in microseconds; see `transaction_cost.py`."""
        cost = 0
        for node in self._nodes(start, end, reverse=reverse):
            if limit <= 0 or cost > TRANSACTION_COST_MAX:
                break
            if node.last_id < start or node.first_id > end:
                continue
            taken = min(limit, node.live_count)
            share = taken / node.live_count if isinstance(node, Line) else 1
            cost += int(node.cost * share) + ENTRY_COST * taken
            if start <= node.first_id and node.last_id <= end:  # else few of them may be wanted
                limit -= node.live_count
        return cost

    def _nodes(self, start: EntryId, end: EntryId, *, reverse: bool) -> Iterator[Line | Chunk]:
        low, high = max(self._node_at(start), 0), self._node_at(end)
        for index in range(high, low - 1, -1) if reverse else range(low, high + 1):
            nodes = self._nodes_in(index)
            yield from reversed(nodes) if reverse else nodes

    def _nodes_in(self, index: int) -> Sequence[Line | Chunk]:
        """Return the chunks of a node, or its line if they are not in memory."""
        if index < len(self.extents) and self.extents.is_missing(index):
            return [self.extents.line(index)]
        return self._chunks_in(index)

    def cost_of_ids(self, ids: Iterable[EntryId]) -> int:
        """Return about the cost of looking up entries, one by one."""
        cost = 0
        for entry_id in ids:
            node = self._node_of(entry_id)
            if isinstance(node, Line):
                cost += node.cost // node.chunk_count
            elif node is not None and not node.has_one_id:
                cost += node.cost
        return cost

    def cost_of_reading(self, ids: Iterable[EntryId]) -> int:
        """Return about the cost of reading entries: those beside each other are unpacked once."""
        cost, node = 0, None
        for entry_id in ids:
            cost += ENTRY_COST
            if node is None or not node.first_id <= entry_id <= node.last_id:
                node = self._node_of(entry_id)
                if node is not None:
                    cost += node.cost // (node.chunk_count if isinstance(node, Line) else 1)
        return cost

    def _node_of(self, entry_id: EntryId) -> Line | Chunk | None:
        index = self._node_at(entry_id)
        if index < 0:
            return None
        nodes = self._nodes_in(index)
        at = bisect_left(nodes, entry_id, key=_last_id_of)
        return None if at == len(nodes) or entry_id < nodes[at].first_id else nodes[at]

    def chunks_below(self, entry_id: EntryId) -> int:
        """Return how many nodes have an id below this one, dead or alive."""
        return bisect_left(self._firsts, entry_id) + self.extents.below(entry_id)

    @property
    def _node_count(self) -> int:
        return len(self.extents) + len(self._chunks)

    def _node_at(self, entry_id: EntryId) -> int:
        """Return the place of the last node that begins below or at an id; -1 if there is none."""
        at = bisect_right(self._firsts, entry_id) - 1
        return len(self.extents) + at if at >= 0 else self.extents.below(entry_id) - 1

    def _node(self, index: int) -> Line | Chunk:
        cold_count = len(self.extents)
        return self.extents.line(index) if index < cold_count else self._chunks[index - cold_count]

    def _first_of(self, index: int) -> EntryId:
        cold_count = len(self.extents)
        return (
            self.extents.first_id(index) if index < cold_count else self._firsts[index - cold_count]
        )

    def _chunks_in(self, index: int) -> Sequence[Chunk]:
        cold_count = len(self.extents)
        if index < cold_count:
            return self.extents.chunks(index)
        return self._chunks[index - cold_count : index - cold_count + 1]

    def count(self, after: EntryId, through: EntryId) -> int:
        low = max(self._node_at(after), 0)
        high = self._node_at(through)
        if through <= after or high < low:
            return 0
        ends = {low, high}  # the nodes between them lie in the range as a whole
        partly = sum(self._live_between(at, after, through) for at in ends)
        return partly + self._live_in(low + 1, high)

    def _live_between(self, index: int, after: EntryId, through: EntryId) -> int:
        node = self._node(index)
        if node.last_id <= after:
            return 0
        if after < node.first_id and node.last_id <= through:
            return node.live_count
        return sum(_live_between(chunk, after, through) for chunk in self._chunks_in(index))

    def count_part(self, after: EntryId, through: EntryId) -> Cut:
        """Return the count of `count`, or its first part: no more chunks than a cut looks at.

        Go on counting above `through` of the reply, which need not be the id of an entry.
        """
        low = max(self._node_at(after), 0)
        if low + CUT_CHUNKS_MAX < self._node_at(through):
            part_through = self._first_of(low + CUT_CHUNKS_MAX)
            return Cut(part_through, self.count(after, part_through), is_whole=False)
        return Cut(through, self.count(after, through))

    def first_id_about(self, after: EntryId) -> EntryId | None:
        """Return the id of the first entry above an id, or of a later one in the same node.

        Only the last node is looked into: another one would have to be unpacked, or read.
        """
        for index in range(max(self._node_at(after), 0), self._node_count):
            node = self._node(index)
            if not node.live_count or node.last_id <= after:
                continue
            if node.first_id > after or index < self._node_count - 1 or isinstance(node, Line):
                return node.first_id if node.first_id > after else node.last_id
            return next(iter(node.ids_between(after.next(), node.last_id)), None)
        return None

    def portion(self, after: EntryId, through: EntryId, count: int) -> Cut | None:
        """Return the end of the next `count` (or fewer) live entries above `after`; None: none."""
        left = count
        end: Line | Chunk | EntryId | None = None
        first = max(self._node_at(after.next()), 0)
        for index in range(first, self._node_count) if after < through and count > 0 else ():
            if self._first_of(index) > through or not left:
                break
            whole = self._node(index)
            if after < whole.first_id and whole.last_id <= through and whole.live_count <= left:
                left -= whole.live_count
                end = whole  # which entry is its last is looked up once, when this is over
                continue
            for chunk in self._chunks_in(index) if whole.last_id > after else ():
                if ids := chunk.ids_between(after.next(), through)[:left]:
                    left -= len(ids)
                    end = ids[-1]
        if isinstance(end, Chunk):
            end = end.last_live_id()
        elif isinstance(end, Line):
            end = end.last_id
        return None if end is None else Cut(end, count - left)

    def delete(self, entry_id: EntryId, archive: Log | None = None) -> bool:
        index = bisect_right(self._firsts, entry_id) - 1
        if index < 0:
            cold = self._extent_of(entry_id)
            into = None if archive is None else archive.extents
            is_killed = cold is not None and self.extents.kill(cold, entry_id, into)
            self.length -= is_killed
            if archive is not None:
                archive.length += is_killed
            return is_killed
        position = self._chunks[index].position(entry_id)
        if position is None:
            return False
        chunk = self._to_change(index)
        if archive is not None:
            archive.share(chunk, 1 << position)
        self._grow(chunk.kill(position))
        self.length -= 1
        if not chunk.live_count:
            self._drop(index, index + 1)
        if entry_id == self._first_id:
            self._first_id = None
        return True

    def lose(self, first_id: EntryId, last_id: EntryId) -> int:
        lost_count = self.extents.lose(first_id, last_id)
        self.length -= lost_count
        return lost_count

    def cut_to_length(self, length_max: int, appended: Sequence[Entry] = ()) -> Cut | None:
        """Return what to remove to keep `length_max`, with `appended` added (XTRIM MAXLEN =)."""
        excess = self.length + len(appended) - length_max
        if excess <= 0:
            return None
        if excess > self.length and self._node_count <= CUT_CHUNKS_MAX:
            return Cut(appended[excess - self.length - 1].id, excess)
        whole, skipped = self.extents.holding(excess - 1, CUT_CHUNKS_MAX)
        for index in range(whole, min(self._node_count, CUT_CHUNKS_MAX)):
            live_count = self._node(index).live_count
            if skipped + live_count >= excess:
                return Cut(self._id_at(index, excess - skipped - 1), excess)
            skipped += live_count
        return self._first_part(skipped)

    def _id_at(self, index: int, place: int) -> EntryId:
        for chunk in self._chunks_in(index):
            if place < chunk.live_count:
                return chunk.ids_between(chunk.first_id, chunk.last_id)[place]
            place -= chunk.live_count
        raise IndexError(place)

    def cut_below(self, min_id: EntryId, appended: Sequence[Entry] = ()) -> Cut | None:
        """Return the prefix of all entries below `min_id` (XTRIM MINID =); `appended` as above."""
        if min_id == MIN_ID:
            return None
        lying_below = self.extents.lying_below(min_id)
        if lying_below >= CUT_CHUNKS_MAX < self._node_count:
            return self._first_part(self.extents.live_in(0, CUT_CHUNKS_MAX))
        through, count = None, self.extents.live_in(0, lying_below)
        if lying_below:
            through = self.extents.through(lying_below - 1)
        for index in range(lying_below, self._node_count):
            whole = self._node(index)
            if _through(whole) < min_id:
                if index == CUT_CHUNKS_MAX:
                    return self._first_part(count)
                through, count = _through(whole), count + whole.live_count
                continue
            for chunk in self._chunks_in(index) if whole.first_id < min_id else ():
                alive = chunk.ids_between(MIN_ID, min_id.previous())
                through, count = alive[-1] if alive else through, count + len(alive)
            break
        alive = [entry.id for entry in appended if entry.id < min_id]
        if alive:
            through = alive[-1]
        return Cut(through, count + len(alive)) if through is not None else None

    def cut_chunks(
        self,
        *,
        length_max: int | None,
        min_id: EntryId | None,
        limit: int | None,
        appended: Sequence[Entry] = (),
        node_limits: NodeLimits,
    ) -> Cut | None:
        """Return the whole chunks that may go (XTRIM MAXLEN ~ or MINID ~), oldest first.

        Either `length_max` entries stay, or a chunk must lie below `min_id`. At most `limit`
        entries go (None: any number). `appended` entries will have been laid into chunks by
        `node_limits` by then.
        """
        cut: Cut | None = None
        total = self.length + len(appended)

        def stays(span: Cut) -> bool:
            count = span.length + (cut.length if cut else 0)
            if length_max is not None and total - count < length_max:
                return True
            if min_id is not None and span.through >= min_id:
                return True
            return limit is not None and count > limit

        cold = (Cut(line.through, line.live_count) for line in self.extents.lines())
        for index, span in enumerate(chain(cold, self._spans(appended, node_limits))):
            if stays(span):
                for chunk in self.extents.chunks(index) if index < len(self.extents) else ():
                    part = Cut(chunk.last_id, chunk.live_count)
                    if stays(part):
                        break
                    cut = Cut(part.through, part.length + (cut.length if cut else 0))
                break
            if cut is not None and index == CUT_CHUNKS_MAX:
                return cut._replace(is_whole=False)
            cut = Cut(span.through, span.length + (cut.length if cut else 0))
        return cut

    def trim_through(self, entry_id: EntryId, archive: Log | None = None) -> int:
        """Remove entries through an id, or give them to `archive`; returns how many."""
        before = self.length
        if self.extents:
            into = None if archive is None else archive.extents
            killed = self.extents.kill_through(entry_id, into)
            self.length -= killed
            if archive is not None:
                archive.length += killed
        whole = bisect_right(self._firsts, entry_id)
        if whole and self._chunks[whole - 1].last_id > entry_id:
            whole -= 1
        going = self._chunks[:whole]
        self.length -= sum(chunk.live_count for chunk in going)
        self._drop(0, whole)
        if archive is not None:
            archive.take([chunk.clone() for chunk in going] if self._view_count else going)
        if self._chunks and self._chunks[0].first_id <= entry_id:
            chunk = self._to_change(0)
            alive = chunk.alive
            self.length -= chunk.kill_through(entry_id)
            if archive is not None:
                archive.share(chunk, alive & chunk.tombstones)
            if not chunk.live_count:
                self._drop(0, 1)
        self._first_id = None
        return before - self.length

    def take(self, chunks: Sequence[Chunk]) -> None:
        for at, chunk in enumerate(chunks):
            if not self._firsts or chunk.first_id > self._firsts[-1]:
                return self._append(chunks[at:])
            self.share(chunk, chunk.alive)
        return None

    def _append(self, chunks: Sequence[Chunk]) -> None:
        if chunks[-1].is_open:
            chunks[-1].seal()
        self._grow(sum(chunk.memory_bytes for chunk in chunks))
        self._chunks += chunks
        self._firsts += [chunk.first_id for chunk in chunks]
        self.length += sum(chunk.live_count for chunk in chunks)
        self._first_id = None

    def share(self, chunk: Chunk, alive: int) -> None:
        """Take over some entries of a chunk, whose bits are `alive`; its log keeps the others."""
        if not alive:
            return
        at = bisect_left(self._firsts, chunk.first_id)
        if at < len(self._firsts) and self._firsts[at] == chunk.first_id:
            alive |= self._chunks[at].alive
            self.length -= self._chunks[at].live_count
            self._drop(at, at + 1)
        chunk.is_shared = True
        taken = chunk.marked(~alive & ((1 << chunk.count) - 1))
        self._grow(taken.memory_bytes)
        self._chunks.insert(at, taken)
        self._firsts.insert(at, chunk.first_id)
        self.length += taken.live_count
        self._first_id = None

    def drop_above(self, last_id: EntryId) -> None:
        """Remove every entry above an id; Missing if the extent it lies in is not in memory."""
        self.length -= self.extents.kill_above(last_id)
        low = bisect_right(self._firsts, last_id)
        self.length -= sum(chunk.live_count for chunk in self._chunks[low:])
        self._drop(low, len(self._chunks))
        if low and self._chunks[low - 1].last_id > last_id:
            chunk = self._to_change(low - 1)
            gone = chunk.ids_between(last_id.next(), chunk.last_id)
            for entry_id in gone:
                chunk.tombstones |= 1 << (chunk.position(entry_id) or 0)
            self.length -= len(gone)
            if not chunk.live_count:
                self._drop(low - 1, low)
        self._first_id = None

    def require_end(self, through: EntryId) -> None:
        """Check that a trim through an id can be made; `Missing` if not."""
        at = self.extents.below(through) - 1
        if at >= 0 and through < self.extents.last_id(at):
            self.extents.chunks(at)

    def require_all(self, ids: Iterable[EntryId], size_bytes_max: int | None = None) -> None:
        """Raise Missing, naming all, unless entries can be looked up and deleted.

        `size_bytes_max` leaves out the rest once they take more, by the average of their extents.
        """
        extents = self.extents
        if not extents:
            return
        wanted: set[int] = set()
        left = Wanted(None, size_bytes_max)
        for entry_id in ids:
            at = self._extent_of(entry_id)
            if at is None:
                continue
            wanted.add(at)
            live_count, size_bytes = extents.alive(at)
            if left.take(1, size_bytes // live_count):
                break
        extents.require(sorted(wanted))
        for at in wanted:
            extents.chunks(at)

    def require_range(
        self,
        start: EntryId,
        end: EntryId,
        limit: int | None,
        room: ReadRoom | None,
        *,
        reverse: bool = False,
    ) -> None:
        """Raise Missing, naming all, unless the extents of a range are in memory."""
        extents = self.extents
        if extents.end_below(start):
            return
        left = Wanted(limit, None if room is None else room.bytes_left)
        if reverse:
            for chunk in islice(self._hot_down_from(end), _ASKED_MAX):
                if chunk.last_id <= end and left.take(chunk.live_count, chunk.memory_bytes):
                    return
        low, high = extents.ending_below(start), extents.below(end)
        wanted = range(high - 1, low - 1, -1) if reverse else range(low, high)
        asked: list[int] = []
        for index in wanted[:_ASKED_MAX]:
            asked.append(index)
            # At the ends of the range at least one entry of an extent is wanted.
            is_whole = low < index < high - 1 or (
                start <= extents.first_id(index) and extents.last_id(index) <= end
            )
            if left.take(*(extents.alive(index) if is_whole else (1, 0))):
                break
        extents.require(asked, wanted[len(asked) :])

    def _chunks_from(self, start: EntryId) -> Iterator[Chunk]:
        is_cold = not self.extents.end_below(start)
        first = self.extents.ending_below(start) if is_cold else len(self.extents)
        for cold in range(first, len(self.extents)):
            chunks = self.extents.chunks(cold)
            yield from chunks if cold > first else [c for c in chunks if c.last_id >= start]
        index = max(bisect_right(self._firsts, start) - 1, 0)
        if index < len(self._chunks) and self._chunks[index].last_id < start:
            index += 1  # a page ended with it: not worth unpacking
        for at in range(index, len(self._chunks)):
            yield self._chunks[at]

    def _chunks_down_from(self, end: EntryId) -> Iterator[Chunk]:
        yield from self._hot_down_from(end)
        for cold in range(self.extents.below(end) - 1 if self.extents else -1, -1, -1):
            yield from (c for c in reversed(self.extents.chunks(cold)) if c.first_id <= end)

    def _hot_down_from(self, end: EntryId) -> Iterator[Chunk]:
        for at in range(bisect_right(self._firsts, end) - 1, -1, -1):
            yield self._chunks[at]

    def nodes(
        self, after: EntryId, appended: Sequence[Entry], limits: NodeLimits
    ) -> Iterator[Sequence[EntryId]]:
        """Yield the ids of each chunk's live entries, as they will lie once `appended` are added.

        It begins behind the chunk that ends with `after`, or with the first one.
        """
        is_cold = not self.extents.end_below(after.next())
        cold = self.extents.ending_below(after.next()) if is_cold else len(self.extents)
        for index in range(cold, len(self.extents)):
            for chunk in self.extents.chunks(index):
                if chunk.last_id > after:
                    yield chunk.ids_between(chunk.first_id, chunk.last_id)
        tail: list[EntryId] | None = None
        first = max(bisect_right(self._firsts, after) - 1, 0)
        if first < len(self._chunks) and self._chunks[first].last_id <= after:
            first += 1
        for index, span in enumerate(self._spans(appended, limits, first), first):
            if index < len(self._chunks) - 1:
                chunk = self._chunks[index]
                yield chunk.ids_between(chunk.first_id, chunk.last_id)
                continue
            if tail is None:
                last = self._chunks[-1] if self._chunks else None
                tail = last.ids_between(last.first_id, last.last_id) if last is not None else []
                tail += [entry.id for entry in appended]
            yield tail[: span.length]
            del tail[: span.length]

    def _first_part(self, length: int) -> Cut:
        """Return the cut behind the nodes that may be looked at, which have so many entries."""
        return Cut(_through(self._node(CUT_CHUNKS_MAX - 1)), length, is_whole=False)

    def _spans(
        self, appended: Sequence[Entry], limits: NodeLimits, start: int = 0
    ) -> Iterator[Cut]:
        """Yield last id and live count of each hot chunk, as it is once `appended` are added."""
        for index in range(start, len(self._chunks) - 1):
            yield Cut(self._chunks[index].last_id, self._chunks[index].live_count)
        last = self._chunks[-1] if self._chunks else None
        first, *others = limits.runs(last, appended)
        if last is not None and start < len(self._chunks):
            through = first.entries[-1].id if first.entries else last.last_id
            yield Cut(through, last.live_count + len(first.entries))
        for run in others:
            yield Cut(run.entries[-1].id, len(run.entries))

    def _new_chunk(self, first_id: EntryId) -> Chunk:
        if not self._chunks:
            self._first_id = first_id
        elif self._chunks[-1].is_open:
            self._grow(self._chunks[-1].seal())
        chunk = Chunk()
        self._grow(chunk.memory_bytes)
        self._chunks.append(chunk)
        self._firsts.append(first_id)
        return chunk

    def _live_in(self, low: int, high: int) -> int:
        cold_count, low = len(self.extents), min(low, high)
        if high - low > self._node_count // 2:  # the others are fewer, and the sum of all is known
            return self.length - self._live_in(0, low) - self._live_in(high, self._node_count)
        hot = self._chunks[max(low - cold_count, 0) : max(high - cold_count, 0)]
        cold = self.extents.live_in(min(low, cold_count), min(high, cold_count))
        return cold + sum(chunk.live_count for chunk in hot)

    def _drop(self, low: int, high: int) -> None:
        dropped_bytes = sum(chunk.memory_bytes for chunk in self._chunks[low:high])
        self._hold(dropped_bytes)
        self._grow(-dropped_bytes)
        del self._chunks[low:high]
        del self._firsts[low:high]


def _while_there(chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Yield chunks up to the first one that is missing; `Missing` if there is none before it."""
    is_first = True
    try:
        for chunk in chunks:
            yield chunk
            is_first = False
    except Missing:
        if is_first:
            raise


def _through(node: Line | Chunk) -> EntryId:
    return node.through if isinstance(node, Line) else node.last_id


def _live_between(chunk: Chunk, after: EntryId, through: EntryId) -> int:
    """Return how many live entries of a chunk lie in a range; it is unpacked only if it must be."""
    if chunk.last_id <= after:
        return 0
    if after < chunk.first_id and chunk.last_id <= through:
        return chunk.live_count
    return len(chunk.ids_between(after.next(), through))
