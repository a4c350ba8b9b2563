"""Files: streams part by part; other keys are passed over; damage is an error with its place."""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from random import Random

import pytest

from headgate.app.backends.copying.filling import unmark
from headgate.app.backends.plain.commands import CommandFile
from headgate.app.backends.plain.rdb_file import RdbFile
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
)
from headgate.app.rdb.file import read_file
from headgate.app.rdb.payload import write_stream
from headgate.app.rdb.source import RdbError, checksum_of, stream_type
from headgate.app.rdb.strings import length, string
from headgate.engine.images import GroupImage, KeysImage
from tests.unit.app.rdb.images import entries_of, image, with_keys
from tests.virtual_time import ManualClock

STREAM = with_keys(image(Random(3)))

MODULE = length(99) + b"\x01\x05\x02\x06\x03" + bytes(4) + b"\x04" + bytes(8) + b"\x05\x02ab\x00"

VALUES = {
    0: (b"\xc3\x05\x0a\x00a\xe0\x00\x00", "string"),
    1: (b"\x02\x01a\xc0\x05", "list"),
    2: (b"\x01\xc1\x05\x05", "set"),
    3: (b"\x04\x01a\xfd\x01b\xfe\x01c\xff\x01d\x031.5", "zset"),
    4: (b"\x01\x01a\xc2\x05\x05\x05\x05", "hash"),
    5: (b"\x01\x01a" + bytes(8), "zset"),
    7: (MODULE, "module"),
    14: (b"\x02\x01a\x01b", "list"),
    16: (b"\x03abc", "hash"),
    18: (b"\x02\x01\x01a\x02\x01b", "list"),
    22: (b"\x01\x05\x01a\x01b", "hash"),
    24: (bytes(8) + b"\x01\x05\x01a\x01b", "hash"),
    25: (bytes(8) + b"\x03abc", "hash"),
    28: (b"\x02\x01\x07\x00\x00\x01a\x01\x02" + bytes(8), "array"),
    32: (b"\x05\x01a\x01b", "hash"),
    33: (b"\x40\xff", "gcra"),
}


def written(*parts: bytes, magic: bytes = b"REDIS0015", checksum: int | None = None) -> bytes:
    body = magic + b"".join(parts) + b"\xff"
    is_ = checksum_of(body) if checksum is None else checksum
    return body + is_.to_bytes(8, "little")


def stream_parts(name: bytes, version: int = 14) -> bytes:
    kind = stream_type(version)
    return bytes((kind,)) + string(name) + b"".join(write_stream(STREAM, kind))


def events_of(data: bytes) -> list[Event]:
    return list(read_file(BytesIO(data)))


def test_a_stream_comes_in_parts() -> None:
    begin, *parts, counters, groups, end = collapsed(
        read_file(BytesIO(written(b"\xfe\x02\xfc", (77).to_bytes(8, "little"), stream_parts(b"s"))))
    )
    assert begin == FileBegin(15, is_valkey=False)
    assert isinstance(parts[0], StreamBegin)
    assert parts[0][:3] == (b"s", 2, 77)
    entries = [entry for part in parts if isinstance(part, StreamEntries) for entry in part.entries]
    assert entries == entries_of(STREAM)
    assert isinstance(counters, StreamCounters)
    assert counters[:3] == (len(entries), entries[0].id, STREAM.counters)
    assert groups == [*STREAM.groups, STREAM.keys]
    assert end == FileEnd(
        {"stream": 1}, len(written(b"\xfe\x02\xfc" + bytes(8), stream_parts(b"s"))), True
    )


def collapsed(events: Iterator[Event]) -> list[object]:
    """Return events, with groups and keys as one list, and without the end of the stream."""
    listed = [event for event in events if not isinstance(event, StreamEnd)]
    groups = [event for event in listed if isinstance(event, GroupImage | KeysImage)]
    others: list[object] = [event for event in listed if event not in groups]
    others.insert(-1, groups)
    return others


