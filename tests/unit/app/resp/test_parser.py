"""Commands from bytes, however these are cut."""

import sys
from collections.abc import Iterable

import pytest

from headgate.app.resp import parser as parser_module
from headgate.app.resp.parser import CommandParser, Words
from headgate.engine.limits import COMMAND_WORDS_MAX


def parser() -> CommandParser:
    return CommandParser(word_bytes_max=100_000, command_bytes_max=1_000_000)


def written(words: Iterable[bytes]) -> bytes:
    words = list(words)
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in words)


def all_of(reader: CommandParser, data: bytes, cuts: list[int]) -> list[Words]:
    commands: list[Words] = []
    for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        reader.feed(data[begin:end])
        while taken := reader.take(7):
            commands += taken
    return commands


def test_a_long_command_keeps_no_more_words_than_can_be_run() -> None:
    reader = parser()
    reader.feed(written([b"a"] * (COMMAND_WORDS_MAX + 10_000)) + written([b"PING"]))
    long, ping = all_of(reader, b"", [])
    assert (len(long), ping) == (COMMAND_WORDS_MAX + 1, (b"PING",))


@pytest.mark.parametrize(
    "part",
    [
        *(b"\r\n", b"*0\r\n", b"PING\r\n", b"*1\r\n$4\r\nPING\r\n"),
        b"*2\r\n$4\r\nECHO\r\n$600\r\n%b\r\n" % (b"\r\n" * 300),
        b"*2\r\n$4\r\nECHO\r\n$1100\r\n%b\r\n" % (b"\r\n" * 550),
        b"*1\r\n$4\r\nPING\r\n" * 1_000 + b"\r\n" * 4_000,
    ],
)
def test_what_is_split_is_not_split_again(part: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    split, split_bytes = parser_module._whole_commands, 0

    def counted(data: bytes, count_max: int) -> tuple[list[Words], int]:
        nonlocal split_bytes
        split_bytes += len(data)
        return split(data, count_max)

    monkeypatch.setattr(parser_module, "_whole_commands", counted)
    data = part * (2**19 // len(part) + 1)
    reader = parser()
    reader.feed(data)
    count = 0
    while taken := reader.take(1_000):
        count += len(taken)
    assert reader.is_empty
    assert split_bytes < 6 * len(data) + parser_module._SPLIT_BYTES_MIN * count


def test_what_a_client_only_announces_is_not_kept() -> None:
    reader = parser()
    reader.feed(b"*2\r\n$4\r\nECHO\r\n$5000\r\nabc")
    assert reader.take(1) == []
    assert reader.size_bytes == len(b"ECHO") + len(b"abc")


def test_what_was_taken_is_not_kept() -> None:
    reader, data = parser(), written([b"ECHO", b"x" * 50_000])
    held = sys.getrefcount(data)
    reader.feed(data)
    assert reader.take(10) == [(b"ECHO", b"x" * 50_000)]
    assert sys.getrefcount(data) == held
