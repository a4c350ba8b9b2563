"""Nodes: neighbouring entries of a stream in one listpack.

```text
node   = live dead n name{n} 0 entry{live + dead}          the names of the *master entry*
entry  = flags ms seq n (name value){n} back               with its own names
       | flags ms seq value{n} back                        with those of the master entry
```

`ms` and `seq` are added to the id under which the stream has the node. `back` is the number of
elements before it. A dead entry was deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from headgate.app.rdb import listpack
from headgate.app.rdb.listpack import BadListpack, Listpack, as_bytes
from headgate.engine.entry import Entry, EntryId, Fields, size_in_chunk
from headgate.engine.limits import ENTRY_FIELDS_MAX, U64_MAX

_DELETED = 1
_SAME_FIELDS = 2

_ENTRIES_MAX = 100  # as Redis by default: stream-node-max-entries
_BYTES_MAX = 4096  # and stream-node-max-bytes

_PORTION = 250
"""Entries that are yielded together."""


def read_node(
    base: EntryId, data: bytes, count_elements: Callable[[int], None]
) -> Iterator[list[Entry]]:
    """Yield the live entries of a node, some at a time. Their ids ascend.

    Args:
        base: the id under which the stream has the node.
        data: the node.
        count_elements: called before some elements are kept, with their number; it may raise.

    Raises:
        BadListpack: the bytes are no node, or an entry has more fields than entries may have.
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
        if len(entries) == _PORTION:
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
    """Yield the entries of each node that entries make, none if there are none."""
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
    """Return the node of entries, which the stream has under the id of the first."""
    base, fields = entries[0]
    names = fields[::2]
    integer, string = listpack.integer, listpack.string
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
    return listpack.pack(elements)


def _signed(difference: int) -> int:
    """Return a difference of unsigned 64-bit numbers as a signed one, to which it is equal."""
    return (difference + (1 << 63) & U64_MAX) - (1 << 63)
