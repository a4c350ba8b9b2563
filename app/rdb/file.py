"""File: reads a whole file of RDB, from Redis 5 to 8 and Valkey, in bounded memory.

```text
file = "REDIS" version:4 digits | "VALKEY" version:3 digits
       (opcode ... | [expiry] [idle | frequency] type:u8 key:string value)*  255 checksum:u64
```

| opcode | what follows |
|---|---|
| 254 | a length: the database of the keys that follow |
| 253, 252 | when the next key expires: unix time in 4 bytes of seconds, or in 8 of milliseconds |
| 251 | two lengths: how many keys there are, and how many of them expire |
| 250 | two strings: a fact about the server |
| 249, 248 | how often (a byte) or how long ago (a length) the next key was used |
| 247 | a module's data: its id, two numbers, and its value as in `skipping` |
| 246, 245 | a library of functions |
| 244 | three lengths about a slot of a cluster |
| 243 | Redis: metadata of the next key; Valkey: a string, a count and so many pairs of lengths |
| 242 | a template of hashes: its number, a count and so many names |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import BinaryIO

from headgate.app.rdb.events import (
    AuxField,
    Event,
    FileBegin,
    FileEnd,
    OtherKey,
    StreamBegin,
    StreamCounters,
    StreamEnd,
    StreamEntries,
    StreamPart,
)
from headgate.app.rdb.skipping import KEY_META, other_types, skip_key_meta, skip_module_value
from headgate.app.rdb.source import RdbError, Source, StreamType
from headgate.app.rdb.streams import read_entries, read_groups, read_stream
from headgate.app.rdb.strings import read_length, read_string, skip_string
from headgate.engine.images import GroupImage

STRING_BYTES_MAX = 2**30 + 2**20
"""A node of a stream has at most 1 GiB in Redis."""

_MAGIC_BYTES = 9
_CHECKSUM_SINCE = 5
_STREAMS = frozenset(StreamType)


def read_file(
    file: BinaryIO, *, with_entries: bool = True, string_bytes_max: int = STRING_BYTES_MAX
) -> Iterator[Event]:
    """Yield the events of a file, in file order. See `events`.

    One node of a stream, or one group, is in memory at a time. Without `with_entries` only the
    first node of each stream is read, which takes a tenth of the time. `string_bytes_max` bounds
    strings that are kept in memory: names and nodes.

    Raises RdbError if the file is truncated or not understood; events before that are right as far
    as can be told without the checksum, which comes last.
    """
    yield from _File(Source(file.read, string_bytes_max), with_entries=with_entries).events()


def read_entries_at(file: BinaryIO, begin: StreamBegin) -> Iterator[StreamEntries]:
    """Yield the entries of a stream; `begin` is from `read_file`. Raises like `read_file`."""
    file.seek(begin.offset)
    yield from read_entries(Source(file.read, STRING_BYTES_MAX), begin.node_count)


def read_groups_at(
    file: BinaryIO, begin: StreamBegin, counters: StreamCounters
) -> Iterator[GroupImage]:
    """Yield the groups of a stream; `begin` and `counters` are from `read_file`."""
    file.seek(counters.offset)
    yield from read_groups(Source(file.read, STRING_BYTES_MAX), begin.type, counters)


class _File:
    def __init__(self, source: Source, *, with_entries: bool) -> None:
        self._source = source
        self._with_entries = with_entries
        self._database = 0
        self._expires_at_ms: int | None = None
        self._counts: Counter[str] = Counter()
        self._templates: dict[int, int] = {}
        self._opcodes: dict[int, Callable[[], None]] = {
            254: self._select,
            253: self._expire_s,
            252: self._expire_ms,
            251: lambda: self._lengths(2),
            249: lambda: source.skip(1),
            248: lambda: self._lengths(1),
            247: self._module,
            246: self._old_function,
            245: lambda: skip_string(source),
            244: lambda: self._lengths(3),
            242: self._template,
        }

    def events(self) -> Iterator[Event]:
        source, begin = self._source, self._begin()
        yield begin
        self._opcodes[KEY_META] = (
            self._slot_import if begin.is_valkey else lambda: skip_key_meta(source)
        )
        types = other_types(begin.is_valkey, self._templates)
        while (number := source.byte()) != 255:
            if number in self._opcodes:
                self._opcodes[number]()
            elif number == 250:
                yield AuxField(read_string(source), read_string(source))
            elif number in _STREAMS:
                yield from self._stream(StreamType(number))
            elif number in types:
                name = read_string(source)
                types[number].skip(source)
                self._counts[types[number].name] += 1
                yield OtherKey(name, self._database, types[number].name)
                self._expires_at_ms = None
            else:
                raise source.error(f"type {number} is not known in RDB version {begin.version}")
        yield self._end(begin)

    def _begin(self) -> FileBegin:
        magic = self._source.take(_MAGIC_BYTES)
        is_valkey = magic.startswith(b"VALKEY")
        version = magic[6:] if is_valkey else magic[5:]
        if not (is_valkey or magic.startswith(b"REDIS")) or not version.isdigit():
            raise RdbError("this is not an RDB file", 0)
        return FileBegin(int(version), is_valkey)

    def _stream(self, kind: StreamType) -> Iterator[StreamPart]:
        source = self._source
        name, node_count = read_string(source), read_length(source)
        expires_at_ms, self._expires_at_ms = self._expires_at_ms, None
        yield StreamBegin(name, self._database, expires_at_ms, kind, node_count, source.offset)
        yield from read_stream(source, kind, node_count, with_entries=self._with_entries)
        self._counts["stream"] += 1
        yield StreamEnd(name)

    def _end(self, begin: FileBegin) -> FileEnd:
        """Check the checksum; 0 means that the server was configured to write none."""
        source = self._source
        checksum = 0
        if begin.version >= _CHECKSUM_SINCE:
            computed = source.checksum
            checksum = source.number(8)
            if checksum not in (0, computed):
                raise source.error("the file has a wrong checksum")
        return FileEnd(dict(self._counts), source.offset, checksum != 0)

    # Opcodes

    def _select(self) -> None:
        self._database = read_length(self._source)

    def _expire_s(self) -> None:
        self._expires_at_ms = self._source.number(4, signed=True) * 1000

    def _expire_ms(self) -> None:
        self._expires_at_ms = self._source.number(8, signed=True)

    def _lengths(self, count: int) -> None:
        for _ in range(count):
            read_length(self._source)

    def _module(self) -> None:
        self._lengths(3)
        skip_module_value(self._source)

    def _old_function(self) -> None:
        """Skip a function of a Redis 7.0 release candidate: name, engine, description, code."""
        source = self._source
        skip_string(source)
        skip_string(source)
        if read_length(source):
            skip_string(source)
        skip_string(source)

    def _slot_import(self) -> None:
        skip_string(self._source)
        self._lengths(2 * read_length(self._source))

    def _template(self) -> None:
        source = self._source
        number, count = read_length(source), read_length(source)
        for _ in range(count):
            skip_string(source)
        self._templates[number] = count
