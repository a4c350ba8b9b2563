r"""Listpack: strings and integers in one piece of bytes; each knows its length on both sides.

```text
listpack = size:u32 count:u16 element* "\xff"        both little-endian; count 65535: unknown
element  = encoding data back                       back: the length of encoding and data, 7 bits a byte
```

| first byte | element |
|---|---|
| `0xxxxxxx` | an integer from 0 to 127 |
| `10xxxxxx` | a string of up to 63 bytes |
| `110xxxxx` | with the next byte, an integer of 13 bits |
| `1110xxxx` | with the next byte, the length of a string of up to 4095 bytes |
| `11110000` | a string whose length is the next 4 bytes |
| `11110001` to `11110100` | an integer of 2, 3, 4 or 8 bytes |

Multi-byte integers are signed and little-endian; those of 12 and 13 bits have the high bits first.
"""  # noqa: E501 the lines of the table

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain

from headgate.engine.entry import Entry, EntryId, Fields, size_in_chunk
from headgate.engine.limits import ENTRY_FIELDS_MAX, U64_MAX

Element = bytes | int

_HEADER = struct.Struct("<IH")
_END = 0xFF
_MANY = 0xFFFF
_INTEGER_BYTES = {0xF1: 2, 0xF2: 3, 0xF3: 4, 0xF4: 8}
_PORTION = 1024
"""Elements that are decoded at once."""

_DECIMAL = re.compile(rb"0|-?[1-9][0-9]{0,18}")


class BadListpack(ValueError):
    pass


class Listpack:
    def __init__(self, data: bytes, count_elements: Callable[[int], None]) -> None:
        """`count_elements` is called before elements are kept; it may raise."""
        if len(data) <= _HEADER.size or data[-1] != _END:
            raise BadListpack("a listpack has no end")
        size_bytes, self._count = _HEADER.unpack_from(data)
        if size_bytes != len(data):
            text = f"a listpack of {len(data)} bytes says that it has {size_bytes}"
            raise BadListpack(text)
        self._data = data
        self._count_elements = count_elements
        self._next = _HEADER.size  # where the next element is that is not decoded
        self._decoded: list[Element] = []
        self._decoded_count = 0
        self._at = 0

    def take(self, count: int) -> list[Element]:
        """Return the next elements. Raises BadListpack."""
        while len(self._decoded) - self._at < count:
            self._decode()
        end = self._at + count
        taken = self._decoded[self._at : end]
        self._at = end
        return taken

    def integer(self) -> int:
        """Return the next element. Raises BadListpack if it is not an integer."""
        (value,) = self.take(1)
        if not isinstance(value, int):
            raise BadListpack("a listpack has a string where a number should be")
        return value

    def end(self) -> None:
        if self._at < len(self._decoded) or self._next < len(self._data) - 1:
            raise BadListpack("a listpack has more elements than are used")
        if self._count not in (_MANY, self._decoded_count):
            text = f"a listpack of {self._decoded_count} elements says that it has {self._count}"
            raise BadListpack(text)

    def _decode(self) -> None:
        if self._next >= len(self._data) - 1:
            raise BadListpack("a listpack has fewer elements than it needs")
        elements, self._next = _decode(self._data, self._next)
        self._count_elements(len(elements))
        if self._at:  # what was taken goes; while many are taken at once, nothing is moved
            del self._decoded[: self._at]
            self._at = 0
        self._decoded += elements
        self._decoded_count += len(elements)


def _decode(data: bytes, at: int) -> tuple[list[Element], int]:
    """Return a portion of the elements from `at` on, and the position of the next one."""
    end = len(data) - 1
    elements: list[Element] = []
    value: Element
    while at < end and len(elements) < _PORTION:
        lead = data[at]
        if lead < 0x80:
            size, value = 1, lead
        elif lead < 0xC0:
            size = 1 + (lead & 0x3F)
            value = data[at + 1 : at + size]
        else:
            size, value = _longer(data, at)
        at += size
        back = bytes((size,)) if size < 128 else _back(size)
        if at + len(back) > end:
            raise BadListpack("an element of a listpack is longer than the listpack")
        if not data.startswith(back, at):
            raise BadListpack("an element of a listpack has two lengths")
        at += len(back)
        elements.append(value)
    return elements, at


