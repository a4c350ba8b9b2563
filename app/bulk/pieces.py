"""Pieces: a large body is read in pieces, so that other tasks run in between.

Reading 16 MB of JSON at once would hold the event loop for a second. An array is cut where it looks
as if one object ended and the next began. If each piece then is an array of objects, so is the
whole, and its objects are the same. If one is not, the items are told apart with care: by their
brackets, outside of strings.
"""

import re
from collections.abc import Generator, Iterator
from typing import Any

PIECE_BYTES = 32 * 1024
"""To read it takes two milliseconds if its strings are short."""

WHOLE_BYTES = 4 * PIECE_BYTES
"""A body of this size or less is one piece."""

_TEXTS = rb'[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+"'
_BRACKET = rb"([\[\]{}]?)"

_BESIDE = re.compile(rb"(?:" + _TEXTS + rb"){0,500}+" + _BRACKET, re.DOTALL)
"""Texts, and what is between them, up to a bracket if it is near: some ten microseconds."""

_INSIDE = re.compile(
    rb"(?:" + _TEXTS + rb"|[\[{](?:" + _TEXTS + rb"){0,20}+[\]}]){0,500}+" + _BRACKET, re.DOTALL
)
"""The same inside of an item: small arrays and objects are passed by at once."""

_BRACKETS_AT_ONCE = 500

_BETWEEN = re.compile(rb"\}\s*+,\s*+\{")
_BEHIND = re.compile(rb"\s*+([,\]])")
_OPENING = re.compile(rb"\s*+\[\s*+(?=\{)")


def opening_of(body: bytes) -> int | None:
    """Return the offset of the first object of a large array; None if the body is one piece."""
    match = _OPENING.match(body) if len(body) > WHOLE_BYTES else None
    return None if match is None else match.end()


def likely_end(body: bytes, begin: int) -> int | None:
    """Return the probable end of a piece that begins there; None if it goes to the end.

    The next one begins behind the comma that follows.
    """
    match = _BETWEEN.search(body, begin + PIECE_BYTES)
    return None if match is None else match.start() + 1


def true_end(body: bytes, begin: int, stop: int) -> Generator[list[Any], None, int | None]:
    """Return the end of a piece that begins there, before a comma or the last bracket.

    It yields nothing, in lists, so that other tasks run in between.

    Args:
        body: the array.
        begin: of an item.
        stop: where to look no more; it is the end if the piece has none before.

    Returns:
        None if there are no such items.
    """
    depth, at, brackets = 0, begin, 0
    while True:
        match = (_INSIDE if depth else _BESIDE).match(body, at, stop)
        assert match is not None  # it may be empty
        at, bracket = match.end(), match[1]
        if not bracket:
            if match.start() == at:  # the end, or a text that has none
                return stop if stop < len(body) else None
            yield []
            continue
        depth += 1 if bracket in b"[{" else -1
        if depth < 0:
            has_items = bracket == b"]" and bool(body[begin : at - 1].strip())
            return at - 1 if has_items else None
        if depth == 0 and at - begin >= PIECE_BYTES:
            behind = _BEHIND.match(body, at)
            return None if behind is None else behind.start(1)
        brackets += 1
        if brackets % _BRACKETS_AT_ONCE == 0:
            yield []


def lines(body: bytes) -> Iterator[bytes]:
    """Yield lines in pieces, each piece with its last line end."""
    begin = 0
    while len(body) - begin > WHOLE_BYTES:
        end = body.find(b"\n", begin + PIECE_BYTES) + 1 or len(body)
        yield body[begin:end]
        begin = end
    if begin < len(body) or not body:
        yield body[begin:]
