"""Pieces: a large body is read in pieces, so that other tasks run in between.

Reading 16 MB of JSON at once would hold the event loop for a second. An array is cut where it looks
as if one object ended and the next began. If each piece then is an array of objects, so is the
whole, and its objects are the same. If one is not, the items are told apart with care: by an
expression that knows strings and brackets, and never goes back.
"""

import re
from collections.abc import Iterator

from headgate.app.wire.structure import check_dense

PIECE_BYTES = 32 * 1024
"""To read it takes two milliseconds if its strings are short."""

WHOLE_BYTES = 4 * PIECE_BYTES
"""A body of this size or less is one piece."""

_LEVELS = 30
"""Levels below an item. An entry has two; the data of an event have as many as they like."""

_STRING = rb'"(?:[^"\\]++|\\.)*+"'


def _nested(levels: int) -> bytes:
    """Return an expression for an array or an object with so many levels below it."""
    below = b"|" + _nested(levels - 1) if levels else b""
    return rb'[\[{](?:[^"\[\]{}]++|' + _STRING + below + rb")*+[\]}]"


_ITEM = re.compile(
    rb"\s*+(?:" + _nested(_LEVELS) + rb'|[^"\s\[\]{},]++|' + _STRING + rb")\s*+", re.DOTALL
)
"""An item of an array."""

_BETWEEN = re.compile(rb"\}\s*+,\s*+\{")
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


def true_end(body: bytes, begin: int) -> int | None:
    """Return the end of a piece that begins there, before a comma or the last bracket.

    None if there are no such items.
    """
    at = begin
    while True:
        end = _item_end(body, at)
        if end is None or body[end : end + 1] not in (b",", b"]"):
            return None
        if body[end : end + 1] == b"]" or end - begin >= PIECE_BYTES:
            return end
        at = end + 1


def lines(body: bytes) -> Iterator[bytes]:
    """Yield lines in pieces, each piece with its last line end."""
    begin = 0
    while len(body) - begin > WHOLE_BYTES:
        end = body.find(b"\n", begin + PIECE_BYTES) + 1 or len(body)
        yield body[begin:end]
        begin = end
    if begin < len(body) or not body:
        yield body[begin:]


def _item_end(body: bytes, begin: int) -> int | None:
    window_bytes = WHOLE_BYTES
    while True:
        end = min(begin + window_bytes, len(body))
        match = _ITEM.match(body, begin, end)
        if match is not None and match.end() < end:
            return match.end()
        if end == len(body):
            return None
        check_dense(body[begin:end])
        window_bytes *= 4