def _longer(data: bytes, at: int) -> tuple[int, Element]:
    lead = data[at]
    if lead < 0xE0:
        value = (lead & 0x1F) << 8 | data[at + 1]
        return 2, value - 8192 if value >= 4096 else value
    if lead < 0xF0:
        size = 2 + ((lead & 0x0F) << 8 | data[at + 1])
        return size, data[at + 2 : at + size]
    if lead == 0xF0:
        size = 5 + int.from_bytes(data[at + 1 : at + 5], "little")
        return size, data[at + 5 : at + size]
    if lead not in _INTEGER_BYTES:
        raise BadListpack(f"no element of a listpack begins with {lead:#04x}")
    size = 1 + _INTEGER_BYTES[lead]
    return size, int.from_bytes(data[at + 1 : at + size], "little", signed=True)


def as_bytes(elements: Iterable[Element]) -> list[bytes]:
    """Return elements as strings; integers in decimal."""
    return [value if isinstance(value, bytes) else b"%d" % value for value in elements]


def pack(elements: list[bytes]) -> bytes:
    body = b"".join(elements)
    count = min(len(elements), _MANY)
    return b"%b%b\xff" % (_HEADER.pack(_HEADER.size + len(body) + 1, count), body)


def string(value: bytes) -> bytes:
    """Encode a string; like Redis, as an integer if it looks like one."""
    size = len(value)
    if size < 20 and _DECIMAL.fullmatch(value) and -(1 << 63) <= int(value) < 1 << 63:
        return integer(int(value))
    if size < 64:
        return b"%c%b%c" % (0x80 | size, value, size + 1)
    if size < 4096:
        return (0xE000 | size).to_bytes(2) + value + _back(size + 2)
    return b"\xf0" + size.to_bytes(4, "little") + value + _back(size + 5)


@lru_cache(maxsize=4096)
def integer(value: int) -> bytes:
    if 0 <= value < 128:
        return bytes((value, 1))
    if -4096 <= value < 4096:
        return (0xC000 | value & 0x1FFF).to_bytes(2) + b"\x02"
    for lead, size in _INTEGER_BYTES.items():
        if -1 << 8 * size - 1 <= value < 1 << 8 * size - 1:
            return b"%c%b%c" % (lead, value.to_bytes(size, "little", signed=True), size + 1)
    raise ValueError(f"{value} is no signed 64-bit number")


@lru_cache(maxsize=1024)
def _back(size: int) -> bytes:
    """Return the length of an element as it is stored after it.

    The limits are those of Redis, which gives the greatest numbers of each length one more byte.
    """
    bytes_ = 1 if size < 128 else next((n for n in (2, 3, 4) if size < (1 << 7 * n) - 1), 5)
    groups = [size >> 7 * place & 0x7F for place in reversed(range(bytes_))]
    return bytes([groups[0], *(group | 0x80 for group in groups[1:])])


# Nodes: neighbouring entries of a stream in one listpack.
#
# ```text
# node   = live dead n name{n} 0 entry{live + dead}          the names of the *master entry*
# entry  = flags ms seq n (name value){n} back               with its own names
#        | flags ms seq value{n} back                        with those of the master entry
# ```
#
# `ms` and `seq` are added to the id under which the stream has the node. `back` is the number of
# elements before it. A dead entry was deleted.

_DELETED = 1
_SAME_FIELDS = 2

_ENTRIES_MAX = 100  # as Redis by default: stream-node-max-entries
_BYTES_MAX = 4096  # and stream-node-max-bytes

_NODE_PORTION = 250
"""Entries that are yielded together."""


