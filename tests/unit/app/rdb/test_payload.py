"""Payloads: what is written is read again; whatever is changed in one is an error or a stream."""

import os
from random import Random

import pytest

from headgate.app.rdb.errors import RdbError
from headgate.app.rdb.payload import WrongFooter, read_payload, write_payload
from headgate.app.rdb.room import UnpackingRoom
from headgate.app.rdb.source import checksum_of
from headgate.engine.entry import MIN_ID, Entry, EntryId
from headgate.engine.images import CountersImage, GroupImage, StreamImage
from tests.unit.app.rdb.images import entries_of, image, stream_of, with_keys

MUTATIONS = int(os.environ.get("HEADGATE_TEST_MUTATIONS", "4000"))


def dumped(stream: StreamImage, version: int) -> bytes:
    return b"".join(write_payload(stream, version))


def read(payload: bytes, size_bytes_max: int = 2**21) -> StreamImage:
    return read_payload(payload, UnpackingRoom(size_bytes_max, 100_000).share())


def signed(body: bytes, version: int = 10) -> bytes:
    """Return a payload of these bytes."""
    body += version.to_bytes(2, "little")
    return body + checksum_of(body).to_bytes(8, "little")


@pytest.mark.parametrize("seed", range(8))
def test_the_newest_version_keeps_everything(seed: int) -> None:
    stream = with_keys(image(Random(seed)))
    assert read(dumped(stream, 14)) == stream
    assert read(dumped(stream, 15)) == stream


@pytest.mark.parametrize("version", [9, 10, 11, 13])
def test_older_versions_keep_what_they_know(version: int) -> None:
    stream = image(Random(version))
    stream_read = read(dumped(stream, version))
    assert entries_of(stream_read) == entries_of(stream)
    assert stream_read.counters.last_id == stream.counters.last_id
    if version > 9:
        assert stream_read.counters == stream.counters
        assert [g.entries_read for g in stream_read.groups] == [
            g.entries_read for g in stream.groups
        ]
    for theirs, ours in zip(stream_read.groups, stream.groups, strict=True):
        owners = [consumer.name for consumer in theirs.consumers]
        names = [consumer.name for consumer in ours.consumers] + [b""]
        assert [(each.id, owners[each.consumer], *each[2:]) for each in theirs.pending] == [
            (each.id, names[each.consumer], *each[2:]) for each in ours.pending
        ]
        if version > 10:
            assert theirs.consumers[: len(ours.consumers)] == ours.consumers


def test_a_group_of_redis_5_has_a_place_where_it_can_be_known() -> None:
    entries = [Entry(EntryId(ms, 0), (b"a", b"b")) for ms in (5, 6, 7)]
    ids = [EntryId(ms, 0) for ms in (0, 5, 6, 8, 9)]
    groups = [GroupImage(b"%d" % at, each, None, [], []) for at, each in enumerate(ids)]
    stream = stream_of(entries, CountersImage(EntryId(8, 0), MIN_ID, 3), groups)
    stream_read = read(dumped(stream, 9))
    assert [group.entries_read for group in stream_read.groups] == [0, 1, None, 3, None]


def test_a_footer_is_checked() -> None:
    payload = dumped(image(Random(1)), 10)
    for wrong in (b"", payload[:9], payload[-10:], payload[:-1], payload[1:], payload + b"x"):
        with pytest.raises(WrongFooter):
            read(wrong)
    for version in (0, 16, 79, 81, 65_535):
        with pytest.raises(WrongFooter):
            read(signed(payload[:-10], version))
    assert read(signed(payload[:-10], 80)) == read(payload)


@pytest.mark.parametrize(
    "body",
    [
        b"\x13\x81" + b"\xff" * 8,  # nodes without end
        b"\x13\x01\x10" + bytes(16) + b"\x81" + b"\xff" * 8,  # a node without end
        b"\x13\x01\x10"
        + bytes(16)
        + b"\xc3\x02\x81"
        + b"\xff" * 8
        + b"ab",  # it says it unpacks so
        b"\x13\x01\x10" + bytes(16) + b"\xc4",
        b"\x13\x00\x00\x01\x01\x00\x00\x00\x00\x00\x81" + b"\xff" * 8,  # groups without end
        b"\x13\x01\x0f" + bytes(15) + b"\x07\x07\x00\x00\x00\x00\x00\xff",
    ],
)
def test_no_length_is_believed(body: bytes) -> None:
    with pytest.raises(RdbError, match=r"at byte|it unpacks to more than"):
        read(signed(body))


@pytest.mark.parametrize("version", [9, 10, 11, 14])
def test_a_changed_payload_is_an_error_or_a_stream(version: int) -> None:
    pick = Random(version)
    bodies = [dumped(with_keys(image(pick, count=12)), version)[:-10] for _ in range(6)]
    errors = 0
    for _ in range(MUTATIONS // 4):
        body = bytearray(pick.choice(bodies))
        for _ in range(pick.choice([1, 1, 2, 5])):
            change(pick, body)
        try:
            stream_read = read(signed(bytes(body)))
        except RdbError:
            errors += 1
        else:
            ids = [entry.id for entry in entries_of(stream_read)]
            assert ids == sorted(set(ids))
            assert all(
                len(entry.fields) % 2 == 0 < len(entry.fields) for entry in entries_of(stream_read)
            )
            assert not ids or ids[-1] <= stream_read.counters.last_id
    assert errors > MUTATIONS // 16


def change(pick: Random, body: bytearray) -> None:
    """Change some bytes, leave some out, put some in, or repeat some."""
    at, size = pick.randrange(len(body)), pick.choice([1, 1, 2, 9, 40])
    match pick.randint(0, 4):
        case 0:
            body[at] ^= 1 << pick.randint(0, 7)
        case 1:
            body[at : at + size] = pick.randbytes(size)
        case 2:
            del body[at : at + size]
        case 3:
            body[at:at] = pick.choice(
                [b"\x81" + b"\xff" * 8, b"\x80\x7f\xff\xff\xff", b"\xc3", b"\x00"]
            )
        case _:
            body[at:at] = body[at : at + size]
    if not body:
        body += b"\x13"
