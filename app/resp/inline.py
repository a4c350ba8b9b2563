"""Inline commands: a line of words with quotes, as people type them (Redis: sdssplitargs)."""

from __future__ import annotations

import re

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
    """Return the words of a line, or None: a quote is not closed, or text follows a closing one."""
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