def read_node(
    base: EntryId, data: bytes, count_elements: Callable[[int], None]
) -> Iterator[list[Entry]]:
    """Yield the live entries of a node in portions. Their ids ascend.

    `base` is the key of the node. `count_elements` is called with their number before elements are
    kept; it may raise. Raises BadListpack for an invalid node, or an entry with too many fields.
    """
    elements = Listpack(data, count_elements)
    live_count, dead_count, name_count = (elements.integer() for _ in range(3))
    if min(live_count, dead_count, name_count) < 0:
        raise BadListpack("a node has a negative count")
    _check_field_count(name_count)
    names = as_bytes(elements.take(name_count))
    if elements.integer() != 0:
        raise BadListpack("a node has no end of its field names")
    entries: list[Entry] = []
    last_id, passed = (-1, -1), 0
    for _ in range(live_count + dead_count):
        flags, entry = _read_entry(elements, base, names)
        if flags & _DELETED:
            dead_count -= 1
            continue
        if entry.id <= last_id:
            raise BadListpack("the ids of a node do not ascend")
        last_id = entry.id
        entries.append(entry)
        if len(entries) == _NODE_PORTION:
            yield entries
            passed, entries = passed + len(entries), []
    if dead_count or passed + len(entries) != live_count:
        raise BadListpack("a node has not as many live entries as it says")
    elements.end()
    if entries:
        yield entries


def _read_entry(elements: Listpack, base: EntryId, names: list[bytes]) -> tuple[int, Entry]:
    head = elements.take(3)
    flags, ms, seq = head
    if not (isinstance(flags, int) and isinstance(ms, int) and isinstance(seq, int)):
        raise BadListpack("an entry begins with a string")
    if flags & _SAME_FIELDS:
        values = as_bytes(elements.take(len(names)))
        fields: Fields = tuple(chain.from_iterable(zip(names, values, strict=True)))
        count = len(names) + 3
    else:
        field_count = elements.integer()
        if field_count < 0:
            raise BadListpack("an entry has a negative number of fields")
        _check_field_count(field_count)
        fields = tuple(as_bytes(elements.take(2 * field_count)))
        count = 2 * field_count + 4
    if not fields:
        raise BadListpack("an entry has no fields")
    if elements.integer() != count:
        raise BadListpack("an entry has another length than it says")
    return flags, Entry(EntryId(base.ms + ms & U64_MAX, base.seq + seq & U64_MAX), fields)


def _check_field_count(count: int) -> None:
    if count > ENTRY_FIELDS_MAX:
        raise BadListpack(f"an entry has {count} fields, and may have {ENTRY_FIELDS_MAX}")


def portions(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    start, size_bytes = 0, 0
    for at, entry in enumerate(entries):
        entry_bytes = size_in_chunk(entry.fields)
        size_bytes += entry_bytes
        if at > start and (at - start == _ENTRIES_MAX or size_bytes > _BYTES_MAX):
            yield entries[start:at]
            start, size_bytes = at, entry_bytes
    if start < len(entries):
        yield entries[start:]


def write_node(entries: Sequence[Entry]) -> bytes:
    """Return a node; its key is the id of the first entry."""
    base, fields = entries[0]
    names = fields[::2]
    elements = [integer(len(entries)), integer(0), integer(len(names))]
    elements += [*map(string, names), integer(0)]
    for entry_id, fields in entries:
        ms, seq = _signed(entry_id.ms - base.ms), _signed(entry_id.seq - base.seq)
        if fields[::2] == names:
            elements += [integer(_SAME_FIELDS), integer(ms), integer(seq)]
            elements += [*map(string, fields[1::2]), integer(len(names) + 3)]
        else:
            elements += [integer(0), integer(ms), integer(seq), integer(len(fields) // 2)]
            elements += [*map(string, fields), integer(len(fields) + 4)]
    return pack(elements)


def _signed(difference: int) -> int:
    """Return a difference of unsigned 64-bit numbers as a signed one (modulo 2^64)."""
    return (difference + (1 << 63) & U64_MAX) - (1 << 63)