def test_values_of_other_types_are_passed_over() -> None:
    template = b"\xf2\x05\x02\x01a\x02bc"
    keys = [bytes((kind,)) + string(b"%d" % kind) + value for kind, (value, _) in VALUES.items()]
    *others, _, end = events_of(written(template, *keys, stream_parts(b"s")))
    assert [event for event in others if isinstance(event, OtherKey)] == [
        OtherKey(b"%d" % kind, 0, name) for kind, (_, name) in VALUES.items()
    ]
    assert isinstance(end, FileEnd)
    assert end.key_counts["hash"] == 6
    assert end.key_counts["stream"] == 1


def test_valkey_has_numbers_of_its_own() -> None:
    slots = b"\xf3\x03job\x01\x05\x06"
    hash_ = b"\x16\x01h\x01\x01a\x01b" + bytes(8)
    events = events_of(written(slots, hash_, stream_parts(b"s", 11), magic=b"VALKEY080"))
    assert events[0] == FileBegin(80, is_valkey=True)
    assert events[1] == OtherKey(b"h", 0, "hash")


def test_a_file_without_a_checksum_is_read() -> None:
    end = events_of(written(stream_parts(b"s"), checksum=0))[-1]
    assert isinstance(end, FileEnd)
    assert not end.has_checksum
    assert events_of(b"REDIS0003\xff")[-1] == FileEnd({}, 10, has_checksum=False)


def test_damage_is_an_error_with_its_place() -> None:
    data = written(stream_parts(b"s"))
    for size in (8, 10, 12, 2000, len(data) - 9, len(data) - 1):
        with pytest.raises(RdbError, match=f"early, at byte {size}"):
            events_of(data[:size])
    with pytest.raises(RdbError, match="wrong checksum"):
        events_of(written(stream_parts(b"s"), checksum=1))
    with pytest.raises(RdbError, match="type 29 is not known in RDB version 15, at byte 10"):
        events_of(written(b"\x1d"))
    with pytest.raises(RdbError, match="not an RDB file"):
        events_of(b"HEADGATE and more")


def test_facts_about_the_server_and_the_keys_are_passed_over() -> None:
    facts = [
        b"\xfa\x09redis-ver\x058.8.1",
        b"\xf5\x03lib\xf6\x01a\x01b\x01\x01c\x01d\xf6\x01a\x01b\x00\x01d",
        *(b"\xf7" + length(1) + b"\x02\x01" + MODULE[2:], b"\xfe\x00\xfb\x05\x02\xf4\x01\x02\x03"),
        b"\xf3\x01META\x00\xf8\x05\xf9\x07\xfd" + (9).to_bytes(4, "little"),
    ]
    events = events_of(written(*facts, stream_parts(b"s"), stream_parts(b"t")))
    assert events[1] == AuxField(b"redis-ver", b"8.8.1")
    assert [event[:3] for event in events if isinstance(event, StreamBegin)] == [
        *((b"s", 0, 9000), (b"t", 0, None))
    ]


def test_long_strings_are_not_kept() -> None:
    size = 3 * 2**20
    keys = b"\x00\x01k" + length(size) + b"x" * size + b"\x00" + b"\x01l\x80\x7f\xff\xff\xff"
    events = read_file(BytesIO(b"REDIS0010" + keys), string_bytes_max=10)
    assert [next(events), next(events)][1] == OtherKey(b"k", 0, "string")
    with pytest.raises(RdbError, match="early"):
        next(events)


async def test_an_expiry_is_that_of_the_file_however_long_the_copy_took(tmp_path: Path) -> None:
    at_ms, clock = 2_000_000_000_000, ManualClock(1_000_000_000_000)
    path = tmp_path / "dump.rdb"
    path.write_bytes(written(b"\xfe\x00\xfc", at_ms.to_bytes(8, "little"), stream_parts(b"s")))
    source, parts = RdbFile(path, 0, clock), list[bytes]()

    clock.now_ms += 20_000
    await unmark(source, CommandFile(parts.append), b"s")
    source.close()

    assert b"".join(parts).split(b"\r\n")[2:7:2] == [b"PEXPIREAT", b"s", b"%d" % at_ms]
