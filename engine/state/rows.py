"""Rows: the index of a table, from each key to the id of its newest entry, in order of the keys.

Millions of keys as objects would take hundreds of bytes each. So neighbouring keys lie in one
string, each followed by a separator, and their ids in one array beside it: 17 bytes a row, and the
key's own. A block is small enough to be copied when a key is put into its middle.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from headgate.engine.entry import EntryId
from headgate.engine.state.memory import ROW_BYTES, ROWS_BLOCK_BYTES, Memory, Pieces

_SEPARATOR = b"\0"

_BLOCK_ROWS_MAX = 128
_BLOCK_BYTES_MAX = 8_192

_FREED_AT_ONCE = 64


def _packed(key: bytes) -> bytes:
    """Return a key without separators. Packed keys have the order of the keys."""
    if b"\0" in key or b"\1" in key:
        return key.replace(b"\1", b"\1\2").replace(b"\0", b"\1\1")
    return key


def _unpacked(packed: bytes) -> bytes:
    if b"\1" in packed:
        return packed.replace(b"\1\1", b"\0").replace(b"\1\2", b"\1")
    return packed


class RowBlock:
    """Neighbouring rows."""

    __slots__ = ("ids", "keys")

    def __init__(self, keys: bytes, ids: array[int]) -> None:
        self.keys = keys  # packed, each with a separator behind it
        self.ids = ids  # two numbers each

    def __len__(self) -> int:
        return len(self.ids) // 2

    @property
    def first(self) -> bytes:
        return self.keys[: self.keys.index(_SEPARATOR)]

    def find(self, packed: bytes) -> int | None:
        """Return the number of the row of a key."""
        keys = self.keys
        if keys.startswith(packed + _SEPARATOR):
            return 0
        place = keys.find(_SEPARATOR + packed + _SEPARATOR)
        return None if place < 0 else keys.count(_SEPARATOR, 0, place + 1)

    def place(self, packed: bytes) -> int:
        """Return where in `keys` the first key stands that is not below one."""
        keys, low, high = self.keys, 0, len(self.keys)
        while low < high:
            middle = (low + high) // 2
            start = max(keys.rfind(_SEPARATOR, low, middle) + 1, low)
            end = keys.index(_SEPARATOR, middle)
            if keys[start:end] < packed:
                low = end + 1
            else:
                high = start
        return low

    def id_of(self, row: int) -> EntryId:
        return EntryId(self.ids[2 * row], self.ids[2 * row + 1])

    def put(self, packed: bytes, entry_id: EntryId) -> bool:
        """Return whether the row is a new one."""
        row = self.find(packed)
        if row is not None:
            self.ids[2 * row], self.ids[2 * row + 1] = entry_id
            return False
        keys = self.keys.split(_SEPARATOR)
        row = bisect_left(keys, packed, 0, len(keys) - 1)
        keys.insert(row, packed)
        self.keys = _SEPARATOR.join(keys)
        self.ids[2 * row : 2 * row] = array("Q", entry_id)
        return True

    def remove(self, packed: bytes) -> bool:
        row = self.find(packed)
        if row is None:
            return False
        place = self.place(packed)
        self.keys = self.keys[:place] + self.keys[place + len(packed) + 1 :]
        del self.ids[2 * row : 2 * row + 2]
        return True

    def halves(self) -> tuple[RowBlock, RowBlock]:
        middle = len(self) // 2
        packed = self.keys.split(_SEPARATOR)
        place = sum(map(len, packed[:middle])) + middle
        low = RowBlock(self.keys[:place], self.ids[: 2 * middle])
        return low, RowBlock(self.keys[place:], self.ids[2 * middle :])

    @property
    def is_large(self) -> bool:
        rows = len(self)
        return rows > _BLOCK_ROWS_MAX or (rows > 1 and len(self.keys) > _BLOCK_BYTES_MAX)

    def rows(self, start: bytes = b"") -> Iterator[tuple[bytes, EntryId]]:
        """Yield keys with their ids, from a packed key on."""
        place = self.place(start) if start else 0
        row = self.keys.count(_SEPARATOR, 0, place)
        for packed in self.keys[place:].split(_SEPARATOR)[:-1]:
            yield _unpacked(packed), self.id_of(row)
            row += 1


class RowIndex:
    __slots__ = ("_blocks", "_firsts", "_memory", "_size_bytes", "count")

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._blocks: list[RowBlock] = []
        self._firsts: list[bytes] = []  # packed keys: no block has one below its own
        self._size_bytes = 0
        self.count = 0

    def __len__(self) -> int:
        return self.count

    @property
    def memory_bytes(self) -> int:
        return self._size_bytes

    def find(self, key: bytes) -> EntryId | None:
        """Return the id of a key's newest entry."""
        if not self._blocks:
            return None
        packed = _packed(key)
        block = self._blocks[self._index_of(packed)]
        row = block.find(packed)
        return None if row is None else block.id_of(row)

    def put(self, key: bytes, entry_id: EntryId) -> None:
        packed = _packed(key)
        if not self._blocks:
            self._insert_block(0, RowBlock(packed + _SEPARATOR, array("Q", entry_id)))
            self._note(1, ROW_BYTES + len(packed))
            return
        index = self._index_of(packed)
        block = self._blocks[index]
        if not block.put(packed, entry_id):
            return
        self._note(1, ROW_BYTES + len(packed))
        self._firsts[index] = min(self._firsts[index], packed)
        if block.is_large:
            low, high = block.halves()
            self._blocks[index] = low
            self._insert_block(index + 1, high)

    def remove(self, key: bytes) -> bool:
        if not self._blocks:
            return False
        packed = _packed(key)
        index = self._index_of(packed)
        block = self._blocks[index]
        if not block.remove(packed):
            return False
        self._note(-1, -ROW_BYTES - len(packed))
        if not block.ids:
            del self._blocks[index], self._firsts[index]
            self._note(0, -ROWS_BLOCK_BYTES)
        return True

    def walk(self, start: bytes = b"") -> Iterator[tuple[bytes, EntryId]]:
        """Yield keys with their ids, from a key on. Do not change anything meanwhile."""
        packed = _packed(start)
        for index in range(self._index_of(packed), len(self._blocks)):
            yield from self._blocks[index].rows(packed)
            packed = b""

    def older(
        self, than: EntryId, start: bytes, blocks_max: int
    ) -> tuple[list[bytes], bytes | None]:
        """Look through some blocks, from a key on, for rows whose ids are below one.

        Returns:
            Their keys, and where to go on; None at the end.
        """
        packed = _packed(start)
        first = self._index_of(packed)
        found = [
            key
            for block in self._blocks[first : first + blocks_max]
            if min(block.ids[::2]) <= than.ms
            for key, entry_id in block.rows()
            if entry_id < than and key >= start
        ]
        end = first + blocks_max
        return found, None if end >= len(self._blocks) else _unpacked(self._firsts[end])

    def dump(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield neighbouring rows: their packed keys, and their ids, 16 bytes each."""
        for block in self._blocks:
            yield block.keys, block.ids.tobytes()

    def load(self, keys: bytes, ids: bytes) -> None:
        """Take over rows behind all others, as they were dumped; ValueError if they make none."""
        block = RowBlock(keys, array("Q", ids))
        if not keys.endswith(_SEPARATOR) or keys.count(_SEPARATOR) * 2 != len(block.ids):
            raise ValueError("the rows of a table have no key each")
        self._insert_block(len(self._blocks), block)
        self._note(len(block), (ROW_BYTES - 1) * len(block) + len(keys))

    def leave(self) -> None:
        self._memory.tables_bytes -= self._size_bytes

    def dismantle(self) -> Pieces:
        while self._blocks:
            del self._blocks[-_FREED_AT_ONCE:]
            yield

    def _index_of(self, packed: bytes) -> int:
        return max(bisect_right(self._firsts, packed) - 1, 0)

    def _insert_block(self, index: int, block: RowBlock) -> None:
        self._blocks.insert(index, block)
        self._firsts.insert(index, block.first)
        self._note(0, ROWS_BLOCK_BYTES)

    def _note(self, rows: int, size_bytes: int) -> None:
        self.count += rows
        self._size_bytes += size_bytes
        self._memory.tables_bytes += size_bytes
