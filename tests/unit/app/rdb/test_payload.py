"""Payloads, their listpacks and their room: what is written is read again, within bounds."""

import os
from random import Random

import pytest

from headgate.app.rdb import listpack
from headgate.app.rdb.listpack import BadListpack, Listpack, as_bytes, portions
from headgate.app.rdb.payload import WrongFooter, read_payload, write_payload
from headgate.app.rdb.source import (
    GivenUp,
    RdbError,
    RoomTaken,
    TooMuch,
    UnpackingRoom,
    checksum_of,
)
from headgate.app.rdb.strings import decompress
from headgate.engine.entry import MIN_ID, Entry, EntryId
from headgate.engine.images import CountersImage, GroupImage, StreamImage
from tests.unit.app.rdb.bombs import BOMBS, Bomb
from tests.unit.app.rdb.images import INTEGERS, ODD, entries_of, image, stream_of, with_keys

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


def test_shares_have_one_bound_together() -> None:
    room = UnpackingRoom(100, 10)
    with room.share() as first, room.share() as second:
        first.take(60, 6)
        for size_bytes, elements in ((41, 0), (0, 5)):
            with pytest.raises(RoomTaken):
                second.take(size_bytes, elements)
        for size_bytes, elements in ((101, 0), (0, 11)):
            with pytest.raises(TooMuch):
                second.take(size_bytes, elements)
        first.give_back(20)
        second.take(60, 4)
    assert (room.size_bytes, room.elements) == (0, 0)
    with pytest.raises(GivenUp):
        second.take(0)
    second.give_back(5)
    second.close()
    assert (room.size_bytes, room.elements) == (0, 0)


@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: bomb.name)
def test_a_payload_is_refused_while_it_is_read(bomb: Bomb) -> None:
    steps = 0

    def count_steps() -> None:
        nonlocal steps
        steps += 1

    room = UnpackingRoom(2**20, 20_000, count_steps)
    with room.share() as share, pytest.raises(TooMuch):
        read_payload(bomb.payload, share)
    assert room.size_bytes == room.elements == 0
    assert steps <= 100


STRINGS = [b"x" * size for size in (1, 62, 63, 64, 125, 126, 127, 4095, 4096, 16_380, 16_381)]
STRINGS += [b"x" * size for size in (2**21 - 7, 2**21 - 6, 2**21)]

counted: list[int] = []
"""Counts of the listpacks of these tests."""


def test_strings_come_back_as_they_were() -> None:
    values = [*STRINGS, *ODD, *(b"%d" % number for number in INTEGERS)]
    packed = listpack.pack(list(map(listpack.string, values)))
    elements = Listpack(packed, counted.append)
    assert as_bytes(elements.take(len(values))) == values
    elements.end()


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"\x07\x00\x00\x00\x00\x00\xfe", b"\x08\x00\x00\x00\x00\x00\xff"),
        b"\x09\x00\x00\x00\x01\x00\x05\x02\xff",  # its length is another one behind it
        *(b"\x09\x00\x00\x00\x01\x00\xc5\x01\xff", b"\x08\x00\x00\x00\x01\x00\xbf\xff"),
        *(b"\x0b\x00\x00\x00\x01\x00\xf0\xff\xff\xff\xff", b"\x09\x00\x00\x00\x01\x00\xf7\x01\xff"),
    ],
)
def test_what_is_no_listpack_is_refused(data: bytes) -> None:
    with pytest.raises(BadListpack):
        Listpack(data, counted.append).take(1)


@pytest.mark.parametrize(("count", "taken"), [(3, 2), (2, 1), (1, 2), (0, 0)])
def test_a_wrong_count_is_refused(count: int, taken: int) -> None:
    data = bytearray(listpack.pack([listpack.integer(1), listpack.integer(2)]))
    data[4] = count
    elements = Listpack(bytes(data), counted.append)
    elements.take(taken)
    with pytest.raises(BadListpack):
        elements.end()


def test_no_more_is_decoded_than_may_be_counted() -> None:
    left = 3_000

    def count_down(count: int) -> None:
        nonlocal left
        left -= count
        if left < 0:
            raise OverflowError

    elements = Listpack(listpack.pack([listpack.integer(7)] * 70_000), count_down)
    with pytest.raises(OverflowError):
        elements.take(70_000)
    assert left > -1_100


def test_runs_and_copies() -> None:
    assert decompress(b"\x02abc\x20\x02", 6) == b"abcabc"
    assert decompress(b"\x00a\xe0\xff\x00", 265) == b"a" * 265
    assert decompress(b"\x01ab\x60\x01\x00c", 8) == b"ababababc"[:7] + b"c"
    assert decompress(b"", 0) == b""


@pytest.mark.parametrize(
    ("packed", "size"),
    [
        *((b"\x02ab", 3), (b"\x02abc", 4), (b"\x02abc", 2), (b"\x00a\x20\x01", 4)),
        *((b"\x00a\xe0", 99), (b"\x00a\x20", 4), (b"\x00a\xe0\xff\x00" * 50, 265)),
    ],
)
def test_what_is_no_lzf_is_refused(packed: bytes, size: int) -> None:
    with pytest.raises(ValueError, match="compressed bytes"):
        decompress(packed, size)


def test_many_empty_names_and_values_fill_a_node_as_short_ones_do() -> None:
    wide = [Entry(EntryId(number, 0), (b"", b"") * 5_000) for number in (1, 2, 3)]
    narrow = [Entry(EntryId(number, 0), (b"", b"")) for number in (4, 5, 6)]
    assert [*portions(wide + narrow)] == [*([entry] for entry in wide), narrow]
