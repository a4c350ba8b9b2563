"""Values of other types than streams: passed over, byte by byte right, and not kept.

| type | value |
|---|---|
| 0, 9 to 13, 16, 17, 20, 30 | a string; mostly one in which all elements are packed |
| 1, 2, 4, 14 | a count, and so many strings; hashes have two for each |
| 3, 5 | sorted sets: a count, and so many strings with a number as text, or of 8 bytes |
| 7 | a module's: its id, and *opcodes*: 1 and 2 an integer, 3 and 4 a number of 4 or 8 bytes, 5 a string, 0 the end |
| 18 | a count, and so many nodes: a number that says how it is packed, and a string |
| 22, 24 | hashes with a time for each field: a count, and so many times and pairs of strings; 24 begins with a time |
| 23, 25 | hashes with times, in one string; 25 begins with a time |
| 22 of Valkey | a hash with a time of 8 bytes behind each field and value |
| 28 | arrays: a count, 1 and a place or 0, and so many places with a kind and a string (0, 3) or 8 bytes (1, 2) |
| 32 | a hash by a template: the number of the template, and a string for each of its fields |
| 33 | a number |

Redis 8.10 also has types 29 and 31 in payloads, and never in files.
"""  # noqa: E501 the lines of the table

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from headgate.app.rdb.source import Source
from headgate.app.rdb.strings import read_length, skip_string

KEY_META = 243
"""Stands before a value that has metadata of modules (Redis 8.6)."""

_TEXT_NUMBERS = range(253, 256)  # not a number, and the infinities: no text follows

Skip = Callable[[Source], None]


class OtherType(NamedTuple):
    name: str  # as the command TYPE says it
    skip: Skip


def skip_module_value(source: Source) -> None:
    while opcode := read_length(source):
        if opcode in (1, 2):
            read_length(source)
        elif opcode in (3, 4):
            source.skip(4 if opcode == 3 else 8)
        elif opcode == 5:
            skip_string(source)
        else:
            raise source.error(f"a module's value has the unknown opcode {opcode}")


def skip_key_meta(source: Source) -> None:
    for _ in range(read_length(source)):
        source.skip(4)
        skip_module_value(source)


def other_types(is_valkey: bool, templates: Mapping[int, int]) -> dict[int, OtherType]:
    """Return all other types by number; `templates` has the sizes of hash templates."""

    def skip_by_template(source: Source) -> None:
        number = read_length(source)
        if number not in templates:
            raise source.error(f"a hash has the unknown template {number}")
        _strings(templates[number], source)

    types = _TYPES | {32: OtherType("hash", skip_by_template)}
    if is_valkey:
        types[22] = OtherType("hash", _skip_timed_fields)
    return types


def _strings(count: int, source: Source) -> None:
    for _ in range(count):
        skip_string(source)


def _skip_list(source: Source) -> None:
    _strings(read_length(source), source)


def _skip_hash(source: Source) -> None:
    _strings(2 * read_length(source), source)


def _skip_text_scores(source: Source) -> None:
    for _ in range(read_length(source)):
        skip_string(source)
        size_bytes = source.byte()
        source.skip(0 if size_bytes in _TEXT_NUMBERS else size_bytes)


def _skip_scores(source: Source) -> None:
    for _ in range(read_length(source)):
        skip_string(source)
        source.skip(8)


def _skip_quicklist(source: Source) -> None:
    for _ in range(read_length(source)):
        read_length(source)
        skip_string(source)


def _skip_module(source: Source) -> None:
    read_length(source)
    skip_module_value(source)


def _skip_expiring_hash(source: Source) -> None:
    for _ in range(read_length(source)):
        read_length(source)
        _strings(2, source)


def _behind_time(skip: Skip) -> Skip:
    def skip_both(source: Source) -> None:
        source.skip(8)
        skip(source)

    return skip_both


def _skip_timed_fields(source: Source) -> None:
    for _ in range(read_length(source)):
        _strings(2, source)
        source.skip(8)


def _skip_array(source: Source) -> None:
    count = read_length(source)
    if read_length(source):
        read_length(source)
    for _ in range(count):
        read_length(source)
        kind = read_length(source)
        if kind in (0, 3):
            skip_string(source)
        elif kind in (1, 2):
            source.skip(8)
        else:
            raise source.error(f"an array has an element of the unknown kind {kind}")


def _skip_number(source: Source) -> None:
    read_length(source)


_TYPES = {
    0: OtherType("string", skip_string),
    1: OtherType("list", _skip_list),
    2: OtherType("set", _skip_list),
    3: OtherType("zset", _skip_text_scores),
    4: OtherType("hash", _skip_hash),
    5: OtherType("zset", _skip_scores),
    7: OtherType("module", _skip_module),
    9: OtherType("hash", skip_string),
    10: OtherType("list", skip_string),
    11: OtherType("set", skip_string),
    12: OtherType("zset", skip_string),
    13: OtherType("hash", skip_string),
    14: OtherType("list", _skip_list),
    16: OtherType("hash", skip_string),
    17: OtherType("zset", skip_string),
    18: OtherType("list", _skip_quicklist),
    20: OtherType("set", skip_string),
    22: OtherType("hash", _skip_expiring_hash),
    23: OtherType("hash", skip_string),
    24: OtherType("hash", _behind_time(_skip_expiring_hash)),
    25: OtherType("hash", _behind_time(skip_string)),
    28: OtherType("array", _skip_array),
    30: OtherType("hash", skip_string),
    33: OtherType("gcra", _skip_number),
}
