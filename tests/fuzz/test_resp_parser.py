"""Any bytes in any pieces: the same commands, the same error, and nothing but that."""

from __future__ import annotations

import random

import hiredis

from headgate.app.resp.parser import CommandParser, ProtocolError, Words
from tests.fuzz import grammar, rounds
from tests.fuzz.test_resp import commands, damaged
from tests.model.wire.malformed import CASES
from tests.model.wire.replies import written

KEPT_BYTES = 64 * 1024
SHORT_CASES = [case for case in CASES if len(case) < KEPT_BYTES / 2]


def read(data: bytes, cuts: list[int], *, is_stranger: bool) -> tuple[list[Words], str]:
    """Return the commands and the error that bytes are, cut in places."""
    parser = CommandParser(word_bytes_max=10_000, command_bytes_max=100_000)
    parser.is_stranger = is_stranger
    taken = []
    for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        parser.feed(data[begin:end])
        try:
            while more := parser.take(7):
                taken += [command for command in more if command]
        except ProtocolError as error:
            return taken, str(error)
        assert parser.size_bytes <= len(data)
    return taken, ""


def bytes_of(pick: random.Random) -> bytes:
    """Return bytes that are commands, or were some before they were damaged."""
    kind = pick.random()
    if kind < 0.3:
        return commands(pick, pick.randint(1, 30))
    if kind < 0.6:
        return damaged(pick, commands(pick, pick.randint(1, 10)))[: KEPT_BYTES - 1]
    if kind < 0.8:
        return damaged(pick, pick.choice(SHORT_CASES))[: KEPT_BYTES - 1]
    if kind < 0.9:
        return pick.randbytes(pick.randint(1, 1_000))
    return b"".join(
        pick.choices([b"*", b"$", b"1", b"2", b"\r\n", b"\n", b'"', b"'", b"\\x4"], k=99)
    )


def test_cuts_change_nothing() -> None:
    for seed in rounds.seeds(100):
        pick = random.Random(seed)
        data, is_stranger = bytes_of(pick), pick.random() < 0.2
        cuts = sorted(pick.randrange(len(data)) for _ in range(pick.choice([1, 2, 9, 50])))
        with rounds.reporting_seed(seed, data, cuts), rounds.ended():
            whole = read(data, [], is_stranger=is_stranger)
            assert read(data, cuts, is_stranger=is_stranger) == whole
            if len(data) < 2_000:
                each = list(range(1, len(data)))
                assert read(data, each, is_stranger=is_stranger) == whole


def test_commands_are_what_a_reader_of_others_sees() -> None:
    for seed in rounds.seeds(100):
        pick = random.Random(seed)
        sent = [grammar.command(pick) for _ in range(pick.randint(1, 50))]
        data = b"".join(map(written, sent))
        cut = pick.randrange(len(data))
        with rounds.reporting_seed(seed, sent):
            reader = hiredis.Reader()
            reader.feed(data)
            assert [reader.gets() for _ in sent] == sent
            assert read(data, [cut], is_stranger=False) == (list(map(tuple, sent)), "")
