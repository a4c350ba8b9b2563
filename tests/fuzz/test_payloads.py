"""Payloads of DUMP and files of RDB, damaged: memory and steps have a bound, and so have errors.

A payload keeps a checksum that is right, so that all behind it is read. What is changed are bytes,
lengths, and whole parts, which are left out, repeated, or come from another payload.
"""

from __future__ import annotations

import io
import random
import tracemalloc
from collections.abc import Callable, Iterable
from contextlib import suppress

import pytest

from headgate.app.rdb.file import read_file
from headgate.app.rdb.payload import read_payload, write_payload
from headgate.app.rdb.source import RdbError, StreamType, UnpackingRoom, stream_type
from headgate.app.rdb.strings import length, string
from headgate.engine.errors import StreamError
from tests.fuzz import rounds
from tests.unit.app.rdb.bombs import BOMBS, signed
from tests.unit.app.rdb.images import image, with_keys

VERSIONS = {kind: next(n for n in range(9, 16) if stream_type(n) is kind) for kind in StreamType}

_FOOTER_BYTES = 10
_ROOM_BYTES, _ELEMENTS = 2**20, 50_000

_STEPS_MAX = 1_000
"""Portions of elements: each has one element at least, and most have 256 or 1024."""

_SLACK_BYTES = 2**20
"""Tables of a few kilobytes, and what the reader itself has."""

_LENGTHS = [0, 1, 63, 64, 16_383, 2**14, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**64 - 1]


def bodies_of(pick: random.Random, version: int) -> list[bytes]:
    """Return some payloads without their ends."""
    streams = [with_keys(image(pick, count=pick.choice([0, 3, 40]))) for _ in range(2)]
    return [b"".join(write_payload(each, version))[:-_FOOTER_BYTES] for each in streams]


def changed(pick: random.Random, body: bytes, other: bytes) -> bytes:
    """Return a body in which something is changed."""
    at, size = pick.randrange(len(body) + 1), pick.choice([1, 1, 2, 9, 40, 4_000])
    behind = body[at + size :]
    match pick.randint(0, 7):
        case 0:
            return body[:at] + pick.randbytes(size) + behind
        case 1:
            return body[:at] + behind
        case 2:
            return body[: at + size] * pick.choice([1, 2, 30]) + behind
        case 3:
            return body[:at] + length(pick.choice(_LENGTHS)) + body[at + pick.randint(0, 2) :]
        case 4:
            begin = pick.randrange(len(other))
            return body[:at] + other[begin : begin + size] + behind
        case 5:  # compressed: a run, and copies of it
            copies = b"\xe0\xff\x00" * pick.choice([1, 100, 5_000])
            packed = b"\x01" + pick.randbytes(2) + copies
            says = pick.choice([2 + 264 * (len(copies) // 3), *_LENGTHS])
            return body[:at] + b"\xc3" + length(len(packed)) + length(says) + packed + behind
        case 6:
            flipped = bytearray(body)
            for _ in range(pick.randint(1, 3)):
                flipped[pick.randrange(len(body))] ^= 1 << pick.randint(0, 7)
            return bytes(flipped)
        case _:
            return body[:at]


def damaged(pick: random.Random, bodies: list[bytes]) -> bytes:
    body = pick.choice(bodies)
    for _ in range(pick.choice([0, 1, 1, 1, 2, 4])):
        body = changed(pick, body, pick.choice(bodies)) or b"\x13"
    return body


def peak_of(read: Callable[[], object]) -> int:
    """Return how much memory it takes to read something, whatever is wrong with that."""
    tracemalloc.start()
    try:
        with suppress(RdbError, StreamError):
            read()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def exhaust(events: Iterable[object]) -> None:
    for _ in events:
        pass


@pytest.mark.parametrize("kind", StreamType)
def test_a_damaged_payload_has_bounds(kind: StreamType) -> None:
    steps = 0

    def count_steps() -> None:
        nonlocal steps
        steps += 1

    for seed in rounds.seeds(5):
        pick = random.Random(seed)
        version = VERSIONS[kind]
        bodies = bodies_of(pick, version)
        if pick.random() < 0.1:
            bodies += [pick.choice(BOMBS).payload[:-_FOOTER_BYTES]]
        for _ in range(20):
            payload = signed(damaged(pick, bodies), version)
            room = UnpackingRoom(_ROOM_BYTES, _ELEMENTS, count_steps)
            steps = 0
            with rounds.ended(), rounds.reporting_seed(seed, payload), room.share() as share:
                peak = peak_of(lambda: read_payload(payload, share))  # noqa: B023 at once
                assert peak <= 3 * (len(payload) + _ROOM_BYTES) + _SLACK_BYTES
                assert steps <= _STEPS_MAX
            assert room.size_bytes == room.elements == 0


@pytest.mark.parametrize("kind", StreamType)
def test_a_damaged_file_has_bounds(kind: StreamType) -> None:
    for seed in rounds.seeds(5):
        pick = random.Random(seed)
        bodies = bodies_of(pick, VERSIONS[kind])
        for _ in range(20):
            body = damaged(pick, bodies)
            magic = b"REDIS%04d" % VERSIONS[kind]
            other = b"\x00" + string(b"other") + string(b"value")
            file = magic + other + body[:1] + string(b"s") + body[1:] + b"\xff" + bytes(8)
            with rounds.ended(), rounds.reporting_seed(seed, file):
                whole = pick.random() < 0.7

                def read() -> None:
                    events = read_file(
                        io.BytesIO(file),  # noqa: B023 at once
                        with_entries=whole,  # noqa: B023
                        string_bytes_max=_ROOM_BYTES,
                    )
                    exhaust(events)

                assert peak_of(read) <= 60 * len(file) + 4 * _ROOM_BYTES + _SLACK_BYTES
