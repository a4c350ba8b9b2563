"""Parser: from the bytes of a client to commands, with the protocol errors of Redis.

Most bytes are whole commands in the form that client libraries write. `_whole_commands` splits
them at C speed. Everything else goes through `_Slow`, which reads as Redis does: the first part of
a command whose end has not arrived, inline commands, unusual numbers, and errors.

hiredis gains little here. Its reader takes 0.44 µs for a command of five words, and 0.28 µs more to
look first for lengths that it would allocate arrays for. `_whole_commands` takes 0.8 µs, has no
such lengths to fear, and knows where a command ends, as protocol errors and inline commands need.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import repeat

from headgate.engine.limits import COMMAND_WORDS_MAX

_WORD = re.compile(
    rb"""
    (?P<plain>[^ \n\r\t"']++)
    | "(?P<double>(?:\\x[0-9a-fA-F]{2}|\\.|[^"\\])*+)"
    | '(?P<single>(?:\\'|[^'])*+)'
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_CHARACTERS = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"a": b"\a"}
_BLANKS = b" \n\r\t\v\f"  # before a word, and after a quote
_ENDS = b" \n\r\t"  # of a word without quotes


def split_line(line: bytes) -> list[bytes] | None:
    """Split a line into words; None if a quote is not closed, or text follows a closing one."""
    line = line.partition(b"\0")[0]  # where C ends a string
    words: list[bytes] = []
    at = _skip(line, 0)
    while at < len(line):
        word = b""
        while at < len(line) and line[at] not in _ENDS:
            match = _WORD.match(line, at)
            if match is None:
                return None
            at = match.end()
            if match["plain"] is not None:
                word += match["plain"]
                continue
            word += _unquoted(match)
            if at < len(line) and line[at] not in _BLANKS:
                return None
            break
        words.append(word)
        at = _skip(line, at)
    return words


def _skip(line: bytes, at: int) -> int:
    while at < len(line) and line[at] in _BLANKS:
        at += 1
    return at


def _unquoted(match: re.Match[bytes]) -> bytes:
    if match["single"] is not None:
        return match["single"].replace(b"\\'", b"'")
    return _ESCAPE.sub(_character, match["double"])


def _character(match: re.Match[bytes]) -> bytes:
    escape: bytes = match[1]
    if len(escape) == 3:
        return bytes.fromhex(escape[1:].decode())
    return _CHARACTERS.get(escape, escape)


COUNT_MAX = 2**31 - 1
"""Words that a command may announce (Redis: INT_MAX). No more than `COMMAND_WORDS_MAX` are kept."""

STRANGER_WORDS_MAX = 10
STRANGER_WORD_BYTES_MAX = 16_384
"""Longest word of a client before its login (Redis: the same)."""

LINE_BYTES_MAX = 64 * 1024
"""Of an inline command, or of the digits of a length (Redis: PROTO_INLINE_MAX_SIZE)."""

_KNOWN_MAX = 1024
_LENGTHS = [b"$%d" % size for size in range(_KNOWN_MAX)]
_COUNTS = {b"*%d" % count: count for count in range(1, _KNOWN_MAX)}

_SPLIT_BYTES = 64 * 1024
_SPLIT_BYTES_MIN = 256
"""Split at once. If less than half of it are whole commands, the next part is half as long: what
is split for nothing is split again, and a value that is full of line ends makes an object of each.
"""


_TAKEN_BYTES = 128 * 1024
"""Read at once, as others wait meanwhile; a command that begins within is read to its end."""


Words = tuple[bytes, ...]
"""A command: its name, and what follows."""


class ProtocolError(Exception):
    """Bytes that are not a command. The text is the reply, and the connection ends."""


