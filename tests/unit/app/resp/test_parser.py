"""Commands from bytes, however these are cut."""

import random

import pytest

from headgate.app.resp.parser import CommandParser, ProtocolError
from headgate.engine.limits import COMMAND_WORDS_MAX


def parser() -> CommandParser:
    return CommandParser(word_bytes_max=100_000, command_bytes_max=1_000_000)


def written(words: list[bytes]) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in words)


def all_of(reader: CommandParser, data: bytes, cuts: list[int]) -> list[list[bytes]]:
    commands = []
    for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        reader.feed(data[begin:end])
        while taken := reader.take(7):
            commands += taken
    return commands


@pytest.mark.parametrize("seed", range(30))
def test_any_commands_in_any_pieces(seed: int) -> None:
    pick = random.Random(seed)
    values = [b"", b"a", b"\r\n", b"*3\r\n$1\r\n", b"\0" * 9, b"x" * 2_000, b"$5", b"y" * 70_000]
    commands = [
        [pick.choice(values) for _ in range(pick.randint(1, 6))] for _ in range(pick.randint(1, 30))
    ]
    data = b"".join(map(written, commands))
    cuts = sorted(pick.randrange(len(data)) for _ in range(pick.choice([0, 1, 20])))
    assert all_of(parser(), data, cuts) == commands


def test_commands_before_an_error_are_taken_first() -> None:
    reader = parser()
    reader.feed(written([b"PING"]) * 2 + b"*1\r\n:1\r\n" + written([b"PING"]))
    assert reader.take(10) == [[b"PING"]] * 2
    for _ in range(2):
        with pytest.raises(ProtocolError, match=r"expected '\$', got ':'"):
            reader.take(10)


def test_a_long_command_keeps_no_more_words_than_can_be_run() -> None:
    reader = parser()
    reader.feed(written([b"a"] * (COMMAND_WORDS_MAX + 10_000)) + written([b"PING"]))
    long, ping = all_of(reader, b"", [])
    assert (len(long), ping) == (COMMAND_WORDS_MAX + 1, [b"PING"])


def test_a_stranger_sends_little() -> None:
    for data, text in [
        (b"*11\r\n", "unauthenticated multibulk length"),
        (b"*1\r\n$16385\r\n", "unauthenticated bulk length"),
    ]:
        reader = parser()
        reader.is_stranger = True
        reader.feed(data)
        with pytest.raises(ProtocolError, match=text):
            reader.take(1)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"ping", [b"ping"]),
        (b"  a\tb  ", [b"a", b"b"]),
        (rb'"a\x41\n\"" '.strip() + b" 'it\\'s'", [b'aA\n"', b"it's"]),
        (b'a"b"', [b"ab"]),
        (b'""', [b""]),
        (b"", []),
    ],
)
def test_a_line_is_a_command(line: bytes, words: list[bytes]) -> None:
    reader = parser()
    reader.feed(line + b"\r\nPING\n")
    assert reader.take(5) == [*([words] if words else []), [b"PING"]]


@pytest.mark.parametrize("line", [b'"a', b"'a", b'"a"b', rb'"a\"'])
def test_a_quote_that_is_not_closed(line: bytes) -> None:
    reader = parser()
    reader.feed(line + b"\r\n")
    with pytest.raises(ProtocolError, match="unbalanced quotes"):
        reader.take(5)