class CommandParser:
    """Reads commands: `feed` takes bytes, `take` returns the complete commands."""

    def __init__(self, *, word_bytes_max: int, command_bytes_max: int) -> None:
        """`word_bytes_max` bounds one word (proto-max-bulk-len of Redis)."""
        self.is_stranger = False  # the client has not said who it is: it may send little
        self._data = b""
        self._at = 0
        self._error: str | None = None  # comes after the commands before it
        self._slow = _Slow(word_bytes_max, command_bytes_max)
        self._split_bytes = _SPLIT_BYTES

    @property
    def is_empty(self) -> bool:
        return self._at >= len(self._data) and not self._slow.is_within and self._error is None

    @property
    def size_bytes(self) -> int:
        """Return how many bytes are kept that are in no command yet."""
        return len(self._data) - self._at + self._slow.size_bytes

    @property
    def is_within(self) -> bool:
        return self._slow.is_within

    def feed(self, data: bytes) -> None:
        self._data = self._data[self._at :] + data if self._at < len(self._data) else data
        self._at = 0

    def take(self, count_max: int) -> list[Words]:
        """Return the next complete commands, about `count_max` at most; none if bytes are missing.

        A command may be empty: it does nothing and has no reply. Raises ProtocolError if an invalid
        command comes next; earlier calls returned the commands before it.
        """
        if self._error is not None:
            raise ProtocolError(self._error)
        commands: list[Words] = []
        end = min(len(self._data), self._at + _TAKEN_BYTES)
        while self._at < end and len(commands) < count_max:
            if not self._slow.is_within and self._take_whole(commands, count_max - len(commands)):
                continue
            try:
                command = self._take_slowly()
            except ProtocolError as error:
                self._error = str(error)  # the error itself knows who took it, and so this parser
                break
            if command is None:
                break
            commands.append(command)
        if self._at >= len(self._data):
            self._data, self._at = b"", 0  # it would stay until the client says more
        if self._error is not None and not commands:
            raise ProtocolError(self._error)
        return commands

    def _take_whole(self, commands: list[Words], count_max: int) -> bool:
        data, at = self._data, self._at
        if self.is_stranger or data[at : at + 1] != b"*":
            return False
        end = data.rfind(b"\r\n", at, at + self._split_bytes)
        if end < 0:
            return False
        taken, size_bytes = _whole_commands(data[at:end], count_max)
        if size_bytes * 2 >= end - at:
            self._split_bytes = min(self._split_bytes * 2, _SPLIT_BYTES)
        elif len(taken) < count_max:
            self._split_bytes = max(self._split_bytes // 2, _SPLIT_BYTES_MIN)
        self._at += size_bytes
        commands += taken
        return bool(taken)

    def _take_slowly(self) -> Words | None:
        command, self._at = self._slow.take(self._data, self._at, is_stranger=self.is_stranger)
        return command


def _whole_commands(data: bytes, count_max: int) -> tuple[list[Words], int]:
    """Return the leading commands in the usual form, and their length.

    The line end of the last one is not in `data`, but counts.
    """
    lines = data.split(b"\r\n")
    if (alike := _alike_commands(lines, count_max)) is not None:
        return alike, len(data) + 2
    commands: list[Words] = []
    at, line_count = 0, len(lines)
    while at < line_count and len(commands) < count_max:
        count = _COUNTS.get(lines[at])
        if count is None:
            break
        end = at + 1 + 2 * count
        if end > line_count:
            break
        words = lines[at + 2 : end : 2]
        if not _are_lengths_of(words, lines[at + 1 : end : 2]):
            break
        commands.append(tuple(words))
        at = end
    if at == line_count:
        return commands, len(data) + 2
    return commands, sum(map(len, lines[:at])) + 2 * at


def _alike_commands(lines: list[bytes], count_max: int) -> list[Words] | None:
    """Return commands of equal length together, which takes half the time; else None."""
    first = lines[0]
    count = _COUNTS.get(first)
    if count is None:
        return None
    line_count = 1 + 2 * count  # of each command
    command_count = len(lines) // line_count
    if (
        not 1 < command_count <= count_max
        or command_count * line_count != len(lines)
        or lines[::line_count].count(first) != command_count
    ):
        return None
    lines = lines.copy()
    del lines[::line_count]
    words = lines[1::2]
    if not _are_lengths_of(words, lines[::2]):
        return None
    each = iter(words)
    return list(zip(*repeat(each, count), strict=True))


def _are_lengths_of(words: Iterable[bytes], lines: list[bytes]) -> bool:
    """Return whether each line is the length of its word, for short words."""
    try:
        return list(map(_LENGTHS.__getitem__, map(len, words))) == lines
    except IndexError:
        return False


class _Slow:
    """Reads one command, wherever it is split."""

    def __init__(self, word_bytes_max: int, command_bytes_max: int) -> None:
        self._word_bytes_max = word_bytes_max
        self._command_bytes_max = command_bytes_max
        self._line = b""  # the beginning of a line
        self._forget()

    def _forget(self) -> None:
        self._words: list[bytes] | None = None  # None: the command has not begun
        self._left = 0  # words that are still to come
        self._missing: int | None = None  # bytes of a word, with its line end; None: its length
        self._part = bytearray()  # the beginning of a word
        self._size_bytes = 0  # of the words

    @property
    def is_within(self) -> bool:
        return self._words is not None or bool(self._line)

    @property
    def size_bytes(self) -> int:
        missing = max((self._missing or 0) - 2, 0)
        return self._size_bytes - missing + len(self._line)

    def take(self, data: bytes, at: int, *, is_stranger: bool) -> tuple[Words | None, int]:
        """Return a command, None if incomplete, and where the next one begins."""
        if self._words is None:
            first = self._line[:1] or data[at : at + 1]
            if first != b"*":
                return self._inline(data, at)
            header, at = self._line_of(data, at, "too big mbulk count string")
            if header is None:
                return None, at
            self._left = _count_of(header, is_stranger=is_stranger)
            if self._left <= 0:
                return (), at
            self._words = []
        while self._left:
            if self._missing is None:
                at = self._begin_word(data, at, is_stranger=is_stranger)
            if self._missing is None or not (at := self._go_on(data, at)):
                return None, at or len(data)
        words = tuple(self._words)
        self._forget()
        return words, at

    def _begin_word(self, data: bytes, at: int, *, is_stranger: bool) -> int:
        header, at = self._line_of(data, at, "too big bulk count string")
        if header is not None:
            size = _length_of(header, self._word_bytes_max, is_stranger=is_stranger)
            self._size_bytes += size
            if self._size_bytes > self._command_bytes_max:
                raise ProtocolError("Protocol error: invalid bulk length")
            self._missing = size + 2
        return at

    def _go_on(self, data: bytes, at: int) -> int:
        """Take the next part of a word; return its end, or 0 if the end is missing."""
        assert self._missing is not None
        assert self._words is not None
        part = data[at : at + self._missing]
        self._missing -= len(part)
        if self._missing:
            self._part += part
            return 0
        if self._part:
            self._part += part
            del self._part[-2:]
            word = bytes(self._part)
        else:
            word = part[:-2]
        if len(self._words) <= COMMAND_WORDS_MAX:  # a command with more is refused
            self._words.append(word)
        self._part, self._missing = bytearray(), None
        self._left -= 1
        return at + len(part)

    def _line_of(self, data: bytes, at: int, too_long: str) -> tuple[bytes | None, int]:
        """Return a line without its end, or None if incomplete, and where the next one begins."""
        if self._line:
            data, at, before = self._line + data[at:], 0, at - len(self._line)
        else:
            before = 0
        end = data.find(b"\r", at)
        if end < 0 or end + 1 >= len(data):
            self._line = data[at:]
            if len(self._line) > LINE_BYTES_MAX:
                raise ProtocolError(f"Protocol error: {too_long}")
            return None, before + len(data)
        self._line = b""
        return data[at:end], before + end + 2

    def _inline(self, data: bytes, at: int) -> tuple[Words | None, int]:
        if self._line:
            data, at, before = self._line + data[at:], 0, at - len(self._line)
        else:
            before = 0
        end = data.find(b"\n", at)
        if end < 0:
            self._line = data[at:]
            if len(self._line) > LINE_BYTES_MAX:
                raise ProtocolError("Protocol error: too big inline request")
            return None, before + len(data)
        self._line = b""
        words = split_line(data[at:end].removesuffix(b"\r"))
        if words is None:
            raise ProtocolError("Protocol error: unbalanced quotes in request")
        return tuple(words), before + end + 1


def _number(digits: bytes) -> int | None:
    """Read a number as string2ll of Redis does: no blanks, no `+`, no leading zeros."""
    if not digits.removeprefix(b"-").isdigit() or len(digits) > 20:
        return None
    value = int(digits)
    is_canonical = b"%d" % value == digits and -(2**63) <= value < 2**63
    return value if is_canonical else None


def _count_of(header: bytes, *, is_stranger: bool) -> int:
    count = _number(header[1:])
    if count is None or count > COUNT_MAX:
        raise ProtocolError("Protocol error: invalid multibulk length")
    if is_stranger and count > STRANGER_WORDS_MAX:
        raise ProtocolError("Protocol error: unauthenticated multibulk length")
    return count


def _length_of(header: bytes, size_max: int, *, is_stranger: bool) -> int:
    if header[:1] != b"$":
        sign = (header[:1] or b"\r").decode(errors="surrogateescape")
        raise ProtocolError(f"Protocol error: expected '$', got '{sign}'")
    size = _number(header[1:])
    if size is None or not 0 <= size <= size_max:
        raise ProtocolError("Protocol error: invalid bulk length")
    if is_stranger and size > STRANGER_WORD_BYTES_MAX:
        raise ProtocolError("Protocol error: unauthenticated bulk length")
    return size
